-- Time from the start of the app to its first drawn frame, by app and version, nearest rank.
WITH placed AS (
  SELECT
    c.app AS app,
    c.ver AS ver,
    c.device AS device,
    c.startup_ns AS startup_ns,
    ROW_NUMBER() OVER (PARTITION BY c.app, c.ver ORDER BY c.startup_ns, c.capture_id) AS place,
    COUNT(*) OVER (PARTITION BY c.app, c.ver) AS total
  FROM captures AS c
  CROSS JOIN chosen
  WHERE c.startup_ns IS NOT NULL
    AND c.over_budget = 0
    AND (chosen.app = '' OR c.app = chosen.app)
)
SELECT
  app,
  ver,
  COUNT(DISTINCT device) AS devices,
  COUNT(*) AS starts,
  MIN(CASE WHEN place * 100 >= total * 50 THEN startup_ns END) AS p50_ns,
  MIN(CASE WHEN place * 100 >= total * 90 THEN startup_ns END) AS p90_ns,
  MIN(CASE WHEN place * 100 >= total * 99 THEN startup_ns END) AS p99_ns
FROM placed
GROUP BY app, ver
ORDER BY app, ver
