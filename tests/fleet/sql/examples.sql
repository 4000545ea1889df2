-- The three captures that show each cause best: those in which it took most time.
WITH of_captures AS (
  SELECT
    s.app AS app,
    s.cause AS cause,
    s.cause_key AS cause_key,
    s.capture_id AS capture_id,
    SUM(s.self_ns) AS self_ns
  FROM frame_slices AS s
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR s.app = chosen.app)
    AND (chosen.screen = '' OR s.screen = chosen.screen)
  GROUP BY s.app, s.cause, s.cause_key, s.capture_id
),
placed AS (
  SELECT
    app,
    cause,
    cause_key,
    capture_id,
    self_ns,
    ROW_NUMBER() OVER (PARTITION BY app, cause, cause_key ORDER BY self_ns DESC, capture_id) AS place
  FROM of_captures
)
SELECT
  placed.app AS app,
  placed.cause AS cause,
  placed.cause_key AS cause_key,
  placed.place AS place,
  placed.capture_id AS capture_id,
  captures.raw_key AS raw_key,
  captures.ver AS ver,
  placed.self_ns AS self_ns
FROM placed
JOIN captures ON captures.app = placed.app AND captures.capture_id = placed.capture_id
WHERE placed.place <= 3
ORDER BY app, cause, cause_key, place
