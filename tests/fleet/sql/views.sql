-- Views over Parquet files. The engine's own views `stored_captures`, `stored_frames` … must exist. If several
-- converters made rows of the same capture of an app, the part that is first by name counts, in all tables.
CREATE TEMPORARY VIEW kept AS
  SELECT app, capture_id, MIN(part) AS part FROM stored_captures GROUP BY app, capture_id;
CREATE TEMPORARY VIEW captures AS
  SELECT s.* FROM stored_captures AS s
  JOIN kept ON kept.app = s.app AND kept.capture_id = s.capture_id AND kept.part = s.part;
CREATE TEMPORARY VIEW frames AS
  SELECT s.* FROM stored_frames AS s
  JOIN kept ON kept.app = s.app AND kept.capture_id = s.capture_id AND kept.part = s.part;
CREATE TEMPORARY VIEW frame_slices AS
  SELECT s.* FROM stored_frame_slices AS s
  JOIN kept ON kept.app = s.app AND kept.capture_id = s.capture_id AND kept.part = s.part;
CREATE TEMPORARY VIEW stacks AS
  SELECT s.* FROM stored_stacks AS s
  JOIN kept ON kept.app = s.app AND kept.capture_id = s.capture_id AND kept.part = s.part;
CREATE TEMPORARY VIEW deaths AS
  SELECT s.* FROM stored_deaths AS s
  JOIN kept ON kept.app = s.app AND kept.capture_id = s.capture_id AND kept.part = s.part;
CREATE TEMPORARY VIEW kept_reports AS
  SELECT report_id, MIN(part) AS part FROM stored_losses GROUP BY report_id;
CREATE TEMPORARY VIEW losses AS
  SELECT s.* FROM stored_losses AS s
  JOIN kept_reports AS k ON k.report_id = s.report_id AND k.part = s.part;
CREATE TEMPORARY VIEW kept_ledgers AS
  SELECT ledger_id, MIN(part) AS part FROM stored_ledger_days GROUP BY ledger_id;
CREATE TEMPORARY VIEW ledger_days AS
  SELECT s.* FROM stored_ledger_days AS s
  JOIN kept_ledgers AS k ON k.ledger_id = s.ledger_id AND k.part = s.part;
CREATE TEMPORARY VIEW ledger_screens AS
  SELECT s.* FROM stored_ledger_screens AS s
  JOIN kept_ledgers AS k ON k.ledger_id = s.ledger_id AND k.part = s.part;
CREATE TEMPORARY VIEW ledger_buckets AS
  SELECT s.* FROM stored_ledger_buckets AS s
  JOIN kept_ledgers AS k ON k.ledger_id = s.ledger_id AND k.part = s.part;
CREATE TEMPORARY VIEW chosen AS
  SELECT '' AS app, '' AS screen;
