-- Percentiles of frame durations by app and by each dimension, nearest rank, in tenths of a millisecond. Only captures that
-- count for rates (`counted`).
WITH steps AS (
  SELECT
    f.app AS app,{
    f.dimension AS dimension,}
    f.dur_100us AS dur_100us,
    COUNT(*) AS frames
  FROM frames AS f
  CROSS JOIN chosen
  WHERE f.counted = 1
    AND f.pipeline <> 'vsync_callback'
    AND (chosen.app = '' OR f.app = chosen.app)
    AND (chosen.screen = '' OR f.screen = chosen.screen)
  GROUP BY f.app{, f.dimension}, f.dur_100us
),
running AS (
  SELECT
    app,{
    dimension,}
    dur_100us,
    SUM(frames) OVER (PARTITION BY app{, dimension} ORDER BY dur_100us) AS so_far,
    SUM(frames) OVER (PARTITION BY app{, dimension}) AS total
  FROM steps
)
SELECT
  app,{
  dimension,}
  MAX(total) AS frames,
  MIN(CASE WHEN so_far * 100 >= total * 50 THEN dur_100us END) AS p50_100us,
  MIN(CASE WHEN so_far * 100 >= total * 90 THEN dur_100us END) AS p90_100us,
  MIN(CASE WHEN so_far * 100 >= total * 99 THEN dur_100us END) AS p99_100us
FROM running
GROUP BY app{, dimension}
ORDER BY app{, dimension}
