-- Ends of processes by reason and cause{ and dimension}, those that users noticed first. capture_id: the one that a user noticed, and
-- whose main thread was held up longest.
WITH placed AS (
  SELECT
    d.app AS app,{
    d.dimension AS dimension,}
    d.reason AS reason,
    d.cause AS cause,
    d.capture_id AS capture_id,
    d.device AS device,
    d.ver AS of_version,
    d.screen AS of_screen,
    1 AS of_deaths,
    CASE WHEN d.noticed_by = 'user' THEN 1 ELSE 0 END AS of_user,
    CASE WHEN d.noticed_by = 'frozen' THEN 1 ELSE 0 END AS of_frozen,
    d.pss_kb AS of_pss_kb,
    d.rss_kb AS of_rss_kb,
    d.waited_ns AS of_waited_ns,
    ROW_NUMBER() OVER (PARTITION BY d.app{, d.dimension}, d.reason, d.cause ORDER BY CASE WHEN d.noticed_by = 'user' THEN 1 ELSE 0 END DESC, d.waited_ns DESC, d.capture_id) AS place
  FROM deaths AS d
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR d.app = chosen.app)
    AND (chosen.screen = '' OR d.screen = chosen.screen)
)
SELECT
  app,{
  dimension,}
  reason,
  cause,
  SUM(of_deaths) AS deaths,
  SUM(of_user) AS by_user,
  SUM(of_frozen) AS frozen,
  COUNT(DISTINCT device) AS devices,
  COUNT(DISTINCT of_version) AS versions,
  COUNT(DISTINCT of_screen) AS screens,
  MAX(of_pss_kb) AS pss_kb,
  MAX(of_rss_kb) AS rss_kb,
  MAX(of_waited_ns) AS waited_ns,
  MAX(CASE WHEN place = 1 THEN capture_id ELSE '' END) AS capture_id
FROM placed
GROUP BY app{, dimension}, reason, cause
ORDER BY by_user DESC, deaths DESC, app{, dimension}, reason, cause
