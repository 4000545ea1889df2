CREATE TEMPORARY VIEW made_capture_rollups AS
  SELECT
    c.part AS part,
    c.app AS app,
    c.dt AS dt,
    c.ver AS ver,
    CASE WHEN c.version_code IS NULL THEN -1 ELSE c.version_code END AS version_code,
    COUNT(*) AS captures,
    SUM(c.counted) AS counted,
    SUM(CASE WHEN c.cohort = 'trigger' THEN 1 ELSE 0 END) AS triggered,
    SUM(c.over_budget) AS over_budget,
    SUM(c.recovered) AS recovered,
    SUM(c.lost_records) AS lost_records,
    SUM(c.anrs) AS anrs,
    SUM(c.counted * c.slow_session_20fps) AS slow_sessions_20fps,
    SUM(c.counted * c.slow_session_30fps) AS slow_sessions_30fps
  FROM {of}captures AS c
  GROUP BY c.part, c.app, c.dt, c.ver, CASE WHEN c.version_code IS NULL THEN -1 ELSE c.version_code END;
CREATE TEMPORARY VIEW frames_in_buckets AS
  SELECT
    f.part AS part,
    f.app AS app,
    f.dt AS dt,
    f.ver AS ver,
    f.screen AS screen,
    f.pipeline AS pipeline,
    CASE WHEN c.period_ns = 0 THEN 0 ELSE CAST(ROUND(1e9 / c.period_ns) AS BIGINT) END AS hz,
    f.counted AS counted,
    {frames f.dur_100us} AS dur_100us,
    f.slow AS slow,
    f.janky AS janky,
    f.frozen AS frozen,
    f.level AS level,
    f.dropped_vsyncs AS dropped_vsyncs,
    f.jank_ns AS jank_ns,
    f.dur_ns AS dur_ns
  FROM {of}frames AS f
  JOIN {of}captures AS c ON c.capture_id = f.capture_id;
CREATE TEMPORARY VIEW made_frame_rollups AS
  SELECT
    part,
    app,
    dt,
    ver,
    screen,
    pipeline,
    hz,
    counted,
    dur_100us,
    COUNT(*) AS frames,
    SUM(slow) AS slow,
    SUM(janky) AS janky,
    SUM(frozen) AS frozen,
    SUM(CASE WHEN level = 'normal' THEN 1 ELSE 0 END) AS level_normal,
    SUM(CASE WHEN level = 'middle' THEN 1 ELSE 0 END) AS level_middle,
    SUM(CASE WHEN level = 'high' THEN 1 ELSE 0 END) AS level_high,
    SUM(CASE WHEN level = 'frozen' THEN 1 ELSE 0 END) AS level_frozen,
    SUM(dropped_vsyncs) AS dropped_vsyncs,
    SUM(jank_ns) AS jank_ns,
    SUM(dur_ns) AS frame_ns
  FROM frames_in_buckets
  GROUP BY part, app, dt, ver, screen, pipeline, hz, counted, dur_100us;
CREATE TEMPORARY VIEW starts AS
  SELECT c.part AS part, c.app AS app, c.dt AS dt, c.ver AS ver, 'cold' AS kind, c.startup_ns AS ns
  FROM {of}captures AS c
  WHERE c.startup_ns IS NOT NULL AND c.over_budget = 0
  UNION ALL
  SELECT c.part AS part, c.app AS app, c.dt AS dt, c.ver AS ver, 'warm' AS kind, c.warm_start_ns AS ns
  FROM {of}captures AS c
  WHERE c.warm_start_ns IS NOT NULL AND c.over_budget = 0
  UNION ALL
  SELECT c.part AS part, c.app AS app, c.dt AS dt, c.ver AS ver, 'hot' AS kind, c.hot_start_ns AS ns
  FROM {of}captures AS c
  WHERE c.hot_start_ns IS NOT NULL AND c.over_budget = 0
  UNION ALL
  SELECT c.part AS part, c.app AS app, c.dt AS dt, c.ver AS ver, 'fully_drawn' AS kind, c.ttfd_ns AS ns
  FROM {of}captures AS c
  WHERE c.ttfd_ns IS NOT NULL AND c.over_budget = 0;
CREATE TEMPORARY VIEW starts_in_buckets AS
  SELECT part, app, dt, ver, kind, {times ns} AS bucket_ns
  FROM starts;
CREATE TEMPORARY VIEW made_startup_rollups AS
  SELECT part, app, dt, ver, kind, bucket_ns, COUNT(*) AS starts
  FROM starts_in_buckets
  GROUP BY part, app, dt, ver, kind, bucket_ns;
CREATE TEMPORARY VIEW causes_of_frames AS
  SELECT
    s.part AS part,
    s.app AS app,
    s.dt AS dt,
    s.ver AS ver,
    s.device AS device,
    s.counted AS counted,
    s.screen AS screen,
    s.cause AS cause,
    s.cause_key AS cause_key,
    s.capture_id AS capture_id,
    s.frame AS frame,
    MAX(s.frame_ns) AS frame_ns,
    SUM(s.self_ns) AS self_ns,
    SUM(s.overrun_ns) AS overrun_ns
  FROM {of}frame_slices AS s
  GROUP BY s.part, s.app, s.dt, s.ver, s.device, s.counted, s.screen, s.cause, s.cause_key, s.capture_id, s.frame;
CREATE TEMPORARY VIEW causes_in_buckets AS
  SELECT part, app, dt, ver, screen, cause, cause_key, self_ns, overrun_ns, {times self_ns} AS bucket_ns
  FROM causes_of_frames;
