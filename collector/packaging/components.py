#!/usr/bin/env python3
"""Lists the crates inside a released program or library: as a CycloneDX bill of materials, and as their licences.

`--bill` writes the bill (JSON), `--licences` the texts of all licences. Fails for a crate without a licence or without
its text. The same Cargo.lock gives the same bytes. Called by ./release and tests/release/run.
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense|lgpl|apache|mit)([-_.].*)?$")
# C sources included in crates, with their own licences.
CARRIED = {"zstd-sys": ["zstd/LICENSE"]}
PUBLIC_DOMAIN = {"libsqlite3-sys": "SQLite's source code, which this crate carries, is in the public domain."}


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def included(selections, target):
    """Returns (name, version) of each crate linked in, procedural macros aside, for selections "PACKAGE" or "PACKAGE:FEATURES"."""
    found = set()
    for selection in selections:
        package, _, features = selection.partition(":")
        tree = run(
            "cargo", "tree", "--locked", "--package", package, "--edges", "normal,no-proc-macro", "--target", target,
            "--prefix", "none", "--format", "{p}", *(["--features", features] if features else []),
        )
        for line in tree.splitlines():
            match = re.match(r"(\S+) v(\S+)", line)
            if match:
                found.add(match.groups())
    return found


def crates(selections, target):
    """Returns cargo's metadata of the crates that are linked in, with their checksums and their dependencies among them."""
    wanted = included(selections, target)
    metadata = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1"))
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(each["name"], each["version"]): each.get("checksum") for each in locked}
    packages = {each["id"]: each for each in metadata["packages"] if (each["name"], each["version"]) in wanted}
    for node in metadata["resolve"]["nodes"]:
        if node["id"] in packages:
            normal = [
                each["pkg"] for each in node["deps"] if any(kind["kind"] is None for kind in each["dep_kinds"])
            ]
            packages[node["id"]]["needs"] = [each for each in normal if each in packages]
    for package in packages.values():
        package["checksum"] = sums[package["name"], package["version"]]
    return sorted(packages.values(), key=lambda each: (each["name"], each["version"]))


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def bill(name, version, packages, runtime, epoch):
    """Returns the bill of materials, CycloneDX 1.5."""
    components = []
    for package in packages:
        component = {
            "type": "library", "bom-ref": reference(package), "name": package["name"],
            "version": package["version"], "purl": reference(package),
            "licenses": [{"expression": expression(package)}],
        }
        if package["checksum"]:
            component["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
        if package["repository"]:
            component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        components.append(component)
    components += [
        {"type": "library", "bom-ref": f"{title}@{number}", "name": title, "version": number,
         "licenses": [{"expression": licence}]}
        for title, number, licence in runtime
    ]
    by_id = {package["id"]: reference(package) for package in packages}
    own = f"pkg:generic/{name}@{version}"
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": own, "name": name, "version": version, "purl": own},
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": [each["bom-ref"] for each in components if "@" in each["bom-ref"]]},
            *({"ref": reference(each), "dependsOn": sorted(by_id[need] for need in each.get("needs", []))}
              for each in packages),
        ],
    }
    # The number identifies the content, so that the same content has the same bytes.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{number}"}, indent=1) + "\n"


def expression(package):
    """Returns a crate's licence as SPDX writes it."""
    if not package["license"]:
        raise SystemExit(f"{package['name']} {package['version']} states no licence")
    return package["license"].replace("/", " OR ")


def texts(package):
    """Returns the texts of a crate's licences, empty if it carries none."""
    directory = pathlib.Path(package["manifest_path"]).parent
    if ROOT in directory.parents or directory == ROOT:
        return [(ROOT / name).read_text() for name in ["LICENSE-APACHE", "LICENSE-MIT"]]
    files = sorted(path for path in directory.iterdir() if path.is_file() and TEXTS.match(path.name))
    files += [path for path in sorted(directory.glob("LICENSES/*")) if path.is_file()]
    found = [path.read_text(errors="replace") for path in files if path.suffix not in {".rs", ".toml"}]
    found += [(directory / name).read_text() for name in CARRIED.get(package["name"], [])]
    if package["name"] in PUBLIC_DOMAIN:
        found.append(PUBLIC_DOMAIN[package["name"]])
    return found


def standard(licence):
    """Returns the text of a licence for a crate that carries none, or None; its authors are those of the crate."""
    if re.search(r"\bApache-2.0\b", licence):
        return (ROOT / "LICENSE-APACHE").read_text()
    if re.search(r"\bMIT\b", licence):
        return re.sub(r"Copyright.*\n", "Copyright the authors of the crate\n", (ROOT / "LICENSE-MIT").read_text(), count=1)
    return None


def licences(name, packages, runtime):
    """Returns one text of all licences; a text that many crates have stands there once."""
    lines = [f"Software inside {name}, and its licences.\n"]
    users = {}
    for package in packages:
        title = f"{package['name']} {package['version']}"
        lines.append(f"{title}: {expression(package)}")
        found = texts(package) or [standard(expression(package))]
        if None in found:
            raise SystemExit(f"{title} carries no text of its licence, {expression(package)}")
        for text in found:
            key = "\n".join(line.rstrip() for line in text.strip().splitlines())
            users.setdefault(key, []).append(title)
    for title, number, licence in runtime:
        lines.append(f"{title} {number}: {licence}")
        text = standard(licence)
        users.setdefault(text.strip(), []).append(f"{title} {number}")
    for text, titles in sorted(users.items(), key=lambda entry: entry[1]):
        lines += ["", "=" * 100, ", ".join(sorted(set(titles))), "=" * 100, "", text]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="List the crates inside a program: bill of materials, licences.")
    parser.add_argument("--name", required=True, help="name of the program or library")
    parser.add_argument("--crate", action="append", required=True, metavar="PACKAGE[:FEATURES]")
    parser.add_argument("--target", required=True, help="Rust's name of the platform")
    parser.add_argument("--runtime", action="append", default=[], metavar="NAME@VERSION=LICENCE",
                        help="something linked in that is no crate")
    parser.add_argument("--epoch", type=int, required=True, help="date, Unix time in seconds")
    parser.add_argument("--bill", type=pathlib.Path)
    parser.add_argument("--licences", type=pathlib.Path)
    arguments = parser.parse_args()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    runtime = [re.fullmatch(r"(.+)@([^=]+)=(.+)", each).groups() for each in arguments.runtime]
    packages = crates(arguments.crate, arguments.target)
    if arguments.bill:
        arguments.bill.write_text(bill(arguments.name, version, packages, runtime, arguments.epoch))
    if arguments.licences:
        arguments.licences.write_text(licences(f"{arguments.name} {version}", packages, runtime))
    print(f"{arguments.name}: {len(packages)} crates")


if __name__ == "__main__":
    main()
