-- Time from the start of the app to its first drawn frame, by app and version, nearest rank, the middle of the
-- bucket.
SELECT
  s.app AS app,
  s.ver AS ver,
  MAX(r.devices) AS devices,
  SUM(s.starts) AS starts,
  nearest_rank(s.bucket_ns, s.starts, 50) AS p50_ns,
  nearest_rank(s.bucket_ns, s.starts, 90) AS p90_ns,
  nearest_rank(s.bucket_ns, s.starts, 99) AS p99_ns
FROM startup_rollups AS s
JOIN reach AS r
  ON r.app = s.app AND r.kind = 'start' AND r.grouped_by = 'ver' AND r.dt = '' AND r.ver = s.ver
CROSS JOIN chosen
WHERE s.kind = 'cold'
  AND (chosen.app = '' OR s.app = chosen.app)
GROUP BY s.app, s.ver
ORDER BY app, ver
