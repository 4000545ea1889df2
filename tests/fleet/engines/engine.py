"""Runs the queries over rows of Parquet files with DuckDB or Spark SQL: engine.py ENGINE SQL_DIR TABLES JARS

TABLES: a directory; for Spark s3a://bucket/path (keys and endpoint in AWS_*), with the files below it on stdin, a line each:
s3s-fs answers 500 to the question whether a directory is an object, which Spark asks before it lists one. Prints a JSON
object: for each query its columns and rows, and its time and processor time in seconds.
"""

import decimal
import json
import os
import pathlib
import sys
import time

TABLES = [
    "captures",
    "frames",
    "frame_slices",
    "stacks",
    "deaths",
    "losses",
    "ledger_days",
    "ledger_screens",
    "ledger_buckets",
]


def statements(text):
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [statement for statement in code.split(";") if statement.strip()]


def plain(value):
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def duckdb_engine(tables, _jars, sql_dir):
    import duckdb

    # As docs/SQL.md says: in the directory that has `tables`, first these two files, then any query.
    os.chdir(pathlib.Path(tables).parent.parent)
    connection = duckdb.connect()
    for views in ["duckdb.sql", "views.sql"]:
        connection.execute((sql_dir / views).read_text())

    def run(sql):
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description or []], cursor.fetchall()

    return run, lambda: None


# It runs for minutes: the optimising compiler takes more than it gives.
SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_engine(tables, jars, sql_dir):
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.extraJavaOptions", SHORT_RUN)
        .config("spark.executor.extraJavaOptions", SHORT_RUN)
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

    for statement in statements((sql_dir / "views.sql").read_text()):
        run(statement)
        name = statement.split()[3]
        if name in {"kept", *TABLES}:
            run(f"CACHE TABLE {name}")
    return run, session.stop


def main():
    engine, sql_dir, tables, *jars = sys.argv[1:]
    make = {"duckdb": duckdb_engine, "spark": spark_engine}[engine]
    sql_dir = pathlib.Path(sql_dir).resolve()
    sys.path.insert(0, str(sql_dir))
    import queries

    run, end = make(tables, jars[0] if jars else None, sql_dir)
    answers, seconds, processor_seconds = {}, {}, {}
    for name, text in queries.queries().items():
        began, processor_began = time.monotonic(), time.process_time()
        columns, rows = run(text)
        seconds[name] = time.monotonic() - began
        processor_seconds[name] = time.process_time() - processor_began
        answers[name] = {"columns": columns, "rows": [[plain(value) for value in row] for row in rows]}
    json.dump({"answers": answers, "seconds": seconds, "processor_seconds": processor_seconds}, sys.stdout)
    end()


main()
