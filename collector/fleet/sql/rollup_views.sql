-- Rendered from templates/mixed.sql, rollups.sql, fleet_rollups.sql, shared_sums.sql.
-- The tables of sums over Parquet files, for the queries in `rollups/`; after `views.sql`. The engine's own views
-- `stored_capture_rollups` … must exist. If a part has captures that count in another part, its sums are made of
-- its rows, in the views `made_…`.
CREATE TEMPORARY VIEW mixed_parts AS
  SELECT s.part AS part
  FROM stored_captures AS s
  JOIN kept AS k ON k.capture_id = s.capture_id
  WHERE k.part <> s.part
  UNION
  SELECT s.part AS part
  FROM stored_losses AS s
  JOIN kept_reports AS k ON k.report_id = s.report_id
  WHERE k.part <> s.part;
CREATE TEMPORARY VIEW mixed_captures AS
  SELECT s.* FROM captures AS s JOIN mixed_parts ON mixed_parts.part = s.part;
CREATE TEMPORARY VIEW mixed_frames AS
  SELECT s.* FROM frames AS s JOIN mixed_parts ON mixed_parts.part = s.part;
CREATE TEMPORARY VIEW mixed_frame_slices AS
  SELECT s.* FROM frame_slices AS s JOIN mixed_parts ON mixed_parts.part = s.part;
CREATE TEMPORARY VIEW mixed_stacks AS
  SELECT s.* FROM stacks AS s JOIN mixed_parts ON mixed_parts.part = s.part;
CREATE TEMPORARY VIEW mixed_losses AS
  SELECT s.* FROM losses AS s JOIN mixed_parts ON mixed_parts.part = s.part;
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
  FROM mixed_captures AS c
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
    CASE WHEN f.dur_100us < 64 THEN f.dur_100us - f.dur_100us % 1 + 0 WHEN f.dur_100us < 128 THEN f.dur_100us - f.dur_100us % 2 + 1 WHEN f.dur_100us < 256 THEN f.dur_100us - f.dur_100us % 4 + 2 WHEN f.dur_100us < 512 THEN f.dur_100us - f.dur_100us % 8 + 4 WHEN f.dur_100us < 1024 THEN f.dur_100us - f.dur_100us % 16 + 8 WHEN f.dur_100us < 2048 THEN f.dur_100us - f.dur_100us % 32 + 16 WHEN f.dur_100us < 4096 THEN f.dur_100us - f.dur_100us % 64 + 32 WHEN f.dur_100us < 8192 THEN f.dur_100us - f.dur_100us % 128 + 64 WHEN f.dur_100us < 16384 THEN f.dur_100us - f.dur_100us % 256 + 128 WHEN f.dur_100us < 32768 THEN f.dur_100us - f.dur_100us % 512 + 256 WHEN f.dur_100us < 65536 THEN f.dur_100us - f.dur_100us % 1024 + 512 WHEN f.dur_100us < 131072 THEN f.dur_100us - f.dur_100us % 2048 + 1024 WHEN f.dur_100us < 262144 THEN f.dur_100us - f.dur_100us % 4096 + 2048 WHEN f.dur_100us < 524288 THEN f.dur_100us - f.dur_100us % 8192 + 4096 WHEN f.dur_100us < 1048576 THEN f.dur_100us - f.dur_100us % 16384 + 8192 WHEN f.dur_100us < 2097152 THEN f.dur_100us - f.dur_100us % 32768 + 16384 WHEN f.dur_100us < 4194304 THEN f.dur_100us - f.dur_100us % 65536 + 32768 WHEN f.dur_100us < 8388608 THEN f.dur_100us - f.dur_100us % 131072 + 65536 WHEN f.dur_100us < 16777216 THEN f.dur_100us - f.dur_100us % 262144 + 131072 WHEN f.dur_100us < 33554432 THEN f.dur_100us - f.dur_100us % 524288 + 262144 WHEN f.dur_100us < 67108864 THEN f.dur_100us - f.dur_100us % 1048576 + 524288 WHEN f.dur_100us < 134217728 THEN f.dur_100us - f.dur_100us % 2097152 + 1048576 WHEN f.dur_100us < 268435456 THEN f.dur_100us - f.dur_100us % 4194304 + 2097152 WHEN f.dur_100us < 536870912 THEN f.dur_100us - f.dur_100us % 8388608 + 4194304 WHEN f.dur_100us < 1073741824 THEN f.dur_100us - f.dur_100us % 16777216 + 8388608 WHEN f.dur_100us < 2147483648 THEN f.dur_100us - f.dur_100us % 33554432 + 16777216 WHEN f.dur_100us < 4294967296 THEN f.dur_100us - f.dur_100us % 67108864 + 33554432 WHEN f.dur_100us < 8589934592 THEN f.dur_100us - f.dur_100us % 134217728 + 67108864 ELSE f.dur_100us - f.dur_100us % 268435456 + 134217728 END AS dur_100us,
    f.slow AS slow,
    f.janky AS janky,
    f.frozen AS frozen,
    f.level AS level,
    f.dropped_vsyncs AS dropped_vsyncs,
    f.jank_ns AS jank_ns,
    f.dur_ns AS dur_ns
  FROM mixed_frames AS f
  JOIN mixed_captures AS c ON c.capture_id = f.capture_id;
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
  FROM mixed_captures AS c
  WHERE c.startup_ns IS NOT NULL AND c.over_budget = 0
  UNION ALL
  SELECT c.part AS part, c.app AS app, c.dt AS dt, c.ver AS ver, 'warm' AS kind, c.warm_start_ns AS ns
  FROM mixed_captures AS c
  WHERE c.warm_start_ns IS NOT NULL AND c.over_budget = 0
  UNION ALL
  SELECT c.part AS part, c.app AS app, c.dt AS dt, c.ver AS ver, 'hot' AS kind, c.hot_start_ns AS ns
  FROM mixed_captures AS c
  WHERE c.hot_start_ns IS NOT NULL AND c.over_budget = 0
  UNION ALL
  SELECT c.part AS part, c.app AS app, c.dt AS dt, c.ver AS ver, 'fully_drawn' AS kind, c.ttfd_ns AS ns
  FROM mixed_captures AS c
  WHERE c.ttfd_ns IS NOT NULL AND c.over_budget = 0;
