-- Start-ups of ledgers by app, version and kind, nearest rank, the middle of the bucket; and ends of processes by reason, without times.
SELECT
  h.app AS app,
  h.ver AS ver,
  h.kind AS kind,
  h.name AS name,
  SUM(h.amount) AS amount,
  nearest_rank(h.bucket_ns, h.amount, 50) AS p50_ns,
  nearest_rank(h.bucket_ns, h.amount, 90) AS p90_ns,
  nearest_rank(h.bucket_ns, h.amount, 99) AS p99_ns
FROM chosen_ledger_histograms AS h
WHERE h.kind <> 'overrun'
GROUP BY h.app, h.ver, h.kind, h.name
ORDER BY app, ver, kind, name
