"""Writes the descriptions of an artifact that Maven (POM) and Gradle (module metadata) read. Called by repository.py."""

import hashlib
import json
from xml.sax.saxutils import escape

from modules import GROUP, LICENCES

# Gradle looks for a .module file beside a POM that has this line.
MARK = "<!-- do_not_remove: published-with-gradle-metadata -->"


def pom(module, version, url):
    """Returns the POM of `module`; `url` is the project's page, or None."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<project xmlns="http://maven.apache.org/POM/4.0.0">',
        *([f"  {MARK}"] if module.kind != "pom" else []),
        "  <modelVersion>4.0.0</modelVersion>",
        f"  <groupId>{module.group}</groupId>",
        f"  <artifactId>{module.name}</artifactId>",
        f"  <version>{version}</version>",
    ]
    packaging = {"aar": "aar", "pom": "pom", "platform": "pom"}.get(module.kind)
    if packaging:
        lines.append(f"  <packaging>{packaging}</packaging>")
    lines += [
        f"  <name>{escape(module.title)}</name>",
        f"  <description>{escape(module.description)}</description>",
        *([f"  <url>{escape(url)}</url>"] if url else []),
        "  <licenses>",
        *(
            f"    <license><name>{name}</name><url>{url}</url><distribution>repo</distribution></license>"
            for name, url in LICENCES
        ),
        "  </licenses>",
        "  <developers><developer><id>tracetee</id><name>The tracetee authors</name></developer></developers>",
    ]
    if url:
        connection = f"<connection>scm:git:{escape(url)}.git</connection>"
        lines.append(f"  <scm><url>{escape(url)}</url>{connection}<tag>v{version}</tag></scm>")
    indent = "  "
    if module.kind == "platform":
        lines.append("  <dependencyManagement>")
        indent = "    "
    lines.append(f"{indent}<dependencies>")
    for each in module.dependencies:
        kind = "<type>aar</type>" if each.aar else ""
        scope = "" if module.kind == "platform" else f"<scope>{'compile' if each.api else 'runtime'}</scope>"
        lines.append(
            f"{indent}  <dependency><groupId>{each.group}</groupId><artifactId>{each.name}</artifactId>"
            f"<version>{each.version}</version>{kind}{scope}</dependency>"
        )
    lines.append(f"{indent}</dependencies>")
    if module.kind == "platform":
        lines.append("  </dependencyManagement>")
    return "\n".join([*lines, "</project>", ""]).encode()


def digests(content):
    """Returns the digests that Maven and Gradle know, by their names."""
    return {name: hashlib.new(name, content).hexdigest() for name in ["md5", "sha1", "sha256", "sha512"]}


def module_file(module, version, files):
    """Returns Gradle's module metadata. `files` has the content of each artifact by its suffix and ending."""
    def entry(suffix):
        name = f"{module.name}-{version}{suffix}"
        sums = digests(files[suffix])
        return [{"name": name, "url": name, "size": len(files[suffix]),
                 **{key: sums[key] for key in ["sha512", "sha256", "sha1", "md5"]}}]

    def variant(name, usage, needed):
        attributes = {"org.gradle.category": "platform" if module.kind == "platform" else "library"}
        if module.kind != "platform":
            attributes["org.gradle.dependency.bundling"] = "external"
        if module.kind == "aar":
            attributes["org.gradle.libraryelements"] = "aar"
            attributes["org.jetbrains.kotlin.platform.type"] = "androidJvm"
        elif module.kind == "jar":
            attributes["org.gradle.jvm.environment"] = "standard-jvm"
            attributes["org.gradle.jvm.version"] = 11
            attributes["org.gradle.libraryelements"] = "jar"
            attributes["org.jetbrains.kotlin.platform.type"] = "jvm"
        attributes["org.gradle.usage"] = usage
        listed = "dependencyConstraints" if module.kind == "platform" else "dependencies"
        result = {"name": name, "attributes": attributes}
        if needed:
            result[listed] = [
                {"group": each.group, "module": each.name, "version": {"requires": each.version}} for each in needed
            ]
        if module.kind != "platform":
            result["files"] = entry("." + module.kind)
        if module.capabilities:
            result["capabilities"] = [
                {"group": GROUP, "name": each, "version": version} for each in module.capabilities
            ]
        return result

    def documents(name, kind, suffix):
        return {"name": name, "attributes": {
            "org.gradle.category": "documentation", "org.gradle.dependency.bundling": "external",
            "org.gradle.docstype": kind, "org.gradle.usage": "java-runtime"}, "files": entry(suffix)}

    api = [each for each in module.dependencies if each.api]
    variants = [
        variant("apiElements", "java-api", api),
        variant("runtimeElements", "java-runtime", list(module.dependencies)),
    ]
    if "-sources.jar" in files:
        variants.append(documents("sourcesElements", "sources", "-sources.jar"))
    if "-javadoc.jar" in files:
        variants.append(documents("javadocElements", "javadoc", "-javadoc.jar"))
    described = {
        "formatVersion": "1.1",
        "component": {"group": module.group, "module": module.name, "version": version,
                      "attributes": {"org.gradle.status": "release"}},
        "createdBy": {"tracetee": {"version": version}},
        "variants": variants,
    }
    return (json.dumps(described, indent=2) + "\n").encode()


def versions_file(module, version, date):
    """Returns maven-metadata.xml, which lists this version alone: a server adds it to those that it has."""
    return "\n".join([
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<metadata>",
        f"  <groupId>{module.group}</groupId>",
        f"  <artifactId>{module.name}</artifactId>",
        "  <versioning>",
        f"    <latest>{version}</latest>",
        f"    <release>{version}</release>",
        f"    <versions><version>{version}</version></versions>",
        f"    <lastUpdated>{date:%Y%m%d%H%M%S}</lastUpdated>",
        "  </versioning>",
        "</metadata>",
        "",
    ]).encode()
