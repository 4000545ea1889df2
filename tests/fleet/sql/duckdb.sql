-- Relations of the Parquet files below `tables/v3` of the current directory, for DuckDB. views.sql makes of them the relations that
-- the queries beside this file read.
SET default_null_order = 'nulls_first';
CREATE TEMPORARY VIEW stored_captures AS
  SELECT * FROM read_parquet('tables/v3/captures/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_frames AS
  SELECT * FROM read_parquet('tables/v3/frames/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_frame_slices AS
  SELECT * FROM read_parquet('tables/v3/frame_slices/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_stacks AS
  SELECT * FROM read_parquet('tables/v3/stacks/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_deaths AS
  SELECT * FROM read_parquet('tables/v3/deaths/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_losses AS
  SELECT * FROM read_parquet('tables/v3/losses/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_ledger_days AS
  SELECT * FROM read_parquet('tables/v3/ledger_days/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_ledger_screens AS
  SELECT * FROM read_parquet('tables/v3/ledger_screens/**/*.parquet', hive_partitioning = false);
CREATE TEMPORARY VIEW stored_ledger_buckets AS
  SELECT * FROM read_parquet('tables/v3/ledger_buckets/**/*.parquet', hive_partitioning = false);
