-- Captures that devices report as lost, by reason and window. Unconfirmed: the capture may have arrived.
SELECT
  l.app AS app,
  l.reason AS reason,
  l.window_id AS window_id,
  COUNT(DISTINCT l.device) AS devices,
  COUNT(*) AS row_count,
  SUM(l.captures) AS captures,
  SUM(l.unconfirmed) AS unconfirmed
FROM losses AS l
CROSS JOIN chosen
WHERE chosen.app = '' OR l.app = chosen.app
GROUP BY l.app, l.reason, l.window_id
ORDER BY captures DESC, app, reason, window_id
