-- Percentiles of the time that late frames of ledgers took past their deadlines, by app, each dimension and source, nearest rank.
WITH steps AS (
  SELECT
    b.app AS app,{
    b.dimension AS dimension,}
    b.name AS source,
    b.bucket_ns AS bucket_ns,
    SUM(b.amount) AS amount
  FROM ledger_buckets AS b
  CROSS JOIN chosen
  WHERE b.kind = 'overrun'
    AND (chosen.app = '' OR b.app = chosen.app)
    AND (chosen.screen = '' OR b.screen = chosen.screen)
  GROUP BY b.app{, b.dimension}, b.name, b.bucket_ns
),
running AS (
  SELECT
    app,{
    dimension,}
    source,
    bucket_ns,
    SUM(amount) OVER (PARTITION BY app{, dimension}, source ORDER BY bucket_ns) AS so_far,
    SUM(amount) OVER (PARTITION BY app{, dimension}, source) AS total
  FROM steps
)
SELECT
  app,{
  dimension,}
  source,
  MAX(total) AS amount,
  MIN(CASE WHEN so_far * 100 >= total * 50 THEN bucket_ns END) AS p50_ns,
  MIN(CASE WHEN so_far * 100 >= total * 90 THEN bucket_ns END) AS p90_ns,
  MIN(CASE WHEN so_far * 100 >= total * 99 THEN bucket_ns END) AS p99_ns
FROM running
GROUP BY app{, dimension}, source
ORDER BY app{, dimension}, source
