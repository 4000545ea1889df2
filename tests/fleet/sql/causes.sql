-- Causes of jank by app{ and by dimension}, ranked by devices times overrun (the share of the time past the deadlines).
-- saved: late frames that would be in time without the cause; late: all those that rates count.
-- p50, p90 and p99: the cause's time in a frame, carried or not, nearest rank.
WITH of_frames AS (
  SELECT
    s.app AS app,{
    s.dimension AS dimension,}
    s.cause AS cause,
    s.cause_key AS cause_key,
    s.device AS device,
    s.capture_id AS capture_id,
    s.frame AS frame,
    SUM(s.self_ns) AS self_ns,
    SUM(s.carried_ns) AS carried_ns,
    SUM(s.self_ns + s.carried_ns) AS in_frame_ns,
    SUM(s.overrun_ns) AS overrun_ns,
    MAX(CASE WHEN s.counted = 1 AND s.pipeline <> 'vsync_callback' THEN s.saved ELSE 0 END) AS saved,
    MAX(CASE WHEN s.counted = 1 AND s.pipeline <> 'vsync_callback' THEN s.saved_halved ELSE 0 END) AS saved_halved,
    MAX(CASE WHEN s.counted = 1 AND s.pipeline <> 'vsync_callback' THEN s.saved_moved ELSE 0 END) AS saved_moved,
    MAX(CASE WHEN s.counted = 1 AND s.pipeline <> 'vsync_callback' THEN s.saved_most ELSE 0 END) AS saved_most
  FROM frame_slices AS s
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR s.app = chosen.app)
    AND (chosen.screen = '' OR s.screen = chosen.screen)
  GROUP BY s.app{, s.dimension}, s.cause, s.cause_key, s.device, s.capture_id, s.frame
),
placed AS (
  SELECT
    app,{
    dimension,}
    cause,
    cause_key,
    self_ns,
    carried_ns,
    in_frame_ns,
    overrun_ns,
    ROW_NUMBER() OVER (PARTITION BY app{, dimension}, cause, cause_key ORDER BY in_frame_ns, capture_id, frame) AS place,
    COUNT(*) OVER (PARTITION BY app{, dimension}, cause, cause_key) AS total
  FROM of_frames
  WHERE in_frame_ns > 0
),
with_states AS (
  SELECT app, capture_id, frame, 1 AS is_known
  FROM frame_slices
  GROUP BY app, capture_id, frame
  HAVING SUM(running_ns + runnable_ns + asleep_ns + blocked_ns) * 10 >= SUM(self_ns) * 9
),
late_of AS (
  SELECT
    f.app AS app,{
    f.dimension AS dimension,}
    f.device AS device,
    SUM(f.slow) AS late,
    SUM(CASE WHEN f.slow = 1 AND w.is_known IS NULL THEN 1 ELSE 0 END) AS late_stateless
  FROM frames AS f
  CROSS JOIN chosen
  LEFT JOIN with_states AS w ON w.app = f.app AND w.capture_id = f.capture_id AND w.frame = f.frame
  WHERE f.counted = 1
    AND f.pipeline <> 'vsync_callback'
    AND (chosen.app = '' OR f.app = chosen.app)
    AND (chosen.screen = '' OR f.screen = chosen.screen)
  GROUP BY f.app{, f.dimension}, f.device
),
all_late AS (
  SELECT
    app,{
    dimension,}
    COUNT(*) AS all_devices,
    SUM(late) AS late,
    SUM(late * late) AS late_squares,
    SUM(late_stateless) AS late_stateless
  FROM late_of
  GROUP BY app{, dimension}
),
saved_of AS (
  SELECT
    app,{
    dimension,}
    cause,
    cause_key,
    device,
    COUNT(DISTINCT capture_id) AS captures,
    SUM(saved) AS saved,
    SUM(saved_halved) AS saved_halved,
    SUM(saved_moved) AS saved_moved,
    SUM(saved_most) AS saved_most
  FROM of_frames
  GROUP BY app{, dimension}, cause, cause_key, device
),
all_saved AS (
  SELECT
    s.app AS app,{
    s.dimension AS dimension,}
    s.cause AS cause,
    s.cause_key AS cause_key,
    COUNT(*) AS devices,
    SUM(s.captures) AS captures,
    SUM(s.saved) AS saved,
    SUM(s.saved_halved) AS saved_halved,
    SUM(s.saved_moved) AS saved_moved,
    SUM(s.saved_most) AS saved_most,
    SUM(CASE WHEN s.saved > 0 THEN 1 ELSE 0 END) AS saved_devices,
    SUM(s.saved * s.saved) AS saved_squares,
    SUM(CASE WHEN l.late IS NULL THEN 0 ELSE s.saved * l.late END) AS saved_products
  FROM saved_of AS s
  LEFT JOIN late_of AS l ON l.app = s.app{ AND l.dimension = s.dimension} AND l.device = s.device
  GROUP BY s.app{, s.dimension}, s.cause, s.cause_key
),
sums AS (
  SELECT
    app,{
    dimension,}
    cause,
    cause_key,
    COUNT(*) AS frames,
    SUM(self_ns) AS self_ns,
    SUM(carried_ns) AS carried_ns,
    SUM(overrun_ns) AS overrun_ns,
    MIN(CASE WHEN place * 100 >= total * 50 THEN in_frame_ns END) AS p50_ns,
    MIN(CASE WHEN place * 100 >= total * 90 THEN in_frame_ns END) AS p90_ns,
    MIN(CASE WHEN place * 100 >= total * 99 THEN in_frame_ns END) AS p99_ns
  FROM placed
  GROUP BY app{, dimension}, cause, cause_key
)
SELECT
  p.app AS app,{
  p.dimension AS dimension,}
  p.cause AS cause,
  p.cause_key AS cause_key,
  s.devices AS devices,
  s.captures AS captures,
  p.frames AS frames,
  p.self_ns AS self_ns,
  p.carried_ns AS carried_ns,
  p.overrun_ns AS overrun_ns,
  s.devices * (CAST(p.overrun_ns AS DOUBLE) / 1e6) AS score,
  p.p50_ns AS p50_ns,
  p.p90_ns AS p90_ns,
  p.p99_ns AS p99_ns,
  s.saved AS saved,
  s.saved_halved AS saved_halved,
  s.saved_moved AS saved_moved,
  s.saved_most AS saved_most,
  s.saved_devices AS saved_devices,
  s.saved_squares AS saved_squares,
  s.saved_products AS saved_products,
  l.all_devices AS all_devices,
  l.late AS late,
  l.late_squares AS late_squares,
  l.late_stateless AS late_stateless
FROM sums AS p
JOIN all_saved AS s ON s.app = p.app{ AND s.dimension = p.dimension} AND s.cause = p.cause AND s.cause_key = p.cause_key
LEFT JOIN all_late AS l ON l.app = p.app{ AND l.dimension = p.dimension}
ORDER BY score DESC, self_ns DESC, app{, dimension}, cause, cause_key
