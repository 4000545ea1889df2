"""Asks Perfetto's own trace_processor about traces: reads them, answers queries in JSON.

    echo '{"files": ["a.pftrace"], "queries": ["select name, dur from slice"]}' | query.py

prints a line for each file: {"error": … or null, "stats": [[name, index, value] …], "rows": [[row …] …]}. The engine
accepts garbage without an error; `stats` has every counter of what it skipped, dropped or could not pair.
"""
import json
import sys

from engine import STATS, Engine

request = json.load(sys.stdin)
if request["queries"]:
    for path in request["files"]:
        engine = Engine()
        error = engine.load(path)
        print(json.dumps({
            "error": error,
            "stats": engine.query(STATS),
            "rows": [] if error else [engine.query(sql) for sql in request["queries"]],
        }))
        engine.close()
else:
    # Errors and crashes alone: one engine reads all, until one of the files ends it.
    engine = None
    for path in request["files"]:
        try:
            engine = engine or Engine()
            engine.reset()
            error = engine.load(path)
            engine.query("select count(*) as slices from slice")
        except (EOFError, RuntimeError, OSError) as crash:
            error = f"crash: {crash}"
            engine = None
        print(json.dumps({"error": error}))
