-- Values that a comparison observes: a device's frames of a day under a version by screen, with their time past the deadlines; and,
-- of each cause, its time in frames of which it took a tenth or more: work that every frame does is no cause. Only
-- captures that count for rates (`counted`). A device without time of a cause has no row of it.
WITH of_frames AS (
  SELECT
    s.app AS app,
    s.ver AS ver,
    s.device AS device,
    s.dt AS day,
    s.screen AS screen,
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
  GROUP BY s.app, s.ver, s.device, s.dt, s.screen, s.cause, s.cause_key, s.capture_id, s.frame
),
observed AS (
  SELECT
    f.app AS app,
    f.ver AS ver,
    f.device AS device,
    f.dt AS day,
    f.screen AS screen,
    '' AS cause,
    '' AS cause_key,
    COUNT(*) AS frames,
    SUM(f.jank_ns) AS ns
  FROM frames AS f
  CROSS JOIN chosen
  WHERE f.counted = 1
    AND f.pipeline <> 'vsync_callback'
    AND (chosen.app = '' OR f.app = chosen.app)
    AND (chosen.screen = '' OR f.screen = chosen.screen)
  GROUP BY f.app, f.ver, f.device, f.dt, f.screen
  UNION ALL
  SELECT app, ver, device, day, screen, cause, cause_key, 0 AS frames, SUM(self_ns) AS ns
  FROM of_frames
  WHERE in_frame_ns * 10 >= frame_ns
  GROUP BY app, ver, device, day, screen, cause, cause_key
)
SELECT app, ver, device, day, screen, cause, cause_key, frames, ns
FROM observed
WHERE frames > 0 OR ns > 0
ORDER BY app, ver, device, day, screen, cause, cause_key
