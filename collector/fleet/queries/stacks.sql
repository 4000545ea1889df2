-- Time of janky frames by stack: the input of flame graphs.
WITH sums AS (
  SELECT
    s.app AS app,
    s.stack AS stack,
    {sums stack_rollups s}
  FROM stack_rollups AS s
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR s.app = chosen.app)
    AND (chosen.screen = '' OR s.screen = chosen.screen)
  GROUP BY s.app, s.stack
)
SELECT
  s.*,
  c.devices AS devices
FROM sums AS s
CROSS JOIN chosen
CROSS JOIN reach AS c
WHERE c.app = s.app
  AND c.kind = 'stack'
  AND c.grouped_by = CASE WHEN chosen.screen = '' THEN '' ELSE 'screen' END
  AND c.dt = ''
  AND c.ver = ''
  AND c.screen = chosen.screen
  AND c.pipeline = ''
  AND c.cause = ''
  AND c.cause_key = s.stack
ORDER BY self_ns DESC, app, stack
