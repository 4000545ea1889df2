-- Traits of devices under a version, by which a comparison finds those that are alike: of their captures that count for
-- rates (`counted`). `quick_ns` is the time within which a tenth of a capture's frames are complete, times its frames: on
-- all screens, whichever is chosen.
WITH ranked AS (
  SELECT
    f.app AS app,
    f.capture_id AS capture_id,
    f.dur_ns AS dur_ns,
    ROW_NUMBER() OVER (PARTITION BY f.app, f.capture_id ORDER BY f.dur_ns) AS place,
    COUNT(*) OVER (PARTITION BY f.app, f.capture_id) AS frames
  FROM frames AS f
  CROSS JOIN chosen
  WHERE f.counted = 1
    AND f.pipeline <> 'vsync_callback'
    AND (chosen.app = '' OR f.app = chosen.app)
),
of_captures AS (
  SELECT
    app,
    capture_id,
    MAX(frames) AS frames,
    MIN(CASE WHEN place * 10 >= frames THEN dur_ns END) AS quick_ns
  FROM ranked
  GROUP BY app, capture_id
)
SELECT
  c.app AS app,
  c.ver AS ver,
  c.device AS device,
  COALESCE(c.model, '') AS model,
  COALESCE(c.api, 0) AS api,
  CASE WHEN c.period_ns = 0 THEN 0 ELSE CAST(ROUND(1e9 / c.period_ns) AS BIGINT) END AS hz,
  c.debuggable AS debuggable,
  c.emulator AS emulator,
  COUNT(*) AS captures,
  SUM(o.frames) AS frames,
  SUM(o.quick_ns * o.frames) AS quick_ns
FROM of_captures AS o
JOIN captures AS c ON c.app = o.app AND c.capture_id = o.capture_id
GROUP BY
  c.app,
  c.ver,
  c.device,
  COALESCE(c.model, ''),
  COALESCE(c.api, 0),
  CASE WHEN c.period_ns = 0 THEN 0 ELSE CAST(ROUND(1e9 / c.period_ns) AS BIGINT) END,
  c.debuggable,
  c.emulator
ORDER BY app, ver, device, model, api, hz, debuggable, emulator
