CREATE TEMPORARY VIEW frame_sums AS
  SELECT app, dt, ver, screen, pipeline, SUM(frames) AS frames, SUM(slow) AS slow, SUM(janky) AS janky,
    SUM(frozen) AS frozen, SUM(dropped_vsyncs) AS dropped_vsyncs, SUM(level_normal) AS level_normal,
    SUM(level_middle) AS level_middle, SUM(level_high) AS level_high, SUM(level_frozen) AS level_frozen,
    SUM(jank_ns) AS jank_ns, SUM(frame_ns) AS frame_ns
  FROM {of}frame_rollups
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  GROUP BY app, dt, ver, screen, pipeline;
CREATE TEMPORARY VIEW frame_histograms AS
  SELECT app, ver, screen, pipeline, dur_100us, SUM(frames) AS frames
  FROM {of}frame_rollups
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  GROUP BY app, ver, screen, pipeline, dur_100us;
CREATE TEMPORARY VIEW cause_histograms AS
  SELECT app, ver, screen, cause, cause_key, bucket_ns, SUM(frames) AS frames, SUM(self_ns) AS self_ns,
    SUM(overrun_ns) AS overrun_ns
  FROM {of}cause_rollups
  GROUP BY app, ver, screen, cause, cause_key, bucket_ns;
