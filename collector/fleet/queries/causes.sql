-- Causes of jank by app and dimensions, ranked by devices times overrun (the share of the time past the deadlines).
-- saved: late frames that would be in time without the cause; late: all those that rates count.
-- p50, p90 and p99: the cause's time in a frame, carried or not, nearest rank, the middle of the bucket.
WITH sums AS (
  SELECT
    s.app AS app,{
    s.dimension AS dimension,}
    s.cause AS cause,
    s.cause_key AS cause_key,
    {sums cause_rollups s},
    nearest_rank(s.bucket_ns, s.frames, 50) AS p50_ns,
    nearest_rank(s.bucket_ns, s.frames, 90) AS p90_ns,
    nearest_rank(s.bucket_ns, s.frames, 99) AS p99_ns
  FROM cause_histograms AS s
  GROUP BY s.app{, s.dimension}, s.cause, s.cause_key
)
SELECT
  s.*,
  c.devices AS devices,
  c.captures AS captures,
  c.devices * (CAST(s.overrun_ns AS DOUBLE) / 1e6) AS score,
  c.late AS saved,
  c.late_halved AS saved_halved,
  c.late_moved AS saved_moved,
  c.late_most AS saved_most,
  c.late_devices AS saved_devices,
  c.late_squares AS saved_squares,
  c.late_products AS saved_products,
  f.devices AS all_devices,
  f.late AS late,
  f.late_squares AS late_squares,
  f.late_stateless AS late_stateless
FROM sums AS s
CROSS JOIN chosen
CROSS JOIN reach AS c
LEFT JOIN reach AS f
  ON f.app = c.app
  AND f.kind = 'frames'
  AND f.grouped_by = c.grouped_by
  AND f.dt = c.dt
  AND f.ver = c.ver
  AND f.screen = c.screen
  AND f.pipeline = c.pipeline
  AND f.cause = ''
  AND f.cause_key = ''
WHERE c.app = s.app
  AND c.kind = 'cause'
  AND c.grouped_by = {grouped_by}
  AND c.dt = {dt}
  AND c.ver = {ver}
  AND c.screen = {screen}
  AND c.pipeline = {pipeline}
  AND c.cause = s.cause
  AND c.cause_key = s.cause_key
ORDER BY score DESC, self_ns DESC, app{, dimension}, cause, cause_key