CREATE TEMPORARY VIEW starts_in_buckets AS
  SELECT part, app, dt, ver, kind, CASE WHEN ns < 32768 THEN ns - ns % 1024 + 512 WHEN ns < 65536 THEN ns - ns % 2048 + 1024 WHEN ns < 131072 THEN ns - ns % 4096 + 2048 WHEN ns < 262144 THEN ns - ns % 8192 + 4096 WHEN ns < 524288 THEN ns - ns % 16384 + 8192 WHEN ns < 1048576 THEN ns - ns % 32768 + 16384 WHEN ns < 2097152 THEN ns - ns % 65536 + 32768 WHEN ns < 4194304 THEN ns - ns % 131072 + 65536 WHEN ns < 8388608 THEN ns - ns % 262144 + 131072 WHEN ns < 16777216 THEN ns - ns % 524288 + 262144 WHEN ns < 33554432 THEN ns - ns % 1048576 + 524288 WHEN ns < 67108864 THEN ns - ns % 2097152 + 1048576 WHEN ns < 134217728 THEN ns - ns % 4194304 + 2097152 WHEN ns < 268435456 THEN ns - ns % 8388608 + 4194304 WHEN ns < 536870912 THEN ns - ns % 16777216 + 8388608 WHEN ns < 1073741824 THEN ns - ns % 33554432 + 16777216 WHEN ns < 2147483648 THEN ns - ns % 67108864 + 33554432 WHEN ns < 4294967296 THEN ns - ns % 134217728 + 67108864 WHEN ns < 8589934592 THEN ns - ns % 268435456 + 134217728 WHEN ns < 17179869184 THEN ns - ns % 536870912 + 268435456 WHEN ns < 34359738368 THEN ns - ns % 1073741824 + 536870912 WHEN ns < 68719476736 THEN ns - ns % 2147483648 + 1073741824 WHEN ns < 137438953472 THEN ns - ns % 4294967296 + 2147483648 WHEN ns < 274877906944 THEN ns - ns % 8589934592 + 4294967296 WHEN ns < 549755813888 THEN ns - ns % 17179869184 + 8589934592 WHEN ns < 1099511627776 THEN ns - ns % 34359738368 + 17179869184 WHEN ns < 2199023255552 THEN ns - ns % 68719476736 + 34359738368 WHEN ns < 4398046511104 THEN ns - ns % 137438953472 + 68719476736 WHEN ns < 8796093022208 THEN ns - ns % 274877906944 + 137438953472 WHEN ns < 17592186044416 THEN ns - ns % 549755813888 + 274877906944 WHEN ns < 35184372088832 THEN ns - ns % 1099511627776 + 549755813888 ELSE ns - ns % 2199023255552 + 1099511627776 END AS bucket_ns
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
  FROM mixed_frame_slices AS s
  GROUP BY s.part, s.app, s.dt, s.ver, s.device, s.counted, s.screen, s.cause, s.cause_key, s.capture_id, s.frame;
