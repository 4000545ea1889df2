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