CREATE TEMPORARY VIEW made_cause_rollups AS
  SELECT
    part, app, dt, ver, screen, cause, cause_key, bucket_ns, COUNT(*) AS frames,
    SUM(self_ns) AS self_ns, SUM(overrun_ns) AS overrun_ns
  FROM causes_in_buckets
  GROUP BY part, app, dt, ver, screen, cause, cause_key, bucket_ns;
CREATE TEMPORARY VIEW made_stack_rollups AS
  SELECT s.part AS part, s.app AS app, s.dt AS dt, s.screen AS screen, s.stack AS stack,
    SUM(s.slices) AS slices, SUM(s.self_ns) AS self_ns
  FROM {of}stacks AS s
  GROUP BY s.part, s.app, s.dt, s.screen, s.stack;
CREATE TEMPORARY VIEW made_loss_rollups AS
  SELECT l.part AS part, l.app AS app, l.dt AS dt, l.reason AS reason, l.window_id AS window_id,
    COUNT(*) AS row_count, SUM(l.captures) AS captures, SUM(l.unconfirmed) AS unconfirmed
  FROM {of}losses AS l
  GROUP BY l.part, l.app, l.dt, l.reason, l.window_id;
CREATE TEMPORARY VIEW device_rows AS
  SELECT part, app, device, 'capture' AS kind, dt AS day, ver, '' AS screen, '' AS pipeline, '' AS cause, '' AS cause_key,
    capture_id, 0 AS frames, 0 AS ns
  FROM {of}captures
  UNION ALL
  SELECT part, app, device, 'start' AS kind, '' AS day, ver, '' AS screen, '' AS pipeline, '' AS cause, '' AS cause_key,
    capture_id, 0 AS frames, 0 AS ns
  FROM {of}captures
  WHERE startup_ns IS NOT NULL AND over_budget = 0
  UNION ALL
  SELECT part, app, device, 'frames' AS kind, dt AS day, ver, screen, pipeline, '' AS cause, '' AS cause_key,
    capture_id, 1 AS frames, jank_ns AS ns
  FROM {of}frames
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  UNION ALL
  SELECT part, app, device, 'cause' AS kind, '' AS day, ver, screen, '' AS pipeline, cause, cause_key,
    capture_id, 0 AS frames, CASE WHEN counted = 1 AND self_ns * 10 >= frame_ns THEN self_ns ELSE 0 END AS ns
  FROM causes_of_frames
  UNION ALL
  SELECT part, app, device, 'stack' AS kind, '' AS day, '' AS ver, screen, '' AS pipeline, '' AS cause, stack AS cause_key,
    capture_id, 0 AS frames, 0 AS ns
  FROM {of}stacks;
CREATE TEMPORARY VIEW device_captures AS
  SELECT part, app, device, kind, day, ver, screen, pipeline, cause, cause_key, capture_id,
    SUM(frames) AS frames, SUM(ns) AS ns,
    ROW_NUMBER() OVER (PARTITION BY kind, capture_id, cause, cause_key ORDER BY screen, pipeline) AS place
  FROM device_rows
  GROUP BY part, app, device, kind, day, ver, screen, pipeline, cause, cause_key, capture_id;
CREATE TEMPORARY VIEW made_device_rollups AS
  SELECT part, app, device, kind, day, ver, screen, pipeline, cause, cause_key, COUNT(*) AS captures,
    SUM(CASE WHEN place = 1 THEN 1 ELSE 0 END) AS captures_once, SUM(frames) AS frames, SUM(ns) AS ns
  FROM device_captures
  GROUP BY part, app, device, kind, day, ver, screen, pipeline, cause, cause_key
  UNION ALL
  SELECT part, app, device, 'loss' AS kind, '' AS day, '' AS ver, '' AS screen, '' AS pipeline, reason AS cause,
    window_id AS cause_key, COUNT(*) AS captures, COUNT(*) AS captures_once, 0 AS frames, 0 AS ns
  FROM {of}losses
  GROUP BY part, app, device, reason, window_id;
CREATE TEMPORARY VIEW times_of_captures AS
  SELECT s.part AS part, s.app AS app, s.dt AS dt, 1 AS by_screen, s.screen AS screen, s.cause AS cause,
    s.cause_key AS cause_key, s.capture_id AS capture_id, s.ver AS ver, SUM(s.self_ns) AS self_ns
  FROM {of}frame_slices AS s
  GROUP BY s.part, s.app, s.dt, s.screen, s.cause, s.cause_key, s.capture_id, s.ver
  UNION ALL
  SELECT s.part AS part, s.app AS app, s.dt AS dt, 0 AS by_screen, '' AS screen, s.cause AS cause,
    s.cause_key AS cause_key, s.capture_id AS capture_id, s.ver AS ver, SUM(s.self_ns) AS self_ns
  FROM {of}frame_slices AS s
  GROUP BY s.part, s.app, s.dt, s.cause, s.cause_key, s.capture_id, s.ver;
CREATE TEMPORARY VIEW placed_times AS
  SELECT part, app, dt, by_screen, screen, cause, cause_key, capture_id, ver, self_ns,
    ROW_NUMBER() OVER (
      PARTITION BY part, app, dt, by_screen, screen, cause, cause_key ORDER BY self_ns DESC, capture_id
    ) AS place
  FROM times_of_captures;
CREATE TEMPORARY VIEW made_cause_examples AS
  SELECT p.part AS part, p.app AS app, p.dt AS dt, p.by_screen AS by_screen, p.screen AS screen, p.cause AS cause,
    p.cause_key AS cause_key, p.capture_id AS capture_id, c.raw_key AS raw_key, p.ver AS ver, p.self_ns AS self_ns
  FROM placed_times AS p
  JOIN {of}captures AS c ON c.capture_id = p.capture_id
  WHERE p.place <= 3;
