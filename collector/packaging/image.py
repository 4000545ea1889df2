"""Makes a container image as an OCI layout, with the same bytes each time. Used by package.py."""

import datetime
import hashlib
import io
import json
import re
import tarfile

from tree import File, compressed, tar

MEDIA = "application/vnd.oci.image"
# Nobody's: the program needs no rights of root.
USER = 65532
# Docker's field, which OCI does not have: engines that do not know it ignore it. Times are in ns. A collector with TLS, or at another
# address, needs a command of its own.
HEALTH = {
    "Test": ["CMD", "/usr/bin/tracetee", "probe"],
    "Interval": 30_000_000_000,
    "Timeout": 10_000_000_000,
    "StartPeriod": 10_000_000_000,
    "Retries": 3,
}
# Files of Debian's packages that the image has.
CERTIFICATE = re.compile(r"usr/share/ca-certificates/mozilla/.*\.crt")
KEPT = re.compile(r"(lib|lib64)(/|$)|usr$|usr/lib(/|$)|usr/share$|usr/share/doc(/(libc6|libgcc-s1|gcc-12-base|ca-certificates)(/|$)|$)")
LEFT_OUT = re.compile(
    r"/(libssl|libcrypto|engines-3|ossl-modules|perl|perl-base|gconv|audit|ssl|examples|README|NEWS|TODO)([./]|$)|changelog"
)


def accounts():
    """Returns the files that name the user, and the directory for the store."""
    return {
        "etc/passwd": File(f"root:x:0:0:root:/:/sbin/nologin\ntracetee:x:{USER}:{USER}:tracetee:/data:/sbin/nologin\n".encode()),
        "etc/group": File(f"root:x:0:\ntracetee:x:{USER}:\n".encode()),
        "etc/nsswitch.conf": File(b"hosts: files dns\n"),
    }


def layout(images, version, revision, epoch):
    """Returns the files of a layout, by path. `images` has (architecture, layers as tars) of each platform."""
    blobs = {}

    def blob(content, media, **more):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = File(content)
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content), **more}

    def json_blob(value, media, **more):
        return blob(json.dumps(value, sort_keys=True).encode(), media, **more)

    created = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    notes = {
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.title": "tracetee",
        "org.opencontainers.image.version": version,
    }
    manifests = []
    for architecture, layers in images:
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
    return {
        **blobs,
        "index.json": File(json.dumps({**index, "manifests": [named]}, sort_keys=True).encode()),
        "oci-layout": File(b'{"imageLayoutVersion": "1.0.0"}'),
    }


def base_layer(unpacked, epoch):
    """Returns the layer below the program: of Debian's packages in the tar `unpacked` the C library, its compilers'
    run-time library, their copyrights, and all certificates in one file; a user, and an empty /data that is its own."""
    certificates = b""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(unpacked)) as source,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out,
    ):
        entries = {entry.name.removeprefix("./").rstrip("/"): entry for entry in source}
        for name, entry in sorted(entries.items()):
            if CERTIFICATE.fullmatch(name):
                certificates += source.extractfile(entry).read()
            if KEPT.match(name) and not LEFT_OUT.search(name):
                entry.name = name
                out.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
    if not certificates:
        raise SystemExit("no certificates among the files for the image")
    owned = io.BytesIO()
    with tarfile.open(fileobj=owned, mode="w", format=tarfile.PAX_FORMAT) as out:
        # What an engine mounts there needs a place in a root that is read-only.
        mounts = [("dev", 0o755, 0), ("proc", 0o755, 0), ("sys", 0o755, 0), ("tmp", 0o1777, 0)]
        for path, mode, owner in [*mounts, ("data", 0o755, USER)]:
            entry = tarfile.TarInfo(path)
            entry.type = tarfile.DIRTYPE
            entry.mode, entry.mtime = mode, epoch
            entry.uid = entry.gid = owner
            out.addfile(entry)
    settings = {**accounts(), "etc/ssl/certs/ca-certificates.crt": File(certificates)}
    return joined(packed.getvalue(), tar(settings, epoch), owned.getvalue())


def joined(*archives):
    """Returns one tar with the entries of all; a directory that several have is there once."""
    packed = io.BytesIO()
    seen = set()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out:
        for archive in archives:
            with tarfile.open(fileobj=io.BytesIO(archive)) as source:
                for entry in source:
                    if not (entry.isdir() and entry.name in seen):
                        seen.add(entry.name)
                        out.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
    return packed.getvalue()
