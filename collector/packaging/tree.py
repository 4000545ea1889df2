"""The files that a released program installs, and archives of them with the same bytes each time. Used by package.py."""

import dataclasses
import gzip
import io
import tarfile


@dataclasses.dataclass(frozen=True)
class File:
    """One file: its content and whether it can be executed."""

    content: bytes
    is_program: bool = False


def compressed(content):
    """Returns `content` as gzip, without name and time. The header of gzip.compress() differs between Pythons."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as out:
        out.write(content)
    return packed.getvalue()


def tar(files, epoch, prefix="", links=None):
    """Returns a tar of `files` (by path) below `prefix`, with all directories, owned by root.

    `links` has the targets of symbolic links by path.
    """
    entries = {prefix + path: file for path, file in files.items()}
    entries.update({prefix + path: target for path, target in (links or {}).items()})
    directories = set()
    for path in entries:
        parts = path.split("/")[:-1]
        directories.update("/".join(parts[: count + 1]) for count in range(len(parts)))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as out:
        for path in sorted(directories | set(entries)):
            if not path or path == ".":
                continue
            entry = tarfile.TarInfo(path)
            entry.mtime = epoch
            entry.uname = entry.gname = "root"
            if path in directories:
                entry.type = tarfile.DIRTYPE
                entry.mode = 0o755
                out.addfile(entry)
            elif isinstance(entries[path], str):
                entry.type = tarfile.SYMTYPE
                entry.linkname = entries[path]
                out.addfile(entry)
            else:
                file = entries[path]
                entry.mode = 0o755 if file.is_program else 0o644
                entry.size = len(file.content)
                out.addfile(entry, io.BytesIO(file.content))
    return packed.getvalue()
