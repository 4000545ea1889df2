#!/usr/bin/env python3
"""Makes the generated pages of docs/reference, and compares them with those that are there.

    tests/book/reference.py     fails if a page differs; with TRACETEE_BLESS=1 writes it

Each page is made of a file that a test compares with the program: the commands' help (a snapshot), the schema of the remote
configuration, the description of the HTTP API, and the HELP lines in the collector's sources. COLUMNS.md and FORMATS.md are
made by tests of `collector/fleet` and `collector/convert`, with the same variable.
"""

import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/reference"


def cell(text):
    """Returns a text for a cell of a table, in which HTML and bars are text."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()).replace("|", "\\|"))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def code(value):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    mark = "``" if "`" in text else "`"
    return mark + text.replace("|", "\\|") + mark


def command_line():
    snapshot = (ROOT / "collector/cli/tests/snapshots/help.snap").read_text()
    parts = re.split(r"^===== (.+) --help\n", snapshot, flags=re.M)[1:]
    yield "# Command line\n\nThe help of each command. The manual (`man tracetee`) has the same.\n"
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        yield f"\n## {name}\n\n```text\n{text.strip()}\n```\n"


def kind(schema):
    """Returns type, limits and a link of a schema."""
    for option in schema.get("anyOf", []):
        if "$ref" in option:
            return kind(option)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    types = schema.get("type", "")
    types = [types] if isinstance(types, str) else types
    text = " or ".join(each for each in types if each != "null")
    if "items" in schema:
        text += f" of {kind(schema['items'])}"
    limits = ("minItems", "maxItems") if "items" in schema else ("minimum", "maximum")
    low, high = map(schema.get, limits)
    if high is not None:
        text += f", {low or 0} to {high}"
    elif low:
        text += f", {low} at least"
    return text


def fields(schema):
    required = schema.get("required", [])
    yield "| field | type, limits | default | |\n|---|---|---|---|\n"
    for name, field in schema.get("properties", {}).items():
        default = field.get("default")
        shown = "required" if name in required else ""
        if default is not None and len(json.dumps(default)) <= 60:
            shown = code(json.dumps(default, ensure_ascii=False))
        yield f"| `{name}` | {cell(kind(field))} | {shown} | {cell(field.get('description', ''))} |\n"


def values(schema):
    yield "| value | |\n|---|---|\n"
    for option in schema["oneOf"]:
        if "const" in option:
            shown = code(json.dumps(option["const"]))
        else:
            [(name, inner)] = option["properties"].items()
            shown = f"{code(chr(123) + json.dumps(name) + ': …' + chr(125))}, {kind(inner)}"
        yield f"| {shown} | {cell(option.get('description', ''))} |\n"


def configuration():
    schema = json.loads((ROOT / "agent/schema/remote-config.schema.json").read_text())
    yield "# Remote configuration\n\nEvery field of the document, by [its schema](../../agent/schema/remote-config.schema.json). "
    yield f"[Captures](../CAPTURES.md) explains its use. {schema['description']}\n\n"
    yield from fields(schema)
    for name, part in schema["$defs"].items():
        yield f"\n## {name}\n\n{part.get('description', '')}\n\n"
        yield from values(part) if "oneOf" in part else fields(part)


def http_api():
    api = json.loads((ROOT / "collector/server/api/openapi.json").read_text())
    parts = api["components"]

    def resolved(each):
        return parts[each["$ref"].split("/")[2]][each["$ref"].rpartition("/")[2]] if "$ref" in each else each

    yield "# HTTP API\n\nThe routes of a collector, by [its description](../../collector/server/api/openapi.json), which it serves at "
    yield "`/v1/openapi.json`.\n\n## Rights\n\n| | |\n|---|---|\n"
    for name, scheme in parts["securitySchemes"].items():
        yield f"| {name} | {cell(scheme['description'])} |\n"
    for tag in api["tags"]:
        yield f"\n## {tag['name'].capitalize()}\n\n{tag['description']}\n"
        for path, methods in api["paths"].items():
            for method, route in methods.items():
                if tag["name"] not in route["tags"]:
                    continue
                rights = ", ".join(name for each in route.get("security", []) for name in each)
                yield f"\n### {method.upper()} {path}\n\n{route['summary']}. {'Rights: ' + rights if rights else 'Needs no token'}.\n"
                if "description" in route:
                    yield f"\n{route['description']}\n"
                if parameters := [resolved(each) for each in route.get("parameters", [])]:
                    yield "\n| parameter | in | |\n|---|---|---|\n"
                    for each in parameters:
                        yield f"| `{each['name']}` | {each['in']} | {cell(each.get('description', ''))} |\n"
                if "requestBody" in route:
                    yield f"\nBody: {resolved(route['requestBody']).get('description', 'JSON.')}\n"
                yield "\n| status | |\n|---|---|\n"
                for status, answer in route["responses"].items():
                    yield f"| {status} | {cell(resolved(answer)['description'])} |\n"


def metrics():
    """Finds the series in the sources of `GET /metrics`: names and helps are literals there."""
    series = {}
    for path in sorted((ROOT / "collector/server/src/http").glob("*.rs")):
        text = re.sub(r"^ *//.*$", "", path.read_text(), flags=re.M)
        declared = r'(?:let help = "([^"]+)";\s*)?declare\([^"]*"(\w+)", "\w+", (?:help|"([^"]+)")\)'
        for before, name, within in re.findall(declared, text):
            series[f"tracetee_{name}"] = before or within
        if path.name == "metrics.rs":
            begin = text.index("counts! {")
            end = text.index("\n}\n", begin)
            counters = re.findall(r'(\w+) = "([^"]+)"', text[begin:end])
            gauges = re.findall(r'\bgauge\(\s*"(\w+)",\s*"([^"]+)"', text)
            known = {name for name, _ in gauges}
            counters += [each for each in re.findall(r'\(\s*"(\w+)",\s*"([^"]+)",', text) if each[0] not in known]
            series |= {f"tracetee_{name}_total": help_text for name, help_text in counters}
            series |= {f"tracetee_{name}": help_text for name, help_text in gauges}
    if len(series) < 40:
        sys.exit(f"tests/book/reference.py: only {len(series)} series were found in the sources of /metrics")
    yield "# Metrics\n\n`GET /metrics` has these series for Prometheus. "
    yield "[Health, metrics, log, alerts](../MONITORING.md) shows how to scrape them.\n\n"
    yield "| series | |\n|---|---|\n"
    for name, help_text in sorted(series.items()):
        yield f"| `{name}` | {cell(help_text)} |\n"


def main():
    stale = []
    for name, page in {"CLI": command_line, "CONFIGURATION": configuration, "HTTP": http_api, "METRICS": metrics}.items():
        path, text = PAGES / f"{name}.md", "".join(page())
        if os.environ.get("TRACETEE_BLESS"):
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(f"{path.relative_to(ROOT)} is not as its source says: TRACETEE_BLESS=1 tests/book/run writes it")
    sys.exit("\n".join(stale) or 0)


if __name__ == "__main__":
    main()
