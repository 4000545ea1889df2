-- Percentiles of the time that late frames of ledgers took past their deadlines, by app, dimensions and source, nearest rank: the
-- middle of the bucket.
SELECT
  h.app AS app,{
  h.dimension AS dimension,}
  h.name AS source,
  SUM(h.amount) AS amount,
  nearest_rank(h.bucket_ns, h.amount, 50) AS p50_ns,
  nearest_rank(h.bucket_ns, h.amount, 90) AS p90_ns,
  nearest_rank(h.bucket_ns, h.amount, 99) AS p99_ns
FROM chosen_ledger_histograms AS h
CROSS JOIN chosen
WHERE h.kind = 'overrun'
  AND (chosen.screen = '' OR h.screen = chosen.screen)
GROUP BY h.app{, h.dimension}, h.name
ORDER BY app{, dimension}, source
