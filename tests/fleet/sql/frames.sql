-- Smoothness by app and by each dimension. Only captures that count for rates (`counted`).
SELECT
  f.app AS app,{
  f.dimension AS dimension,}
  COUNT(DISTINCT f.device) AS devices,
  COUNT(*) AS frames,
  SUM(f.slow) AS slow,
  SUM(f.janky) AS janky,
  SUM(f.frozen) AS frozen,
  SUM(f.dropped_vsyncs) AS dropped_vsyncs,
  SUM(CASE WHEN f.level = 'normal' THEN 1 ELSE 0 END) AS level_normal,
  SUM(CASE WHEN f.level = 'middle' THEN 1 ELSE 0 END) AS level_middle,
  SUM(CASE WHEN f.level = 'high' THEN 1 ELSE 0 END) AS level_high,
  SUM(CASE WHEN f.level = 'frozen' THEN 1 ELSE 0 END) AS level_frozen,
  SUM(f.jank_ns) AS jank_ns,
  SUM(f.dur_ns) AS frame_ns,
  SUM(CASE WHEN f.evidence = 'timeline' THEN 1 ELSE 0 END) AS by_timeline,
  SUM(CASE WHEN f.evidence = 'platform' THEN 1 ELSE 0 END) AS by_platform,
  SUM(CASE WHEN f.evidence = 'buffers' THEN 1 ELSE 0 END) AS by_buffers,
  SUM(CASE WHEN f.outcome = 'system' OR f.outcome = 'display' THEN 1 ELSE 0 END) AS late_system,
  SUM(CASE WHEN f.outcome = 'stuffing' THEN 1 ELSE 0 END) AS stuffed,
  SUM(CASE WHEN f.outcome = 'dropped' THEN 1 ELSE 0 END) AS never_shown
FROM frames AS f
CROSS JOIN chosen
WHERE f.counted = 1
  AND f.pipeline <> 'vsync_callback'
  AND (chosen.app = '' OR f.app = chosen.app)
  AND (chosen.screen = '' OR f.screen = chosen.screen)
GROUP BY f.app{, f.dimension}
ORDER BY app{, dimension}