CREATE TEMPORARY VIEW causes_in_buckets AS
  SELECT part, app, dt, ver, screen, cause, cause_key, self_ns, overrun_ns, CASE WHEN self_ns < 32768 THEN self_ns - self_ns % 1024 + 512 WHEN self_ns < 65536 THEN self_ns - self_ns % 2048 + 1024 WHEN self_ns < 131072 THEN self_ns - self_ns % 4096 + 2048 WHEN self_ns < 262144 THEN self_ns - self_ns % 8192 + 4096 WHEN self_ns < 524288 THEN self_ns - self_ns % 16384 + 8192 WHEN self_ns < 1048576 THEN self_ns - self_ns % 32768 + 16384 WHEN self_ns < 2097152 THEN self_ns - self_ns % 65536 + 32768 WHEN self_ns < 4194304 THEN self_ns - self_ns % 131072 + 65536 WHEN self_ns < 8388608 THEN self_ns - self_ns % 262144 + 131072 WHEN self_ns < 16777216 THEN self_ns - self_ns % 524288 + 262144 WHEN self_ns < 33554432 THEN self_ns - self_ns % 1048576 + 524288 WHEN self_ns < 67108864 THEN self_ns - self_ns % 2097152 + 1048576 WHEN self_ns < 134217728 THEN self_ns - self_ns % 4194304 + 2097152 WHEN self_ns < 268435456 THEN self_ns - self_ns % 8388608 + 4194304 WHEN self_ns < 536870912 THEN self_ns - self_ns % 16777216 + 8388608 WHEN self_ns < 1073741824 THEN self_ns - self_ns % 33554432 + 16777216 WHEN self_ns < 2147483648 THEN self_ns - self_ns % 67108864 + 33554432 WHEN self_ns < 4294967296 THEN self_ns - self_ns % 134217728 + 67108864 WHEN self_ns < 8589934592 THEN self_ns - self_ns % 268435456 + 134217728 WHEN self_ns < 17179869184 THEN self_ns - self_ns % 536870912 + 268435456 WHEN self_ns < 34359738368 THEN self_ns - self_ns % 1073741824 + 536870912 WHEN self_ns < 68719476736 THEN self_ns - self_ns % 2147483648 + 1073741824 WHEN self_ns < 137438953472 THEN self_ns - self_ns % 4294967296 + 2147483648 WHEN self_ns < 274877906944 THEN self_ns - self_ns % 8589934592 + 4294967296 WHEN self_ns < 549755813888 THEN self_ns - self_ns % 17179869184 + 8589934592 WHEN self_ns < 1099511627776 THEN self_ns - self_ns % 34359738368 + 17179869184 WHEN self_ns < 2199023255552 THEN self_ns - self_ns % 68719476736 + 34359738368 WHEN self_ns < 4398046511104 THEN self_ns - self_ns % 137438953472 + 68719476736 WHEN self_ns < 8796093022208 THEN self_ns - self_ns % 274877906944 + 137438953472 WHEN self_ns < 17592186044416 THEN self_ns - self_ns % 549755813888 + 274877906944 WHEN self_ns < 35184372088832 THEN self_ns - self_ns % 1099511627776 + 549755813888 ELSE self_ns - self_ns % 2199023255552 + 1099511627776 END AS bucket_ns
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
  FROM mixed_stacks AS s
  GROUP BY s.part, s.app, s.dt, s.screen, s.stack;
CREATE TEMPORARY VIEW made_loss_rollups AS
  SELECT l.part AS part, l.app AS app, l.dt AS dt, l.reason AS reason, l.window_id AS window_id,
    COUNT(*) AS row_count, SUM(l.captures) AS captures, SUM(l.unconfirmed) AS unconfirmed
  FROM mixed_losses AS l
  GROUP BY l.part, l.app, l.dt, l.reason, l.window_id;
