-- Captures by app and version, and how many of them count for rates.
SELECT
  c.app AS app,
  c.ver AS ver,
  MAX(c.version_code) AS version_code,
  COUNT(DISTINCT c.device) AS devices,
  COUNT(*) AS captures,
  SUM(c.counted) AS counted,
  SUM(CASE WHEN c.cohort = 'trigger' THEN 1 ELSE 0 END) AS triggered,
  SUM(c.over_budget) AS over_budget,
  SUM(c.recovered) AS recovered,
  SUM(c.lost_records) AS lost_records,
  SUM(c.anrs) AS anrs,
  SUM(c.counted * c.slow_session_20fps) AS slow_sessions_20fps,
  SUM(c.counted * c.slow_session_30fps) AS slow_sessions_30fps,
  MIN(c.dt) AS first_dt,
  MAX(c.dt) AS last_dt
FROM captures AS c
CROSS JOIN chosen
WHERE chosen.app = '' OR c.app = chosen.app
GROUP BY c.app, c.ver
ORDER BY app, version_code, ver
