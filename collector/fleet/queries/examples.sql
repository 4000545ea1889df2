-- The three captures that show each cause best: those in which it took most time.
WITH placed AS (
  SELECT
    e.*,
    ROW_NUMBER() OVER (PARTITION BY e.app, e.cause, e.cause_key ORDER BY e.self_ns DESC, e.capture_id) AS place
  FROM cause_examples AS e
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR e.app = chosen.app)
    AND e.by_screen = CASE WHEN chosen.screen = '' THEN 0 ELSE 1 END
    AND (chosen.screen = '' OR e.screen = chosen.screen)
)
SELECT
  app,
  cause,
  cause_key,
  place,
  capture_id,
  raw_key,
  ver,
  self_ns
FROM placed
WHERE place <= 3
ORDER BY app, cause, cause_key, place
