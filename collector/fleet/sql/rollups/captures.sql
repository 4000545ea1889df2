-- Captures by app and version, and how many of them count for rates.
SELECT
  c.app AS app,
  c.ver AS ver,
  MAX(CASE WHEN c.version_code >= 0 THEN c.version_code END) AS version_code,
  MAX(r.devices) AS devices,
  SUM(c.captures) AS captures,
  SUM(c.counted) AS counted,
  SUM(c.triggered) AS triggered,
  SUM(c.over_budget) AS over_budget,
  SUM(c.recovered) AS recovered,
  SUM(c.lost_records) AS lost_records,
  SUM(c.anrs) AS anrs,
  SUM(c.slow_sessions_20fps) AS slow_sessions_20fps,
  SUM(c.slow_sessions_30fps) AS slow_sessions_30fps,
  MIN(c.dt) AS first_dt,
  MAX(c.dt) AS last_dt
FROM capture_rollups AS c
JOIN reach AS r
  ON r.app = c.app AND r.kind = 'capture' AND r.grouped_by = 'ver' AND r.dt = '' AND r.ver = c.ver
CROSS JOIN chosen
WHERE chosen.app = '' OR c.app = chosen.app
GROUP BY c.app, c.ver
ORDER BY app, version_code, ver
