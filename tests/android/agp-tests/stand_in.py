#!/usr/bin/env python3
"""Makes the two stand-ins of tests/android/agp: a distribution of Gradle 8.11.1 out of dev.gradleplugins:gradle-api, which
has all its classes but three, and an Android SDK out of AOSP's classes and the JDK's.

usage: stand_in.py GRADLE_API ANDROID_ALL JAVA_HOME JARS CLASSES OUT
"""

import io
import os
import pathlib
import re
import shutil
import sys
import zipfile

VERSION = "8.11.1"
# Libraries that Gradle gives to its workers by name; gradle-api has their classes.
WORKERS = ["asm-9.7", "commons-lang-2.6", "guava-32.1.2-jre", "jul-to-slf4j-1.7.36", "kryo-2.24.0", "native-platform-0.22-milestone-26"]
TOOLS = ["aapt", "aapt2", "aidl", "dexdump", "zipalign", "split-select", "apksigner", "d8", "bcc_compat", "lld", "llvm-rs-cc"]
LINKERS = ["i686-linux-android", "mipsel-linux-android", "arm-linux-androideabi", "aarch64-linux-android", "x86_64-linux-android"]
LEVEL = 35


def distribution(gradle_api, jars, classes, out):
    """One jar has everything; each module that Gradle asks for by name is a jar that points to it."""
    lib = out / "lib"
    for directory in ["lib/plugins", "lib/agents", "init.d"]:
        (out / directory).mkdir(parents=True)
    everything = lib / f"gradle-everything-{VERSION}.jar"
    shutil.copy(gradle_api, everything)
    for jar in jars:
        shutil.copy(jar, lib)
    modules = {"gradle-launcher", "gradle-kotlin-dsl", "gradle-runtime-api-info"}
    with zipfile.ZipFile(everything) as packed:
        for name in packed.namelist():
            if found := re.fullmatch(r"(gradle-.+)-classpath\.properties", name):
                modules.add(found[1])
        for name in ["gradle-plugins.properties", "gradle-implementation-plugins.properties"]:
            for line in packed.read(name).decode().splitlines():
                if "=" in line and not line.startswith("#"):
                    modules |= set(filter(None, line.split("=", 1)[1].split(",")))

    def describe(packed, module, projects, runtime=""):
        packed.writestr(f"{module}-classpath.properties", f"projects={projects}\nruntime={runtime}\n")

    with zipfile.ZipFile(everything, "a") as packed:
        describe(packed, "gradle-everything", "", ",".join(jar.name for jar in jars))
    modules |= {"gradle-installation-beacon", "gradle-java-compiler-plugin"}
    for module in sorted(modules - {"gradle-everything"}):
        with zipfile.ZipFile(lib / f"{module}-{VERSION}.jar", "w") as packed:
            describe(packed, module, "gradle-everything")
            own = {"gradle-installation-beacon": "installation", "gradle-java-compiler-plugin": "compiler"}.get(module)
            for path in (classes / "org/gradle/internal" / own).rglob("*.class") if own else []:
                packed.write(path, str(path.relative_to(classes)))
    for name in WORKERS:
        os.symlink(everything.name, lib / f"{name}.jar")


def android_jar(android_all, java_home, out):
    """AOSP's classes, with java.* of the JDK, as a compiler for Java 8 needs them."""
    seen = set()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as jar:

        def copy(packed, name, path):
            if path not in seen:
                seen.add(path)
                jar.writestr(path, packed.read(name))

        with zipfile.ZipFile(android_all) as packed:
            for name in packed.namelist():
                top = name.split("/")[0]
                if name in ("AndroidManifest.xml", "resources.arsc") or (
                    name.endswith(".class") and top in ("android", "dalvik", "org", "com", "javax", "libcore", "sun")
                ):
                    copy(packed, name, name)
        for module in ["java.base", "java.xml", "java.sql", "java.logging"]:
            with zipfile.ZipFile(io.BytesIO((java_home / f"jmods/{module}.jmod").read_bytes()[4:])) as packed:
                for name in packed.namelist():
                    if re.fullmatch(r"classes/javax?/.*\.class", name):
                        copy(packed, name, name.removeprefix("classes/"))


def sdk(android_all, java_home, out):
    platform = out / f"platforms/android-{LEVEL}"
    platform.mkdir(parents=True)
    android_jar(android_all, java_home, platform / "android.jar")
    (platform / "source.properties").write_text(
        f"Pkg.Desc=Android SDK Platform\nPkg.UserSrc=false\nPlatform.Version={LEVEL}\nPlatform.CodeName=\nPkg.Revision=1\n"
        f"AndroidVersion.ApiLevel={LEVEL}\nLayoutlib.Api=15\nLayoutlib.Revision=1\nPlatform.MinToolsRev=22\n"
    )
    (platform / "build.prop").write_text(f"ro.build.version.sdk={LEVEL}\nro.build.version.release=15\n")
    (platform / "framework.aidl").touch()
    for version in ["34.0.0", "35.0.0", "36.0.0"]:
        tools = out / "build-tools" / version
        for directory in ["lib", "renderscript/include", "renderscript/clang-include"]:
            (tools / directory).mkdir(parents=True)
        (tools / "source.properties").write_text(f"Pkg.UserSrc=false\nPkg.Revision={version}\n")
        for name in [*TOOLS, *(f"{linker}-ld" for linker in LINKERS)]:
            (tools / name).write_text("#!/bin/sh\nexit 1\n")
            (tools / name).chmod(0o755)
        for name in ["lib/d8.jar", "lib/apksigner.jar", "core-lambda-stubs.jar"]:
            with zipfile.ZipFile(tools / name, "w") as packed:
                packed.writestr("empty", "")
    (out / "platform-tools").mkdir()
    (out / "platform-tools/source.properties").write_text("Pkg.UserSrc=false\nPkg.Revision=35.0.2\n")
    (out / "licenses").mkdir()


gradle_api, android_all, java_home, jars, classes, out = map(pathlib.Path, sys.argv[1:])
distribution(gradle_api, sorted(jars.glob("*.jar")), classes, out / f"gradle-{VERSION}")
sdk(android_all, java_home, out / "sdk")
