#!/usr/bin/env python3
"""Lays out a release as a Maven repository: a directory that can be uploaded, or be named by a file:// address.

Packs what tests/android/run has compiled and tests/cross/run has built; compiles nothing itself. The same inputs give
the same bytes: entries are sorted and have the date of --epoch. Called by tests/android/repository and, through it, by
./release.
"""

import argparse
import datetime
import io
import json
import pathlib
import re
import shutil
import zipfile

import metadata
from modules import ROOT, SAMPLE, modules, version

ABIS = ["arm64-v8a", "armeabi-v7a", "x86", "x86_64"]
# The level that the agent is linked for.
API = 21
LICENCE_FILES = ["LICENSE-APACHE", "LICENSE-MIT"]


def archive(entries, epoch):
    """Returns a zip of `entries`, contents by name, with directories first as `jar` writes them."""
    date = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    stamp = (max(date.year, 1980), date.month, date.day, date.hour, date.minute, date.second // 2 * 2)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        # A reader of streams wants the manifest first.
        for name in sorted(entries, key=lambda name: (name != "META-INF/MANIFEST.MF", name)):
            entry = zipfile.ZipInfo(name, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            out.writestr(entry, entries[name])
    return packed.getvalue()


def tree(directory, keep=lambda name: True):
    """Returns the files of a directory by their relative names."""
    files = [path for path in pathlib.Path(directory).rglob("*") if path.is_file()]
    named = {str(path.relative_to(directory)): path.read_bytes() for path in files}
    return {name: content for name, content in named.items() if keep(name)}


def licences():
    return {f"META-INF/{name}": (ROOT / name).read_bytes() for name in LICENCE_FILES}


def jar(module, classes, own, epoch, extra):
    """Returns the jar of a module's classes, with `extra` entries."""
    compiled = tree(classes / module.classes)
    if not any(name.endswith(".class") for name in compiled):
        raise SystemExit(f"no classes of {module.name} in {classes / module.classes}")
    manifest = ["Manifest-Version: 1.0", f"Implementation-Title: {module.name}", f"Implementation-Version: {own}"]
    entries = {**compiled, **extra}
    if module.name == "instrument":
        manifest.append("Main-Class: dev.tracetee.instrument.MainKt")
        entries["META-INF/gradle-plugins/dev.tracetee.instrument.properties"] = (
            b"implementation-class=dev.tracetee.instrument.InstrumentPlugin\n"
        )
    entries["META-INF/MANIFEST.MF"] = "\r\n".join([*manifest, "", ""]).encode()
    return archive(entries, epoch)


def manifest(module):
    """Returns the manifest with what AGP puts in: the package and the lowest API level."""
    text = module.manifest.read_text()
    opening = re.search(r"<manifest[^>]*?(/?)>", text)
    attributes = opening[0][len("<manifest"):].rstrip("/>").rstrip()
    if "xmlns:android" not in attributes:
        attributes += ' xmlns:android="http://schemas.android.com/apk/res/android"'
    start = f'<manifest package="{module.namespace}"{attributes}>\n\n    <uses-sdk android:minSdkVersion="{module.api}" />'
    end = "\n</manifest>" if opening[1] else ""
    return (text[: opening.start()] + start + end + text[opening.end():]).encode()


def prefab(own, agents):
    """Returns the package of C headers and libraries that CMake and ndk-build find (AGP's buildFeatures.prefab)."""
    to_json = lambda value: (json.dumps(value, indent=2) + "\n").encode()  # noqa: E731
    module = "prefab/modules/tracetee"
    entries = {
        "prefab/prefab.json": to_json(
            {"schema_version": 2, "name": "tracetee", "version": own, "dependencies": []}
        ),
        f"{module}/module.json": to_json({"export_libraries": [], "library_name": "libtracetee", "android": {}}),
        f"{module}/include/tracetee.h": (ROOT / "agent/include/tracetee.h").read_bytes(),
    }
    for abi, library in agents.items():
        entries[f"{module}/libs/android.{abi}/abi.json"] = to_json(
            {"abi": abi, "api": API, "ndk": 27, "stl": "none", "static": False}
        )
        entries[f"{module}/libs/android.{abi}/libtracetee.so"] = library
    return entries


def aar(module, classes, agents, own, epoch):
    """Returns the AAR of a module; the library's own has the agents, its header, its rules for R8 and its profile."""
    entries = {
        "AndroidManifest.xml": manifest(module),
        # Licences are beside it: an app's build merges the resources of all jars, and fails if two have one name.
        "classes.jar": jar(module, classes, own, epoch, {}),
        "R.txt": b"",
        "META-INF/com/android/build/gradle/aar-metadata.properties": (
            b"aarFormatVersion=1.0\naarMetadataVersion=1.0\nminCompileSdk=1\nminCompileSdkExtension=0\n"
            b"minAndroidGradlePluginVersion=1.0.0\ncoreLibraryDesugaringEnabled=false\n"
        ),
        **{name: (ROOT / name).read_bytes() for name in LICENCE_FILES},
    }
    if module.rules:
        entries["proguard.txt"] = module.rules.read_bytes()
    if module.name == "tracetee":
        entries["baseline-prof.txt"] = (SAMPLE / "tracetee/src/main/baseline-prof.txt").read_bytes()
        entries.update({f"jni/{abi}/libtracetee.so": library for abi, library in agents.items()})
        entries.update(prefab(own, agents))
    return archive(entries, epoch)


def symbols(agents, epoch):
    """Returns the unstripped libraries, as ndk-stack, Play Console and crash reporters read them: ABI/libtracetee.so."""
    return archive({f"{abi}/libtracetee.so": (agents / "symbols" / abi / "libtracetee.so").read_bytes() for abi in ABIS}, epoch)


def artifacts(module, arguments, agents, own):
    """Returns the files of a module, by what follows NAME-VERSION in their names."""
    epoch = arguments.epoch
    files = {".pom": metadata.pom(module, own, arguments.url)}
    if module.kind in ["aar", "jar"]:
        files["." + module.kind] = (
            aar(module, arguments.classes, agents, own, epoch)
            if module.kind == "aar"
            else jar(module, arguments.classes, own, epoch, licences())
        )
        sources = {}
        for directory in module.sources:
            sources.update(tree(directory))
        files["-sources.jar"] = archive({**sources, **licences()}, epoch)
        if arguments.documents:
            pages = tree(arguments.documents / module.name)
            if "index.html" not in pages:
                raise SystemExit(f"no documentation of {module.name} in {arguments.documents}")
            files["-javadoc.jar"] = archive(pages, epoch)
    if module.name == "tracetee":
        files["-symbols.zip"] = symbols(arguments.agents, epoch)
    if module.kind != "pom":
        files[".module"] = metadata.module_file(module, own, files)
    return files


def publish(path, content):
    """Writes a file with its checksums."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    for name, digest in metadata.digests(content).items():
        path.with_name(f"{path.name}.{name}").write_text(digest)


def main():
    parser = argparse.ArgumentParser(description="Lay out a release as a Maven repository.")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory to write; replaced")
    parser.add_argument("--classes", type=pathlib.Path, required=True, help="compiled modules, a directory each")
    parser.add_argument("--agents", type=pathlib.Path, required=True, help="ABI/libtracetee.so for each ABI, and symbols/ABI")
    parser.add_argument("--documents", type=pathlib.Path, help="Dokka's pages, a directory for each module")
    parser.add_argument("--epoch", type=int, required=True, help="date of all files, Unix time in seconds")
    parser.add_argument("--url", help="the project's page, which Maven Central wants in each POM")
    arguments = parser.parse_args()
    own = version()
    agents = {abi: (arguments.agents / abi / "libtracetee.so").read_bytes() for abi in ABIS}
    date = datetime.datetime.fromtimestamp(arguments.epoch, datetime.UTC)
    shutil.rmtree(arguments.out, ignore_errors=True)
    for module in modules():
        directory = arguments.out / module.group.replace(".", "/") / module.name
        files = artifacts(module, arguments, agents, own)
        for suffix, content in sorted(files.items()):
            publish(directory / own / f"{module.name}-{own}{suffix}", content)
        publish(directory / "maven-metadata.xml", metadata.versions_file(module, own, date))
        main_file = files.get("." + module.kind, files[".pom"])
        print(f"{module.group}:{module.name}:{own}: {len(main_file)} bytes")


if __name__ == "__main__":
    main()
