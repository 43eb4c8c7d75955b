"""Manifest: what the archive of a workspace holds, and under which names.

A tar.gz (of older versions a zip) with the members below and `manifest.json`, which has the size and SHA-256 of each:

    MEMORY.md  MEMORY.md.seed-backup  GENOME.md  memory/scratch.md  memory/economics.json
    state.db                      every row of every table; its full-text indexes are empty, for they can be rebuilt
    history/000001.json           of older archives: the records of versions
    segments/000007.md  .json     the segments of the log, and how far they were consumed
    segments/retired/000006.4711.md

Not in it, for it is made again or is nobody's memory: the vector index, locks, the checkpoints of a dream under way,
temporary files. Whatever else a workspace's folder holds (transcripts) is not dreamd's to take along.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from state.errors import DocumentError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "state.db"
MAX_MEMBERS = 100_000
"""Some ten years of a dream every hour."""
MAX_WHOLE_BYTES = 64 * 1024**2
"""What is read in one piece (MEMORY.md, a row of state.db) is no longer than this."""
MAX_RECORD_BYTES = 16 * 1024**2
"""A record of a version, which is read into values."""
BLOCK = 1024**2

TEMPORARY = ".dreamd-tmp"
"""The ending of files that are being written; `Segments.sweep` removes old ones."""

_LONGEST_REASON = 300
_FILES = ("MEMORY.md", "MEMORY.md.seed-backup", "GENOME.md", "memory/economics.json")
SCRATCH = "memory/scratch.md"
_HISTORY = re.compile(r"history/([0-9]{6,12})\.json")
_SEGMENT = re.compile(r"segments/([0-9]{6,12})\.(?:md|json)")
_UNMOVED = re.compile(r"\.export-([1-9][0-9]{0,8})-.*" + re.escape(TEMPORARY))
_RETIRED = re.compile(r"segments/retired/([0-9]{6,12})\.(?:0|[1-9][0-9]{0,17})\.md")


@dataclass(frozen=True, slots=True)
class Member:
    """One file. Its time belongs to it: a note without a stamp has the time of its file."""

    name: str
    size: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive holds, of which schema its state.db is, when it was made and by which dreamd."""

    format: int
    dreamd: str
    schema: int
    at: datetime
    members: tuple[Member, ...]


class ArchiveError(DocumentError):
    """A file is no archive of a workspace, or a damaged or hostile one; nothing was imported."""


def plainly(what: str) -> str:
    """A foreign message as one short line without control characters."""
    printable = "".join(sign if sign.isprintable() else " " for sign in what[:_LONGEST_REASON])
    return " ".join(printable.split())


def unmoved_name(process: int) -> str:
    """The name of an archive that this process has yet to move out of the state folder."""
    return f".export-{process}-{os.urandom(4).hex()}.tar.gz{TEMPORARY}"


def remove_unmoved(workspace: Workspace, disk: Disk) -> None:
    """Delete the archives whose process ended before it moved them away; for the workspace's owner.

    One whose number another process has by now goes with the old temporary files.
    """
    with storage_errors(workspace.state):
        for path in workspace.state.glob(f".export-*{TEMPORARY}"):
            match = _UNMOVED.fullmatch(path.name)
            if match and not _is_alive(int(match.group(1))):
                with suppress(FileNotFoundError):
                    disk.system.unlink(path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def own_files(workspace: Workspace) -> tuple[tuple[str, Path], ...]:
    """The members beside the log that a person may have written, by name and place."""
    return tuple((name, workspace.root / name) for name in _FILES)


def place(workspace: Workspace, name: str) -> Path | None:
    """The path of the member of this name in a workspace; None for a name that no member has."""
    if name == SCRATCH or name in _FILES:
        return workspace.root / name
    if name == DATABASE:
        return workspace.database
    for kind in (_HISTORY, _SEGMENT, _RETIRED):
        match = kind.fullmatch(name)
        # A number is written in one way only: no two names mean the same record.
        if match and f"{int(match.group(1)):06d}" == match.group(1):
            return workspace.state / name
    return None


def version_of(name: str) -> int | None:
    """The version whose record this member is; None for another member."""
    match = _HISTORY.fullmatch(name)
    return int(match.group(1)) if match else None


def is_inside(file: str) -> bool:
    """Whether a transcript of this name, as state.db has it, is the owner's own in the workspace's folder."""
    path = PurePosixPath(file)
    return bool(path.parts) and not path.is_absolute() and not {"..", ".dreamd"} & {*path.parts} and "\0" not in file


def is_private(name: str) -> bool:
    """Whether only the owner may read it; the files in the root are as MEMORY.md is."""
    return name not in _FILES
