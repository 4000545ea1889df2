#!/usr/bin/env python3
"""Packs built programs: a tarball and a Debian package for each platform, and one container image for all.

Takes what was built; compiles nothing. The same inputs give the same bytes. Called by ./release and tests/release/run.
"""

import argparse
import pathlib
import posixpath
import re
import subprocess
import tempfile
import tomllib

import debian
import image
from tree import File, compressed, tar

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Names of a processor: in our files, Debian's, OCI's.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# The queries over rows, for DuckDB and Spark.
QUERIES = "tests/fleet/sql"
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/tracetee",
    "zsh": "usr/share/zsh/vendor-completions/_tracetee",
    "fish": "usr/share/fish/vendor_completions.d/tracetee.fish",
}


def described(runnable):
    """Returns the manual's pages and the completions, which a program that runs here writes."""
    files = {}
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([runnable, "manual", "-o", directory], check=True)
        for page in sorted(pathlib.Path(directory).iterdir()):
            files[f"usr/share/man/man1/{page.name}"] = page.read_bytes()
    for shell, path in COMPLETIONS.items():
        files[path] = subprocess.run([runnable, "completions", shell], check=True, capture_output=True).stdout
    return files


def packed_paths():
    """Returns the files of the repository that go with each program, with their paths there: pages, what they link to, and
    the queries for engines."""
    patterns = [
        "README.md", "CHANGELOG.md", "SECURITY.md", "docs/*.md", "collector/*.md", "collector/convert/timeline.png",
        "agent/include/tracetee.h", "agent/schema/remote-config.schema.json", "collector/server/api/openapi.json",
        "collector/server/api/report.schema.json", "collector/fleet/schema/report.schema.json",
        "collector/packaging/grafana/tracetee.json", "collector/packaging/prometheus/tracetee.rules.yml",
        "collector/packaging/compose/compose.yml", "collector/packaging/action/*",
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


def documents(licences):
    """Returns the documents that go with each program."""
    paths = packed_paths()
    files = {packed: (ROOT / path).read_bytes() for path, packed in paths.items()}
    for path, packed in paths.items():
        if path.endswith(".md"):
            files[packed] = relinked(path, files[packed].decode(), paths).encode()
    return {**files, "THIRD-PARTY.txt": licences.read_bytes()}


def project_licences():
    return {name: (ROOT / name).read_bytes() for name in ["LICENSE-APACHE", "LICENSE-MIT"]}


def copyright_text():
    """Returns debian/copyright: the project's licences, and where those of the crates inside are."""
    mit = (ROOT / "LICENSE-MIT").read_text()
    return "\n".join([
        "Copyright 2026 the tracetee authors", "",
        "tracetee is licensed under either of the Apache License 2.0 (on Debian systems in",
        "/usr/share/common-licenses/Apache-2.0) or the MIT licence, at your option.",
        "", mit, "THIRD-PARTY.txt.gz beside this file has the licences of the libraries inside it.", "",
    ])


def main():
    parser = argparse.ArgumentParser(description="Pack built programs.")
    parser.add_argument("--program", action="append", required=True, metavar="ARCHITECTURE=FILE")
    parser.add_argument("--base", action="append", default=[], metavar="ARCHITECTURE=TAR",
                        help="files below the program in the image: a C library")
    parser.add_argument("--runnable", type=pathlib.Path, required=True, help="a program that runs on this machine")
    parser.add_argument("--licences", type=pathlib.Path, required=True, help="licences of the crates inside")
    parser.add_argument("--maintainer", required=True, metavar="NAME <ADDRESS>")
    parser.add_argument("--revision", required=True, help="commit")
    parser.add_argument("--epoch", type=int, required=True, help="date of all files, Unix time in seconds")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    epoch = arguments.epoch
    arguments.out.mkdir(parents=True, exist_ok=True)

    def write(name, content):
        (arguments.out / name).write_bytes(content)
        print(f"{name}: {len(content)} bytes")

    pages = described(arguments.runnable)
    beside = documents(arguments.licences)
    bases = dict(each.split("=", 1) for each in arguments.base)
    images = []
    for each in arguments.program:
        architecture, path = each.split("=", 1)
        debian_name = ARCHITECTURES[architecture]
        program = pathlib.Path(path).read_bytes()
        plain = {"bin/tracetee": File(program, is_program=True)}
        plain.update({path.removeprefix("usr/"): File(content) for path, content in pages.items()})
        plain.update({path: File(content) for path, content in {**beside, **project_licences()}.items()})
        name = f"tracetee-{version}-{architecture}-linux"
        write(f"{name}.tar.gz", compressed(tar(plain, epoch, f"{name}/")))

        installed = {"usr/bin/tracetee": File(program, is_program=True)}
        for path, content in pages.items():
            is_page = "/man/" in path
            installed[path + (".gz" if is_page else "")] = File(compressed(content) if is_page else content)
        for path, content in beside.items():
            # Pages link to each other by their names; only what no page links to is compressed.
            is_alone = path == "THIRD-PARTY.txt"
            name = f"usr/share/doc/tracetee/{path}" + (".gz" if is_alone else "")
            installed[name] = File(compressed(content) if is_alone else content)
        write(f"tracetee_{version}_{debian_name}.deb", debian.package(
            installed, program, version, debian_name, arguments.maintainer, copyright_text(), epoch
        ))
        if architecture in bases:
            licence = {"usr/share/doc/tracetee/THIRD-PARTY.txt": File(beside["THIRD-PARTY.txt"])}
            program_layer = tar({"usr/bin/tracetee": installed["usr/bin/tracetee"], **licence}, epoch)
            base = image.base_layer(pathlib.Path(bases[architecture]).read_bytes(), epoch)
            images.append((debian_name, [base, program_layer]))
    if images:
        files = image.layout(images, version, arguments.revision, epoch)
        write(f"tracetee-{version}-oci.tar", tar(files, epoch))


if __name__ == "__main__":
    main()
