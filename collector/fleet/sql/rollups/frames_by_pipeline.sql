-- Rendered from templates/rollup_frames.sql.
-- Smoothness by app, pipeline and version. Only captures that count for rates (`counted`).
WITH sums AS (
  SELECT
    f.app AS app,
    f.pipeline AS pipeline,
    f.ver AS ver,
    SUM(f.frames) AS frames,
    SUM(f.slow) AS slow,
    SUM(f.janky) AS janky,
    SUM(f.frozen) AS frozen,
    SUM(f.dropped_vsyncs) AS dropped_vsyncs,
    SUM(f.level_normal) AS level_normal,
    SUM(f.level_middle) AS level_middle,
    SUM(f.level_high) AS level_high,
    SUM(f.level_frozen) AS level_frozen,
    SUM(f.jank_ns) AS jank_ns,
    SUM(f.frame_ns) AS frame_ns
  FROM frame_sums AS f
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR f.app = chosen.app)
    AND (chosen.screen = '' OR f.screen = chosen.screen)
  GROUP BY f.app, f.pipeline, f.ver
)
SELECT
  s.app AS app,
  s.pipeline AS pipeline,
  s.ver AS ver,
  c.devices AS devices,
  s.frames AS frames,
  s.slow AS slow,
  s.janky AS janky,
  s.frozen AS frozen,
  s.dropped_vsyncs AS dropped_vsyncs,
  s.level_normal AS level_normal,
  s.level_middle AS level_middle,
  s.level_high AS level_high,
  s.level_frozen AS level_frozen,
  s.jank_ns AS jank_ns,
  s.frame_ns AS frame_ns
FROM sums AS s
CROSS JOIN chosen
CROSS JOIN reach AS c
WHERE c.app = s.app
  AND c.kind = 'frames'
  AND c.grouped_by = CASE WHEN chosen.screen = '' THEN 'pipeline,ver' ELSE 'pipeline,screen,ver' END
  AND c.dt = ''
  AND c.ver = s.ver
  AND c.screen = chosen.screen
  AND c.pipeline = s.pipeline
ORDER BY app, pipeline, ver
