#!/usr/bin/env python3
"""Prints Dokka's configuration for the API pages of one module. Called by tests/android/documents."""

import argparse
import json
import pathlib

from modules import modules, version


def main():
    parser = argparse.ArgumentParser(description="Print Dokka's configuration for a module.")
    parser.add_argument("module")
    parser.add_argument("--dokka", type=pathlib.Path, required=True, help="directory of Dokka's jars")
    parser.add_argument("--class-path", required=True, help="jars that the sources refer to")
    parser.add_argument("--out", required=True, help="directory of the pages")
    arguments = parser.parse_args()
    module = next(each for each in modules() if each.name == arguments.module)
    plugins = sorted(str(jar) for jar in arguments.dokka.glob("*.jar") if not jar.name.startswith("dokka-core"))
    print(json.dumps({
        "moduleName": module.name,
        "moduleVersion": version(),
        "outputDir": arguments.out,
        "offlineMode": True,
        "failOnWarning": False,
        "suppressInheritedMembers": True,
        "pluginsClasspath": plugins,
        "pluginsConfiguration": [{
            "fqPluginName": "org.jetbrains.dokka.base.DokkaBase",
            "serializationFormat": "JSON",
            # The default has the year of the day.
            "values": json.dumps({"footerMessage": "Licensed under Apache-2.0 or MIT"}),
        }],
        "sourceSets": [{
            "displayName": "main",
            "sourceSetID": {"scopeId": module.name, "sourceSetName": "main"},
            "analysisPlatform": "jvm",
            "jdkVersion": 11,
            "documentedVisibilities": ["PUBLIC"],
            "classpath": arguments.class_path.split(":"),
            "sourceRoots": [str(root) for root in module.sources],
        }],
    }, indent=2))


if __name__ == "__main__":
    main()
