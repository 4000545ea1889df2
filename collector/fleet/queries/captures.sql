-- Captures by app and version, and how many of them count for rates.
SELECT
  c.app AS app,
  c.ver AS ver,
  MAX(CASE WHEN c.version_code >= 0 THEN c.version_code END) AS version_code,
  MAX(r.devices) AS devices,
  {sums capture_rollups c},
  MIN(c.dt) AS first_dt,
  MAX(c.dt) AS last_dt
FROM capture_rollups AS c
JOIN reach AS r
  ON r.app = c.app AND r.kind = 'capture' AND r.grouped_by = 'ver' AND r.dt = '' AND r.ver = c.ver
CROSS JOIN chosen
WHERE chosen.app = '' OR c.app = chosen.app
GROUP BY c.app, c.ver
ORDER BY app, version_code, ver
