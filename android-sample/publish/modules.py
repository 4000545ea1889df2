"""The artifacts that a release publishes to Maven repositories, and the versions they are built with.

Read by repository.py. The versions come from gradle/libs.versions.toml, the project's own from the workspace's
Cargo.toml; the Gradle builds must say the same.
"""

import dataclasses
import pathlib
import re
import tomllib

SAMPLE = pathlib.Path(__file__).resolve().parent.parent
ROOT = SAMPLE.parent
GROUP = "dev.tracetee"
LICENCES = [
    ("Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0.txt"),
    ("MIT", "https://opensource.org/license/mit"),
]


@dataclasses.dataclass(frozen=True)
class Dependency:
    """A library that an artifact needs: `api` if it is part of the artifact's own API."""

    group: str
    name: str
    version: str
    api: bool = False
    aar: bool = False


@dataclasses.dataclass(frozen=True)
class Module:
    """One artifact. `kind` is aar, jar, pom (the plugin's marker) or platform (the BOM)."""

    name: str
    kind: str
    title: str
    description: str
    classes: str = ""
    sources: tuple = ()
    manifest: pathlib.Path | None = None
    namespace: str = ""
    dependencies: tuple = ()
    capabilities: tuple = ()
    group: str = GROUP
    # The lowest API level that its manifest allows; rules for R8.
    api: int = 21
    rules: pathlib.Path | None = None


def version():
    """Returns the project's version; fails if Cargo.toml and the Gradle builds disagree."""
    stated = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for build in ["build.gradle.kts", "instrument/build.gradle.kts"]:
        found = re.search(r'version = "([^"]+)"', (SAMPLE / build).read_text())
        if not found or found[1] != stated:
            raise SystemExit(f"android-sample/{build} does not have the version of Cargo.toml, {stated}")
    return stated


def modules():
    """Returns all artifacts of a release."""
    own = version()
    libs = tomllib.loads((SAMPLE / "gradle/libs.versions.toml").read_text())["versions"]
    kotlin = Dependency("org.jetbrains.kotlin", "kotlin-stdlib", libs["kotlin-oldest"], api=True)
    startup = Dependency("androidx.startup", "startup-runtime", libs["startup"], aar=True)
    shared = SAMPLE / "tracetee/src/api/kotlin"
    published = [
        Module(
            "tracetee", "aar", "tracetee", "Records the atrace events of an Android app inside the app",
            classes="library", sources=(SAMPLE / "tracetee/src/main/kotlin", shared),
            manifest=SAMPLE / "tracetee/src/main/AndroidManifest.xml", namespace="dev.tracetee",
            dependencies=(kotlin, startup), rules=SAMPLE / "tracetee/consumer-rules.pro",
        ),
        Module(
            "tracetee-noop", "aar", "tracetee without an agent", "The API of tracetee for builds that carry no agent",
            classes="noop", sources=(SAMPLE / "noop/src/main/kotlin", shared),
            manifest=SAMPLE / "noop/src/main/AndroidManifest.xml", namespace="dev.tracetee.noop",
            dependencies=(kotlin, startup),
            # Gradle refuses a build that has both, and can be told to replace the one by the other.
            capabilities=("tracetee-noop", "tracetee"),
        ),
        Module(
            "coroutines", "aar", "tracetee for coroutines", "Sections that survive the suspensions of coroutines",
            classes="coroutines", sources=(SAMPLE / "coroutines/src/main/kotlin",),
            manifest=SAMPLE / "coroutines/src/main/AndroidManifest.xml", namespace="dev.tracetee.coroutines",
            dependencies=(
                kotlin,
                Dependency(GROUP, "tracetee", own, api=True, aar=True),
                Dependency("org.jetbrains.kotlinx", "kotlinx-coroutines-core", libs["coroutines"], api=True),
            ),
        ),
        Module(
            "androidx-tracing", "aar", "tracetee for androidx.tracing 2", "Records what androidx.tracing 2 and Compose trace",
            classes="androidx",
            sources=(SAMPLE / "androidx-tracing/src/main/kotlin", SAMPLE / "androidx-tracing/src/main/java"),
            manifest=SAMPLE / "androidx-tracing/src/main/AndroidManifest.xml", namespace="dev.tracetee.androidx",
            dependencies=(
                kotlin,
                Dependency(GROUP, "tracetee", own, api=True, aar=True),
                Dependency("androidx.tracing", "tracing", libs["androidx-tracing"], api=True, aar=True),
            ),
            api=23, rules=SAMPLE / "androidx-tracing/consumer-rules.pro",
        ),
        Module(
            "instrument", "jar", "tracetee's instrumenter", "A section around every method: Gradle plugin and program",
            classes="instrument", sources=(SAMPLE / "instrument/src/main/kotlin",),
            dependencies=(kotlin, Dependency("org.ow2.asm", "asm-commons", libs["asm"])),
        ),
    ]
    marker = Module(
        "dev.tracetee.instrument.gradle.plugin", "pom", "Marker of the Gradle plugin dev.tracetee.instrument",
        "Leads Gradle from the plugin's id to its artifact", group="dev.tracetee.instrument",
        dependencies=(Dependency(GROUP, "instrument", own, api=True),),
    )
    bom = Module(
        "bom", "platform", "Versions of tracetee's artifacts", "Bill of materials",
        dependencies=tuple(
            Dependency(GROUP, each.name, own, api=True, aar=each.kind == "aar") for each in published
        ),
    )
    return [*published, marker, bom]