CREATE TEMPORARY VIEW device_rows AS
  SELECT part, app, device, 'capture' AS kind, dt AS day, ver, '' AS screen, '' AS pipeline, '' AS cause, '' AS cause_key,
    capture_id, 0 AS frames, 0 AS ns
  FROM mixed_captures
  UNION ALL
  SELECT part, app, device, 'start' AS kind, '' AS day, ver, '' AS screen, '' AS pipeline, '' AS cause, '' AS cause_key,
    capture_id, 0 AS frames, 0 AS ns
  FROM mixed_captures
  WHERE startup_ns IS NOT NULL AND over_budget = 0
  UNION ALL
  SELECT part, app, device, 'frames' AS kind, dt AS day, ver, screen, pipeline, '' AS cause, '' AS cause_key,
    capture_id, 1 AS frames, jank_ns AS ns
  FROM mixed_frames
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  UNION ALL
  SELECT part, app, device, 'cause' AS kind, '' AS day, ver, screen, '' AS pipeline, cause, cause_key,
    capture_id, 0 AS frames, CASE WHEN counted = 1 AND self_ns * 10 >= frame_ns THEN self_ns ELSE 0 END AS ns
  FROM causes_of_frames
  UNION ALL
  SELECT part, app, device, 'stack' AS kind, '' AS day, '' AS ver, screen, '' AS pipeline, '' AS cause, stack AS cause_key,
    capture_id, 0 AS frames, 0 AS ns
  FROM mixed_stacks;
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
  FROM mixed_losses
  GROUP BY part, app, device, reason, window_id;
CREATE TEMPORARY VIEW times_of_captures AS
  SELECT s.part AS part, s.app AS app, s.dt AS dt, 1 AS by_screen, s.screen AS screen, s.cause AS cause,
    s.cause_key AS cause_key, s.capture_id AS capture_id, s.ver AS ver, SUM(s.self_ns) AS self_ns
  FROM mixed_frame_slices AS s
  GROUP BY s.part, s.app, s.dt, s.screen, s.cause, s.cause_key, s.capture_id, s.ver
  UNION ALL
  SELECT s.part AS part, s.app AS app, s.dt AS dt, 0 AS by_screen, '' AS screen, s.cause AS cause,
    s.cause_key AS cause_key, s.capture_id AS capture_id, s.ver AS ver, SUM(s.self_ns) AS self_ns
  FROM mixed_frame_slices AS s
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
  JOIN mixed_captures AS c ON c.capture_id = p.capture_id
  WHERE p.place <= 3;
CREATE TEMPORARY VIEW capture_rollups AS
  SELECT s.app AS app, s.dt AS dt, s.ver AS ver, s.version_code AS version_code, s.captures AS captures, s.counted AS counted, s.triggered AS triggered, s.over_budget AS over_budget, s.recovered AS recovered, s.lost_records AS lost_records, s.anrs AS anrs, s.slow_sessions_20fps AS slow_sessions_20fps, s.slow_sessions_30fps AS slow_sessions_30fps
  FROM stored_capture_rollups AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.dt AS dt, m.ver AS ver, m.version_code AS version_code, m.captures AS captures, m.counted AS counted, m.triggered AS triggered, m.over_budget AS over_budget, m.recovered AS recovered, m.lost_records AS lost_records, m.anrs AS anrs, m.slow_sessions_20fps AS slow_sessions_20fps, m.slow_sessions_30fps AS slow_sessions_30fps
  FROM made_capture_rollups AS m;
CREATE TEMPORARY VIEW frame_rollups AS
  SELECT s.app AS app, s.dt AS dt, s.ver AS ver, s.screen AS screen, s.pipeline AS pipeline, s.hz AS hz, s.counted AS counted, s.dur_100us AS dur_100us, s.frames AS frames, s.slow AS slow, s.janky AS janky, s.frozen AS frozen, s.level_normal AS level_normal, s.level_middle AS level_middle, s.level_high AS level_high, s.level_frozen AS level_frozen, s.dropped_vsyncs AS dropped_vsyncs, s.jank_ns AS jank_ns, s.frame_ns AS frame_ns
  FROM stored_frame_rollups AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.dt AS dt, m.ver AS ver, m.screen AS screen, m.pipeline AS pipeline, m.hz AS hz, m.counted AS counted, m.dur_100us AS dur_100us, m.frames AS frames, m.slow AS slow, m.janky AS janky, m.frozen AS frozen, m.level_normal AS level_normal, m.level_middle AS level_middle, m.level_high AS level_high, m.level_frozen AS level_frozen, m.dropped_vsyncs AS dropped_vsyncs, m.jank_ns AS jank_ns, m.frame_ns AS frame_ns
  FROM made_frame_rollups AS m;
