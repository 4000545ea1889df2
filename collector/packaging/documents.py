#!/usr/bin/env python3
"""Writes the documents that go with each program: pages, the files that they link to, queries for engines.

    documents.py DIRECTORY     called by ./package
"""

import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The queries over rows, for DuckDB and Spark.
QUERIES = "tests/fleet/sql"


def packed_paths():
    """Returns the documents in the repository, with their paths beside the program."""
    patterns = [
        "README.md", "CHANGELOG.md", "SECURITY.md", "docs/*.md", "docs/reference/*.md", "docs/skill/*.md",
        "docs/pages/*.png", "collector/*.md", "collector/convert/timeline.png",
        "agent/include/tracetee.h", "agent/schema/remote-config.schema.json", "collector/server/api/openapi.json",
        "collector/server/api/report.schema.json", "collector/fleet/schema/report.schema.json",
        "collector/packaging/grafana/tracetee.json", "collector/packaging/prometheus/tracetee.rules.yml",
        "collector/packaging/compose/compose.yml", "collector/packaging/action/*",
        "collector/packaging/gate-action/*",
    ]
    paths = {path: path for pattern in patterns for path in matches(pattern)}
    return paths | {path: path.replace(QUERIES, "sql", 1) for path in matches(f"{QUERIES}/*.*")}


def matches(pattern):
    return [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob(pattern))]


def relinked(page, text, paths):
    """Returns a page whose links lead to files that are packed; of other links the text stays."""
    def link(match):
        mark, label, target = match.groups()
        path, hash_sign, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match.group()
        source = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        packed = "sql" if source == QUERIES else paths.get(source)
        if packed is None:
            return "" if mark else label
        relative = posixpath.relpath(packed, posixpath.dirname(paths[page]) or ".")
        return f"{mark}[{label.replace(QUERIES, 'sql')}]({relative}{hash_sign}{anchor})"
    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def main():
    directory = pathlib.Path(sys.argv[1])
    paths = packed_paths()
    for path, packed in paths.items():
        content = (ROOT / path).read_bytes()
        if path.endswith(".md"):
            content = relinked(path, content.decode(), paths).encode()
        (directory / packed).parent.mkdir(parents=True, exist_ok=True)
        (directory / packed).write_bytes(content)


if __name__ == "__main__":
    main()
