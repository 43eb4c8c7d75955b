"""Local copy: the record in a folder of which generation it holds.

`.dreamd/generation.json` is there as long as the folder is that generation and nothing else: whoever is about to
write removes it first, and it is written again when what was written is a generation itself. It names each file with
its size, time and inode, so that a file that changed behind it is not believed. What was not synced is lost with the
power, so it counts until the machine starts again, and no file of a copy has to be synced.
"""

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from state.fleet.generation import Manifest, StoredFile
from state.stores.disk.syscalls import System, storage_errors
from state.stores.generations.belonging import DATABASES, RECORD

Identity = tuple[int, ...]
"""Size, time of the last change and inode of a file; of a database, those of its log as well."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """What a folder holds: the generation's number and fence, and of each file digest and identity."""

    number: int
    fence: int
    files: dict[str, tuple[str, Identity]] = field(default_factory=dict)

    def holds(self, root: Path, file: StoredFile) -> bool:
        """Whether the folder's file of this name is that one."""
        known = self.files.get(file.name)
        return known is not None and known == (file.digest, identity(root, file.name))


def identity(root: Path, name: str) -> Identity | None:
    """What tells the regular file of this name from what it is after any change; None where there is none."""
    found = _identity(root / name)
    if found is None or name not in DATABASES:
        return found
    log = _identity(root / f"{name}-wal")
    return found + log if log is not None and log[0] else found  # an empty one is whoever reads


def identity_of(status: os.stat_result) -> Identity:
    """The identity of an open file, unless it is a database."""
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def _identity(path: Path) -> Identity | None:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return identity_of(status) if stat.S_ISREG(status.st_mode) else None


def opened(folder: Path, system: System | None = None) -> None:
    """Say that the folder is about to be written; doing it again is harmless."""
    path = folder / RECORD
    with storage_errors(path), suppress(FileNotFoundError, NotADirectoryError):
        (system or System()).unlink(path)


def closed(folder: Path, manifest: Manifest, system: System | None = None) -> None:
    """Say that the folder is this generation, as it was put from here or brought up here.

    Nothing was written in its databases since. Other files are left out that are no longer what was put. Call it
    again once the databases are closed: SQLite then changes their files, not what they hold.
    """
    files = dict(_found(folder, manifest.files))
    record = {
        "boot": boot(),
        "number": manifest.number,
        "fence": manifest.fence,
        "files": {name: [digest, *found] for name, (digest, found) in files.items()},
    }
    path = folder / RECORD
    beside = path.with_name(f".{path.name}.dreamd-tmp")
    calls = system or System()
    with storage_errors(path):
        with suppress(FileNotFoundError):
            calls.unlink(beside)
        fd = calls.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            content = json.dumps(record).encode()
            written = 0
            while written < len(content):
                written += calls.write(fd, content[written:])
        finally:
            os.close(fd)
        calls.rename(beside, path)


def held(folder: Path) -> LocalCopy | None:
    """What the folder holds; None when that is not known: it was being written, or the machine has started since."""
    try:
        plain = json.loads((folder / RECORD).read_bytes())
        if not plain["boot"] or plain["boot"] != boot():
            return None
        files = {name: (digest, tuple(found)) for name, (digest, *found) in plain["files"].items()}
        return LocalCopy(plain["number"], plain["fence"], files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def boot() -> str:
    """Which start of this machine it is; empty where the kernel does not tell."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _found(folder: Path, files: Iterable[StoredFile]) -> Iterable[tuple[str, tuple[str, Identity]]]:
    for file in files:
        found = identity(folder, file.name)
        if found is None:
            continue
        if file.name in DATABASES or found[:2] == (file.size, file.mtime_ns):
            yield file.name, (file.digest, found)
