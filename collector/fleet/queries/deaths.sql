-- Ends of processes by reason and cause{ and dimension}, those that users noticed first. capture_id: the one that a user noticed, and
-- whose main thread was held up longest.
WITH placed AS (
  SELECT
    d.*,
    ROW_NUMBER() OVER (PARTITION BY d.app{, d.dimension}, d.reason, d.cause ORDER BY d.by_user DESC, d.waited_ns DESC, d.capture_id) AS place
  FROM death_rollups AS d
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR d.app = chosen.app)
    AND (chosen.screen = '' OR d.screen = chosen.screen)
)
SELECT
  app,{
  dimension,}
  reason,
  cause,
  SUM(p.deaths) AS deaths,
  SUM(p.by_user) AS by_user,
  SUM(p.frozen) AS frozen,
  COUNT(DISTINCT p.device) AS devices,
  COUNT(DISTINCT p.ver) AS versions,
  COUNT(DISTINCT p.screen) AS screens,
  MAX(p.pss_kb) AS pss_kb,
  MAX(p.rss_kb) AS rss_kb,
  MAX(p.waited_ns) AS waited_ns,
  MAX(CASE WHEN place = 1 THEN capture_id ELSE '' END) AS capture_id
FROM placed AS p
GROUP BY app{, dimension}, reason, cause
ORDER BY by_user DESC, deaths DESC, app{, dimension}, reason, cause
