#!/usr/bin/env python3
"""Checks that a built program may be released: it and its embedded files are for one processor, need no newer glibc than
stated and no other library, and have no path of the machine that built them.

Prints one line per problem, and fails if there is any. Called by ./release and tests/release/run; needs readelf.
"""

import argparse
import dataclasses
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

# ELF's number of a processor.
MACHINES = {"x86_64": 62, "aarch64": 183}
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
EXECUTABLE, SHARED = 2, 3
GLIBC = re.compile(r"(ld-linux-[\w-]+|lib(c|dl|m|pthread|rt|util))\.so\.\d+")
# A program has no SONAME.
PROGRAM = "a program"
# The demo's app and its libcutils, and the agent.
CARRIED = [PROGRAM, "libcutils.so", "libtracetee.so"]


def objects(content):
    """Yields (offset, machine, bytes) of each ELF file in `content`: the program itself, then its embedded files."""
    for found in re.finditer(rb"\x7fELF\x02\x01\x01", content):
        start = found.start()
        if len(content) - start < HEADER.size:
            continue
        _, kind, machine, _, _, _, sections, _, size, _, _, section_size, count, _ = HEADER.unpack_from(content, start)
        end = start + sections + section_size * count
        # The code that reads ELF files also contains the magic number.
        if kind in (EXECUTABLE, SHARED) and (size, section_size) == (64, 64) and end <= len(content):
            yield start, machine, content[start:end]


@dataclasses.dataclass(frozen=True)
class Linkage:
    """The names by which an ELF file and others find each other; glibc's newest version is () if it needs none."""

    name: str
    libraries: list
    glibc: tuple
    defined: set
    undefined: set


def linkage(content):
    """Returns the linkage of an ELF file. A function that glibc lacked when its version was frozen has no version, but
    the linker lets a shared library have it."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        printed = subprocess.run(
            ["readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms", file.name],
            check=True, capture_output=True, text=True,
        ).stdout
    name = re.search(r"\(SONAME\).*\[(.*)\]", printed)
    versions = [tuple(map(int, each.split("."))) for each in re.findall(r"\bGLIBC_([0-9.]+)", printed)]
    symbols = re.findall(r"^ *\d+: \w+ +\w+ \w+ +(\w+) +\w+ +(\w+) (\w+)$", printed, re.M)
    return Linkage(
        name[1] if name else PROGRAM,
        re.findall(r"\(NEEDED\).*\[(.*)\]", printed),
        max(versions, default=()),
        {symbol for _, section, symbol in symbols if section != "UND"},
        {symbol for binding, section, symbol in symbols if section == "UND" and binding == "GLOBAL"},
    )


def problems(content, architecture, glibc, absent):
    """Returns the problems of a program, one line each."""
    found = []
    parts = [(offset, machine, linkage(part)) for offset, machine, part in objects(content)]
    defined = set().union(*(part.defined for _, _, part in parts))
    for offset, machine, part in parts:
        title = f"{part.name} inside it" if offset else "the program"
        if machine != MACHINES[architecture]:
            found.append(f"{title} is for another processor than {architecture}: ELF machine {machine}")
        if part.glibc > glibc:
            found.append(f"{title} needs glibc {'.'.join(map(str, part.glibc))}")
        foreign = [each for each in part.libraries if not GLIBC.fullmatch(each) and each not in CARRIED]
        if foreign:
            found.append(f"{title} needs {', '.join(foreign)}")
        if part.undefined - defined:
            found.append(f"{title} needs what nothing has: {', '.join(sorted(part.undefined - defined))}")
    names = sorted(part.name for offset, _, part in parts if offset)
    if names != CARRIED:
        found.append(f"it carries {names}, not {CARRIED}")
    for path in absent:
        at = content.find(path.encode())
        if at >= 0:
            text = re.search(rb"[\x20-\x7e]*", content[at : at + 120])[0].decode()
            found.append(f"it has a path of this machine: {text}")
    return found


def main():
    parser = argparse.ArgumentParser(description="Check that a built program may be released.")
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--architecture", required=True, choices=MACHINES)
    parser.add_argument("--glibc", required=True, help="newest version of glibc's symbols that it may need")
    parser.add_argument("--absent", action="append", default=[], metavar="PATH", help="a path that must not be in it")
    arguments = parser.parse_args()
    glibc = tuple(map(int, arguments.glibc.split(".")))
    found = problems(arguments.program.read_bytes(), arguments.architecture, glibc, arguments.absent)
    for each in found:
        print(f"{arguments.program}: {each}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
