-- Time of janky frames by stack: the input of flame graphs.
WITH sums AS (
  SELECT
    s.app AS app,
    s.stack AS stack,
    SUM(s.slices) AS slices,
    SUM(s.self_ns) AS self_ns
  FROM stack_rollups AS s
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR s.app = chosen.app)
    AND (chosen.screen = '' OR s.screen = chosen.screen)
  GROUP BY s.app, s.stack
),
counts AS (
  SELECT r.app AS app, r.cause_key AS stack, r.devices AS devices
  FROM chosen
  CROSS JOIN reach AS r
  WHERE r.kind = 'stack'
    AND r.grouped_by = CASE WHEN chosen.screen = '' THEN '' ELSE 'screen' END
    AND (chosen.screen = '' OR r.screen = chosen.screen)
)
SELECT
  s.app AS app,
  s.stack AS stack,
  c.devices AS devices,
  s.slices AS slices,
  s.self_ns AS self_ns
FROM sums AS s
JOIN counts AS c ON c.app = s.app AND c.stack = s.stack
ORDER BY self_ns DESC, app, stack
