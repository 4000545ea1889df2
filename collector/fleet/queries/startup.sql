-- Time from the start of the app to its first drawn frame, by app and version, nearest rank, the middle of the
-- bucket.
WITH steps AS (
  SELECT
    s.app AS app,
    s.ver AS ver,
    s.bucket_ns AS bucket_ns,
    SUM(s.starts) AS starts
  FROM startup_rollups AS s
  CROSS JOIN chosen
  WHERE s.kind = 'cold'
    AND (chosen.app = '' OR s.app = chosen.app)
  GROUP BY s.app, s.ver, s.bucket_ns
),
running AS (
  SELECT
    app,
    ver,
    bucket_ns,
    SUM(starts) OVER (PARTITION BY app, ver ORDER BY bucket_ns) AS so_far,
    SUM(starts) OVER (PARTITION BY app, ver) AS total
  FROM steps
)
SELECT
  running.app AS app,
  running.ver AS ver,
  MAX(r.devices) AS devices,
  MAX(running.total) AS starts,
  MIN(CASE WHEN so_far * 100 >= total * 50 THEN bucket_ns END) AS p50_ns,
  MIN(CASE WHEN so_far * 100 >= total * 90 THEN bucket_ns END) AS p90_ns,
  MIN(CASE WHEN so_far * 100 >= total * 99 THEN bucket_ns END) AS p99_ns
FROM running
JOIN reach AS r
  ON r.app = running.app AND r.kind = 'start' AND r.grouped_by = 'ver' AND r.dt = '' AND r.ver = running.ver
GROUP BY running.app, running.ver
ORDER BY app, ver