CREATE TEMPORARY VIEW startup_rollups AS
  SELECT s.app AS app, s.dt AS dt, s.ver AS ver, s.kind AS kind, s.bucket_ns AS bucket_ns, s.starts AS starts
  FROM stored_startup_rollups AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.dt AS dt, m.ver AS ver, m.kind AS kind, m.bucket_ns AS bucket_ns, m.starts AS starts
  FROM made_startup_rollups AS m;
CREATE TEMPORARY VIEW cause_rollups AS
  SELECT s.app AS app, s.dt AS dt, s.ver AS ver, s.screen AS screen, s.cause AS cause, s.cause_key AS cause_key, s.bucket_ns AS bucket_ns, s.frames AS frames, s.self_ns AS self_ns, s.overrun_ns AS overrun_ns
  FROM stored_cause_rollups AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.dt AS dt, m.ver AS ver, m.screen AS screen, m.cause AS cause, m.cause_key AS cause_key, m.bucket_ns AS bucket_ns, m.frames AS frames, m.self_ns AS self_ns, m.overrun_ns AS overrun_ns
  FROM made_cause_rollups AS m;
CREATE TEMPORARY VIEW stack_rollups AS
  SELECT s.app AS app, s.dt AS dt, s.screen AS screen, s.stack AS stack, s.slices AS slices, s.self_ns AS self_ns
  FROM stored_stack_rollups AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.dt AS dt, m.screen AS screen, m.stack AS stack, m.slices AS slices, m.self_ns AS self_ns
  FROM made_stack_rollups AS m;
CREATE TEMPORARY VIEW loss_rollups AS
  SELECT s.app AS app, s.dt AS dt, s.reason AS reason, s.window_id AS window_id, s.row_count AS row_count, s.captures AS captures, s.unconfirmed AS unconfirmed
  FROM stored_loss_rollups AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.dt AS dt, m.reason AS reason, m.window_id AS window_id, m.row_count AS row_count, m.captures AS captures, m.unconfirmed AS unconfirmed
  FROM made_loss_rollups AS m;
CREATE TEMPORARY VIEW device_rollups AS
  SELECT s.app AS app, s.device AS device, s.kind AS kind, s.day AS day, s.ver AS ver, s.screen AS screen, s.pipeline AS pipeline, s.cause AS cause, s.cause_key AS cause_key, s.captures AS captures, s.captures_once AS captures_once, s.frames AS frames, s.ns AS ns
  FROM stored_device_rollups AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.device AS device, m.kind AS kind, m.day AS day, m.ver AS ver, m.screen AS screen, m.pipeline AS pipeline, m.cause AS cause, m.cause_key AS cause_key, m.captures AS captures, m.captures_once AS captures_once, m.frames AS frames, m.ns AS ns
  FROM made_device_rollups AS m;
CREATE TEMPORARY VIEW cause_examples AS
  SELECT s.app AS app, s.dt AS dt, s.by_screen AS by_screen, s.screen AS screen, s.cause AS cause, s.cause_key AS cause_key, s.capture_id AS capture_id, s.raw_key AS raw_key, s.ver AS ver, s.self_ns AS self_ns
  FROM stored_cause_examples AS s
  LEFT JOIN mixed_parts ON mixed_parts.part = s.part
  WHERE mixed_parts.part IS NULL
  UNION ALL
  SELECT m.app AS app, m.dt AS dt, m.by_screen AS by_screen, m.screen AS screen, m.cause AS cause, m.cause_key AS cause_key, m.capture_id AS capture_id, m.raw_key AS raw_key, m.ver AS ver, m.self_ns AS self_ns
  FROM made_cause_examples AS m;
