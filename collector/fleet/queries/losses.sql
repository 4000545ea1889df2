-- Captures that devices report as lost, by reason and window. Unconfirmed: the capture may have arrived.
SELECT
  l.app AS app,
  l.reason AS reason,
  l.window_id AS window_id,
  MAX(r.devices) AS devices,
  {sums loss_rollups l}
FROM loss_rollups AS l
JOIN reach AS r
  ON r.app = l.app AND r.kind = 'loss' AND r.grouped_by = '' AND r.dt = '' AND r.ver = ''
    AND r.screen = '' AND r.pipeline = '' AND r.cause = l.reason AND r.cause_key = l.window_id
CROSS JOIN chosen
WHERE chosen.app = '' OR l.app = chosen.app
GROUP BY l.app, l.reason, l.window_id
ORDER BY captures DESC, app, reason, window_id
