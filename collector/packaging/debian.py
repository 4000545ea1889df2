"""Makes a Debian package, with the same bytes each time. Used by package.py."""

import datetime
import email.utils
import hashlib
import pathlib
import re
import subprocess
import tempfile

from tree import File, compressed, tar

DESCRIPTION = """tracing of Android apps from inside, and its collector
 tracetee records the atrace events of an Android app (frames, layout, binder,
 locks, garbage collection) inside the app. This program receives the captures
 of a fleet, reports the causes of janky frames, converts traces, and traces
 programs on Linux with the agent's library, which it carries."""

# lintian's texts say why each is reported; ours say why it is meant.
OVERRIDES = """# SQLite and the DEFLATE code are linked in, so that one file runs on every distribution.
tracetee: embedded-library *
"""


SERVICE = pathlib.Path(__file__).resolve().parent / "service"
# Files of the collector as a service. An administrator's changes of those in /etc stay.
INSTALLED = {
    "usr/lib/systemd/system/tracetee.service": "tracetee.service",
    "etc/tracetee/collector.env": "collector.env",
}
SCRIPTS = ["postinst", "prerm", "postrm"]


def oldest_glibc(program):
    """Returns the newest version of glibc's symbols that `program` needs."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(program)
        file.flush()
        symbols = subprocess.run(
            ["readelf", "--wide", "--version-info", file.name], check=True, capture_output=True, text=True
        ).stdout
    versions = [tuple(map(int, each.split("."))) for each in re.findall(r"GLIBC_([0-9.]+)", symbols)]
    return ".".join(map(str, max(versions)))


def ar(members, epoch):
    """Returns an ar archive of (name, content)."""
    packed = b"!<arch>\n"
    for name, content in members:
        packed += f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    return packed


def package(files, program, version, architecture, maintainer, copyright_text, epoch):
    """Returns a .deb of `files`, by their paths below the root."""
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(epoch, datetime.UTC))
    changelog = (
        f"tracetee ({version}) unstable; urgency=medium\n\n  * Version {version}: see CHANGELOG.md.gz beside this file.\n\n"
        f" -- {maintainer}  {date}\n"
    )
    documents = "usr/share/doc/tracetee"
    files = {
        **files,
        f"{documents}/changelog.gz": File(compressed(changelog.encode())),
        f"{documents}/copyright": File(copyright_text.encode()),
        "usr/share/lintian/overrides/tracetee": File(OVERRIDES.encode()),
        **{path: File((SERVICE / name).read_bytes()) for path, name in INSTALLED.items()},
    }
    control = "\n".join([
        "Package: tracetee",
        f"Version: {version}",
        f"Architecture: {architecture}",
        f"Maintainer: {maintainer}",
        f"Installed-Size: {sum(len(file.content) for file in files.values()) // 1024}",
        f"Depends: adduser, libc6 (>= {oldest_glibc(program)})",
        "Section: devel",
        "Priority: optional",
        f"Description: {DESCRIPTION}",
        "",
    ])
    conffiles = [path for path in sorted(files) if path.startswith("etc/")]
    sums = "".join(
        f"{hashlib.md5(file.content).hexdigest()}  {path}\n"
        for path, file in sorted(files.items()) if path not in conffiles
    )
    described = tar({
        "control": File(control.encode()),
        "md5sums": File(sums.encode()),
        "conffiles": File("".join(f"/{path}\n" for path in conffiles).encode()),
        **{name: File((SERVICE / name).read_bytes(), is_program=True) for name in SCRIPTS},
    }, epoch, "./")
    return ar([
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", compressed(described)),
        ("data.tar.gz", compressed(tar(files, epoch, "./"))),
    ], epoch)
