-- Time of janky frames by stack: the input of flame graphs.
SELECT
  s.app AS app,
  s.stack AS stack,
  COUNT(DISTINCT s.device) AS devices,
  SUM(s.slices) AS slices,
  SUM(s.self_ns) AS self_ns
FROM stacks AS s
CROSS JOIN chosen
WHERE (chosen.app = '' OR s.app = chosen.app)
  AND (chosen.screen = '' OR s.screen = chosen.screen)
GROUP BY s.app, s.stack
ORDER BY self_ns DESC, app, stack
