"""Runs the set of queries over Parquet with DuckDB or Spark SQL: engine.py ENGINE SQL_DIR TABLES JARS

SQL_DIR has the queries over rows, and in `rollups` those of the same names over rollups. TABLES: a directory;
for Spark s3a://bucket/path (keys and endpoint in AWS_*), with the files below it on stdin,
a line each: s3s-fs answers 500 to the question whether a directory is an object, which Spark asks before it
lists one. Prints a JSON object: for each query its columns and rows, and its time and
processor time in seconds; and the processor time of making the relations (`views`). Queries over rollups are named `rollups/NAME`.
"""

import decimal
import json
import pathlib
import sys
import time

TABLES = ["captures", "frames", "frame_slices", "stacks", "losses"]
ROLLUPS = ["capture", "frame", "startup", "cause", "stack", "loss", "device"]
TABLES += [f"{name}_rollups" for name in ROLLUPS] + ["cause_examples"]
# Run before the queries, in this order.
VIEWS = ["views", "rollup_views"]
# Views that many queries over rollups read: each engine keeps their rows in its own way.
KEPT = {"mixed_parts", "reach", "samples", "frame_sums", "frame_histograms", "cause_histograms", *TABLES[5:]}


def statements(text):
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [statement for statement in code.split(";") if statement.strip()]


def plain(value):
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def duckdb_engine(tables, _jars):
    import duckdb

    connection = duckdb.connect()
    for name in TABLES:
        files = f"{tables}/{name}/**/*.parquet"
        connection.execute(
            f"CREATE TEMPORARY VIEW stored_{name} AS SELECT * FROM read_parquet('{files}', hive_partitioning = false)"
        )

    def run(sql):
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description or []], cursor.fetchall()

    def keep(name, statement):
        if name not in KEPT:
            return [statement]
        return [statement.replace("CREATE TEMPORARY VIEW", "CREATE TEMPORARY TABLE", 1)]

    return run, keep, lambda: None


def spark_engine(tables, jars):
    import os

    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.jars", ",".join(str(jar) for jar in pathlib.Path(jars).glob("*.jar")))
        .config("spark.hadoop.fs.s3a.endpoint", os.environ.get("AWS_ENDPOINT", ""))
        .config("spark.hadoop.fs.s3a.access.key", os.environ.get("AWS_ACCESS_KEY_ID", ""))
        .config("spark.hadoop.fs.s3a.secret.key", os.environ.get("AWS_SECRET_ACCESS_KEY", ""))
        .config("spark.hadoop.fs.s3a.path.style.access", "true")
        .config("spark.hadoop.fs.s3a.attempts.maximum", "2")
        .config("spark.hadoop.fs.s3a.retry.limit", "2")
        .config("spark.hadoop.fs.s3a.connection.ssl.enabled", "false")
        .getOrCreate()
    )
    files = [line.strip() for line in sys.stdin if line.strip()]
    for name in TABLES:
        of_it = [f"{tables}/{file}" for file in files if file.startswith(f"{name}/")]
        # The directories' names are not to become columns: they stand in the files.
        reader = session.read.option("recursiveFileLookup", "true")
        reader.parquet(*of_it).createOrReplaceTempView(f"stored_{name}")

    def run(sql):
        answer = session.sql(sql)
        return answer.columns, [tuple(row) for row in answer.collect()]

    def keep(name, statement):
        return [statement, f"CACHE TABLE {name}"] if name in {"kept", *TABLES, *KEPT} else [statement]

    return run, keep, session.stop


def main():
    engine, sql_dir, tables, *jars = sys.argv[1:]
    make = {"duckdb": duckdb_engine, "spark": spark_engine}[engine]
    run, keep, end = make(tables, jars[0] if jars else None)
    sql_dir = pathlib.Path(sql_dir)
    started = time.process_time()
    for views in VIEWS:
        for statement in statements((sql_dir / f"{views}.sql").read_text()):
            for step in keep(statement.split()[3], statement):
                run(step)
    views_seconds = time.process_time() - started
    answers, seconds, processor_seconds = {}, {}, {}
    for path in sorted(sql_dir.glob("*.sql")) + sorted(sql_dir.glob("rollups/*.sql")):
        name = path.relative_to(sql_dir).with_suffix("").as_posix()
        if name in VIEWS:
            continue
        began, processor_began = time.monotonic(), time.process_time()
        columns, rows = run(path.read_text())
        seconds[name] = time.monotonic() - began
        processor_seconds[name] = time.process_time() - processor_began
        answers[name] = {"columns": columns, "rows": [[plain(value) for value in row] for row in rows]}
    json.dump({"answers": answers, "seconds": seconds, "processor_seconds": processor_seconds, "views": views_seconds}, sys.stdout)
    end()


main()
