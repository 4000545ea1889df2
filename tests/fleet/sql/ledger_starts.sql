-- Start-ups of ledgers by app, version and kind, nearest rank; and ends of processes by reason, without times.
WITH steps AS (
  SELECT
    b.app AS app,
    b.ver AS ver,
    b.kind AS kind,
    b.name AS name,
    b.bucket_ns AS bucket_ns,
    SUM(b.amount) AS amount
  FROM ledger_buckets AS b
  CROSS JOIN chosen
  WHERE b.kind <> 'overrun'
    AND (chosen.app = '' OR b.app = chosen.app)
  GROUP BY b.app, b.ver, b.kind, b.name, b.bucket_ns
),
running AS (
  SELECT
    app,
    ver,
    kind,
    name,
    bucket_ns,
    SUM(amount) OVER (PARTITION BY app, ver, kind, name ORDER BY bucket_ns) AS so_far,
    SUM(amount) OVER (PARTITION BY app, ver, kind, name) AS total
  FROM steps
)
SELECT
  app,
  ver,
  kind,
  name,
  MAX(total) AS amount,
  MIN(CASE WHEN so_far * 100 >= total * 50 THEN bucket_ns END) AS p50_ns,
  MIN(CASE WHEN so_far * 100 >= total * 90 THEN bucket_ns END) AS p90_ns,
  MIN(CASE WHEN so_far * 100 >= total * 99 THEN bucket_ns END) AS p99_ns
FROM running
GROUP BY app, ver, kind, name
ORDER BY app, ver, kind, name