CREATE TEMPORARY VIEW reach AS
  SELECT app, kind, '' AS grouped_by, '' AS dt, '' AS ver, '' AS screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('cause', 'stack', 'loss')
  GROUP BY app, kind, cause, cause_key
  UNION ALL
  SELECT app, kind, 'ver' AS grouped_by, '' AS dt, ver, '' AS screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('capture', 'start', 'frames', 'cause')
  GROUP BY app, kind, ver, cause, cause_key
  UNION ALL
  SELECT app, kind, 'screen' AS grouped_by, '' AS dt, '' AS ver, screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('cause', 'stack')
  GROUP BY app, kind, screen, cause, cause_key
  UNION ALL
  SELECT app, kind, 'screen,ver' AS grouped_by, '' AS dt, ver, screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('frames', 'cause')
  GROUP BY app, kind, ver, screen, cause, cause_key
  UNION ALL
  SELECT app, kind, 'dt,ver' AS grouped_by, day AS dt, ver, '' AS screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, day, ver, cause, cause_key
  UNION ALL
  SELECT app, kind, 'dt,screen,ver' AS grouped_by, day AS dt, ver, screen, '' AS pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, day, ver, screen, cause, cause_key
  UNION ALL
  SELECT app, kind, 'pipeline,ver' AS grouped_by, '' AS dt, ver, '' AS screen, pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures_once) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, ver, pipeline, cause, cause_key
  UNION ALL
  SELECT app, kind, 'pipeline,screen,ver' AS grouped_by, '' AS dt, ver, screen, pipeline, cause, cause_key,
    COUNT(DISTINCT device) AS devices, SUM(captures) AS captures
  FROM device_rollups
  WHERE kind IN ('frames')
  GROUP BY app, kind, ver, screen, pipeline, cause, cause_key;
CREATE TEMPORARY VIEW times_of_devices AS
  SELECT app, 0 AS by_screen, ver, '' AS screen, kind, cause, cause_key, device, SUM(frames) AS frames, SUM(ns) AS ns
  FROM device_rollups
  WHERE kind = 'frames' OR (kind = 'cause' AND ns > 0)
  GROUP BY app, ver, kind, cause, cause_key, device
  UNION ALL
  SELECT app, 1 AS by_screen, ver, screen, kind, cause, cause_key, device, SUM(frames) AS frames, SUM(ns) AS ns
  FROM device_rollups
  WHERE kind = 'frames' OR (kind = 'cause' AND ns > 0)
  GROUP BY app, ver, screen, kind, cause, cause_key, device;
CREATE TEMPORARY VIEW observations AS
  SELECT t.app AS app, t.by_screen AS by_screen, t.ver AS ver, t.screen AS screen, t.cause AS cause,
    t.cause_key AS cause_key, CAST(t.ns AS DOUBLE) / CAST(f.frames AS DOUBLE) / 1e3 AS ms_in_1000
  FROM times_of_devices AS t
  JOIN times_of_devices AS f
    ON f.kind = 'frames' AND f.app = t.app AND f.by_screen = t.by_screen AND f.ver = t.ver
    AND f.screen = t.screen AND f.device = t.device;
CREATE TEMPORARY VIEW samples AS
  SELECT app, by_screen, ver, screen, cause, cause_key, COUNT(*) AS devices_with, SUM(ms_in_1000) AS total,
    SUM(ms_in_1000 * ms_in_1000) AS sum_of_squares
  FROM observations
  GROUP BY app, by_screen, ver, screen, cause, cause_key;
CREATE TEMPORARY VIEW frame_sums AS
  SELECT app, dt, ver, screen, pipeline, SUM(frames) AS frames, SUM(slow) AS slow, SUM(janky) AS janky,
    SUM(frozen) AS frozen, SUM(dropped_vsyncs) AS dropped_vsyncs, SUM(level_normal) AS level_normal,
    SUM(level_middle) AS level_middle, SUM(level_high) AS level_high, SUM(level_frozen) AS level_frozen,
    SUM(jank_ns) AS jank_ns, SUM(frame_ns) AS frame_ns
  FROM frame_rollups
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  GROUP BY app, dt, ver, screen, pipeline;
CREATE TEMPORARY VIEW frame_histograms AS
  SELECT app, ver, screen, pipeline, dur_100us, SUM(frames) AS frames
  FROM frame_rollups
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  GROUP BY app, ver, screen, pipeline, dur_100us;
CREATE TEMPORARY VIEW cause_histograms AS
  SELECT app, ver, screen, cause, cause_key, bucket_ns, SUM(frames) AS frames, SUM(self_ns) AS self_ns,
    SUM(overrun_ns) AS overrun_ns
  FROM cause_rollups
  GROUP BY app, ver, screen, cause, cause_key, bucket_ns;
