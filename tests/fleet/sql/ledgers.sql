-- Days of devices and their counts by app and version, from ledgers.
SELECT
  l.app AS app,
  l.ver AS ver,
  COUNT(*) AS parts,
  COUNT(DISTINCT CONCAT(l.dt, l.device)) AS device_days,
  COUNT(DISTINCT CASE WHEN l.user_anrs > 0 THEN CONCAT(l.dt, l.device) END) AS anr_days,
  SUM(l.observed_s) AS observed_s,
  SUM(l.stood_still_s) AS stood_still_s,
  SUM(l.own_cost_us) AS own_cost_us,
  SUM(l.major_faults) AS major_faults,
  SUM(l.sessions) AS sessions,
  SUM(l.slow_sessions) AS slow_sessions,
  SUM(l.user_anrs) AS user_anrs,
  SUM(l.cold_starts) AS cold_starts,
  SUM(l.slow_cold_starts) AS slow_cold_starts,
  SUM(l.warm_starts) AS warm_starts,
  SUM(l.slow_warm_starts) AS slow_warm_starts,
  SUM(l.hot_starts) AS hot_starts,
  SUM(l.slow_hot_starts) AS slow_hot_starts
FROM ledger_days AS l
CROSS JOIN chosen
WHERE chosen.app = '' OR l.app = chosen.app
GROUP BY l.app, l.ver
ORDER BY app, ver
