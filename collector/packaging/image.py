#!/usr/bin/env python3
"""Writes a container image as an OCI layout, with the same bytes each time.

    image.py LAYOUT VERSION REVISION ARCHITECTURE=LAYER.tar,LAYER.tar…     called by ./package

SOURCE_DATE_EPOCH is the date of the image.
"""

import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys

MEDIA = "application/vnd.oci.image"
# The user that ./base makes.
USER = 65532
# A field of Docker that OCI lacks: other engines ignore it. Times are in ns. A collector with TLS,
# or at another address, needs a different command.
HEALTH = {
    "Test": ["CMD", "/usr/bin/tracetee", "probe"],
    "Interval": 30_000_000_000,
    "Timeout": 10_000_000_000,
    "StartPeriod": 10_000_000_000,
    "Retries": 3,
}


def main():
    directory, version, revision, *images = sys.argv[1:]
    layout = pathlib.Path(directory)
    blobs = layout / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(content, media, **more):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content), **more}

    def json_blob(value, media, **more):
        return blob(json.dumps(value, sort_keys=True).encode(), media, **more)

    date = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.UTC)
    created = date.strftime("%Y-%m-%dT%H:%M:%SZ")
    notes = {
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.title": "tracetee",
        "org.opencontainers.image.version": version,
    }
    manifests = []
    for image in images:
        architecture, _, names = image.partition("=")
        layers = [pathlib.Path(name).read_bytes() for name in names.split(",")]
        config = {
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "Cmd": ["--help"],
                "Entrypoint": ["/usr/bin/tracetee"],
                "Env": ["PATH=/usr/bin:/bin", "HOME=/data"],
                "ExposedPorts": {"8440/tcp": {}},
                "Healthcheck": HEALTH,
                "Labels": notes,
                "User": f"{USER}:{USER}",
                "Volumes": {"/data": {}},
                "WorkingDir": "/data",
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers],
            },
            "history": [{"created": created, "created_by": "./release"} for _ in layers],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": json_blob(config, f"{MEDIA}.config.v1+json"),
            "layers": [blob(compressed(layer), f"{MEDIA}.layer.v1.tar+gzip") for layer in layers],
            "annotations": notes,
        }
        manifests.append(json_blob(
            manifest, manifest["mediaType"], platform={"architecture": architecture, "os": "linux"}
        ))
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": manifests}
    named = json_blob(
        index, index["mediaType"], annotations={"org.opencontainers.image.ref.name": version}
    )
    (layout / "index.json").write_text(json.dumps({**index, "manifests": [named]}, sort_keys=True))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def compressed(layer):
    """Returns a layer as gzip of the command: Python's differs between versions."""
    return subprocess.run(["gzip", "-9n"], input=layer, check=True, capture_output=True).stdout


if __name__ == "__main__":
    main()
