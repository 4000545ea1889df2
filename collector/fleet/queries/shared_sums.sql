-- Sums by fewer columns, of the chosen app and screen: several queries read each of them.
DROP TABLE IF EXISTS temp.frame_sums;
CREATE TEMPORARY TABLE frame_sums AS
  SELECT app, dt, ver, screen, pipeline, {sums frame_rollups f}
  FROM chosen_frame_rollups AS f
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  GROUP BY app, dt, ver, screen, pipeline;
DROP TABLE IF EXISTS temp.frame_histograms;
CREATE TEMPORARY TABLE frame_histograms AS
  SELECT app, ver, screen, pipeline, dur_100us, SUM(frames) AS frames
  FROM chosen_frame_rollups
  WHERE counted = 1 AND pipeline <> 'vsync_callback'
  GROUP BY app, ver, screen, pipeline, dur_100us;
DROP TABLE IF EXISTS temp.cause_histograms;
CREATE TEMPORARY TABLE cause_histograms AS
  SELECT app, ver, screen, cause, cause_key, bucket_ns, {sums cause_rollups c}
  FROM chosen_cause_rollups AS c
  GROUP BY app, ver, screen, cause, cause_key, bucket_ns;
