-- Samples for a test of significance, by version: total jank, and each cause. One device is one observation: its
-- milliseconds of jank (or of the cause) per thousand frames. A cause counts in janky frames of which it took a
-- tenth or more; work that every frame does is no cause. Only captures that count for rates (`counted`). A device
-- without time of a cause is an observation of 0 and has no row of it: `devices` counts all devices.
WITH of_devices AS (
  SELECT
    f.app AS app,
    f.ver AS ver,
    f.device AS device,
    COUNT(*) AS frames,
    SUM(f.jank_ns) AS jank_ns
  FROM frames AS f
  CROSS JOIN chosen
  WHERE f.counted = 1
    AND f.pipeline <> 'vsync_callback'
    AND (chosen.app = '' OR f.app = chosen.app)
    AND (chosen.screen = '' OR f.screen = chosen.screen)
  GROUP BY f.app, f.ver, f.device
),
of_frames AS (
  SELECT
    s.app AS app,
    s.ver AS ver,
    s.device AS device,
    s.cause AS cause,
    s.cause_key AS cause_key,
    s.capture_id AS capture_id,
    s.frame AS frame,
    MAX(s.frame_ns) AS frame_ns,
    SUM(s.self_ns) AS self_ns,
    SUM(s.self_ns + s.carried_ns) AS in_frame_ns
  FROM frame_slices AS s
  CROSS JOIN chosen
  WHERE s.counted = 1
    AND (chosen.app = '' OR s.app = chosen.app)
    AND (chosen.screen = '' OR s.screen = chosen.screen)
  GROUP BY s.app, s.ver, s.device, s.cause, s.cause_key, s.capture_id, s.frame
),
of_causes AS (
  SELECT app, ver, device, cause, cause_key, SUM(self_ns) AS self_ns
  FROM of_frames
  WHERE in_frame_ns * 10 >= frame_ns
  GROUP BY app, ver, device, cause, cause_key
),
observed AS (
  SELECT
    app,
    ver,
    '' AS cause,
    '' AS cause_key,
    CAST(jank_ns AS DOUBLE) / CAST(frames AS DOUBLE) / 1e3 AS ms_in_1000
  FROM of_devices
  UNION ALL
  SELECT
    of_causes.app AS app,
    of_causes.ver AS ver,
    of_causes.cause AS cause,
    of_causes.cause_key AS cause_key,
    CAST(of_causes.self_ns AS DOUBLE) / CAST(of_devices.frames AS DOUBLE) / 1e3 AS ms_in_1000
  FROM of_causes
  JOIN of_devices
    ON of_devices.app = of_causes.app
    AND of_devices.ver = of_causes.ver
    AND of_devices.device = of_causes.device
),
counted AS (
  SELECT app, ver, COUNT(*) AS devices
  FROM of_devices
  GROUP BY app, ver
)
SELECT
  observed.app AS app,
  observed.ver AS ver,
  observed.cause AS cause,
  observed.cause_key AS cause_key,
  MAX(counted.devices) AS devices,
  COUNT(*) AS devices_with,
  SUM(observed.ms_in_1000) AS total,
  SUM(observed.ms_in_1000 * observed.ms_in_1000) AS sum_of_squares
FROM observed
JOIN counted ON counted.app = observed.app AND counted.ver = observed.ver
GROUP BY observed.app, observed.ver, observed.cause, observed.cause_key
ORDER BY app, ver, cause, cause_key
