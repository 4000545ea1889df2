#!/usr/bin/env python3
"""The queries over rows by name. `queries.py NAME` prints one; `queries.py` prints the names.

Text in braces stands once for each dimension of a query, which replaces the word `dimension`.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
DIMENSIONS = {
    "frames": {"": [], "version": ["ver"], "screen": ["screen", "ver"], "day": ["dt", "ver"], "pipeline": ["pipeline", "ver"]},
    "percentiles": {"version": ["ver"], "screen": ["screen", "ver"], "pipeline": ["pipeline", "ver"]},
    "ledger_frames": {"version": ["ver"], "screen": ["screen", "ver"]},
    "ledger_overruns": {"version": ["ver"], "screen": ["screen", "ver"]},
    "causes": {"": [], "version": ["ver"], "screen": ["screen"]},
    "deaths": {"": [], "key": ["cause_key"], "version": ["ver"]},
}


def rendered(template, dimensions):
    return re.sub(r"\{([^}]*)\}", lambda part: "".join(part[1].replace("dimension", each) for each in dimensions), template)


def queries():
    """Returns the text of each query by its name."""
    found = {}
    for path in sorted(HERE.glob("*.sql")):
        if path.stem in ("duckdb", "views"):
            continue
        text = path.read_text()
        for by, dimensions in DIMENSIONS.get(path.stem, {"": []}).items():
            found[path.stem + (by and f"_by_{by}")] = rendered(text, dimensions)
    return found


if __name__ == "__main__":
    print(queries()[sys.argv[1]] if len(sys.argv) > 1 else "\n".join(queries()), end="")
