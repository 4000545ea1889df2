-- Causes of jank by app and version, ranked by devices times overrun (the share of the time past the deadlines).
-- p50, p90 and p99: the cause's time in a frame, carried or not, nearest rank.
WITH of_frames AS (
  SELECT
    s.app AS app,
    s.ver AS ver,
    s.cause AS cause,
    s.cause_key AS cause_key,
    s.device AS device,
    s.capture_id AS capture_id,
    s.frame AS frame,
    SUM(s.self_ns) AS self_ns,
    SUM(s.carried_ns) AS carried_ns,
    SUM(s.self_ns + s.carried_ns) AS in_frame_ns,
    SUM(s.overrun_ns) AS overrun_ns
  FROM frame_slices AS s
  CROSS JOIN chosen
  WHERE (chosen.app = '' OR s.app = chosen.app)
    AND (chosen.screen = '' OR s.screen = chosen.screen)
  GROUP BY s.app, s.ver, s.cause, s.cause_key, s.device, s.capture_id, s.frame
),
placed AS (
  SELECT
    app,
    ver,
    cause,
    cause_key,
    device,
    capture_id,
    self_ns,
    carried_ns,
    in_frame_ns,
    overrun_ns,
    ROW_NUMBER() OVER (PARTITION BY app, ver, cause, cause_key ORDER BY in_frame_ns, capture_id, frame) AS place,
    COUNT(*) OVER (PARTITION BY app, ver, cause, cause_key) AS total
  FROM of_frames
  WHERE in_frame_ns > 0
)
SELECT
  app,
  ver,
  cause,
  cause_key,
  COUNT(DISTINCT device) AS devices,
  COUNT(DISTINCT capture_id) AS captures,
  COUNT(*) AS frames,
  SUM(self_ns) AS self_ns,
  SUM(carried_ns) AS carried_ns,
  SUM(overrun_ns) AS overrun_ns,
  COUNT(DISTINCT device) * (CAST(SUM(overrun_ns) AS DOUBLE) / 1e6) AS score,
  MIN(CASE WHEN place * 100 >= total * 50 THEN in_frame_ns END) AS p50_ns,
  MIN(CASE WHEN place * 100 >= total * 90 THEN in_frame_ns END) AS p90_ns,
  MIN(CASE WHEN place * 100 >= total * 99 THEN in_frame_ns END) AS p99_ns
FROM placed
GROUP BY app, ver, cause, cause_key
ORDER BY score DESC, self_ns DESC, app, ver, cause, cause_key
