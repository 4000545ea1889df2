"""Reads a dashboard with Grafana's own types, and writes it again: dashboard.py FILE. What these do not know is missing then."""

import json
import pathlib
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def missing(ours, theirs, path):
    """Yields the paths of our values that differ in theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in theirs:
                yield f"{path}.{key}: unknown"
            else:
                yield from missing(value, theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from missing(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


ours = json.loads(pathlib.Path(sys.argv[1]).read_bytes())
theirs = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(ours)))
wrong = list(missing(ours, theirs, "$"))
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
