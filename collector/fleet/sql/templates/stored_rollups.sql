-- Relations of sums over Parquet files, after `views.sql` and `rollups.sql`. The engine's own views
-- `stored_capture_rollups` … must exist. Sums of a part of which another part has captures too are made of rows.
CREATE TEMPORARY VIEW mixed_parts AS
  SELECT DISTINCT s.part AS part
  FROM stored_captures AS s
  JOIN kept AS k ON k.capture_id = s.capture_id
  WHERE k.part <> s.part
  UNION
  SELECT DISTINCT k.part AS part
  FROM stored_losses AS s
  JOIN kept_reports AS k ON k.report_id = s.report_id
  WHERE k.part <> s.part
