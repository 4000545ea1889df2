-- Percentiles of frame durations by app and dimensions, nearest rank, in tenths of a millisecond: the middle of the bucket.
-- Only captures that count for rates (`counted`).
SELECT
  f.app AS app,{
  f.dimension AS dimension,}
  SUM(f.frames) AS frames,
  nearest_rank(f.dur_100us, f.frames, 50) AS p50_100us,
  nearest_rank(f.dur_100us, f.frames, 90) AS p90_100us,
  nearest_rank(f.dur_100us, f.frames, 99) AS p99_100us
FROM frame_histograms AS f
GROUP BY f.app{, f.dimension}
ORDER BY app{, dimension}
