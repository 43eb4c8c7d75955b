"""Adoption: which workspaces this user made or took over.

A workspace that came with a repository or on a shared disk is somebody else's. What makes one this user's lies in the
user's own state folder, where no workspace can put it:

    $XDG_STATE_HOME/dreamd/adopted/<digest of the root>/mark         the workspace's number, and its root
                                                        transcripts  files outside it that its owner named, one a line
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from daemon.config.paths import make_private_folder, registry_path, state_folder
from state.errors import DreamdError, StorageError
from state.stores.disk import workspace as workspaces
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import STATE_FOLDER, Workspace

try:
    from _sha256 import sha256  # type: ignore[import-not-found]  # hashlib loads OpenSSL, for every `dreamd note`
except ImportError:
    from hashlib import sha256

_NUMBER = re.compile(rb"[0-9a-f]{32}")
_MARK, _TRANSCRIPTS = "mark", "transcripts"


def open_workspace(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace whose root is this folder, `foreign` when this user neither made nor adopted it.

    Raises UsageError when there is none (yet), StorageError when this user cannot write in it.
    """
    return _known(workspaces.open_workspace(folder), environment)


def find_workspace(start: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """The workspace of this folder or of the nearest one above it, `foreign` or not. Raises UsageError."""
    return _known(workspaces.find_workspace(start), environment)


def init_workspace(folder: Path, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Make the folder a workspace of this user's, or return the one that it is.

    Raises ForeignError for a workspace that somebody else made, UsageError and StorageError as the store does.
    """
    real = Path(os.path.realpath(folder))
    if os.path.lexists(real / STATE_FOLDER):
        known = open_workspace(real, environment)
        known.require_own()
    return adopt(workspaces.init_workspace(folder), environment)


def adopt(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Workspace:
    """Mark the workspace as this user's; doing it again is harmless."""
    disk = Disk(workspace.root)
    with suppress(FileExistsError):
        disk.write_new(workspace.identity, os.urandom(16).hex().encode() + b"\n")
    number = _number(workspace)
    if number is None:  # somebody else's file, which tells nothing apart
        disk.remove(workspace.identity)
        return adopt(workspace, environment)
    own = own_folder(workspace, environment)
    make_private_folder(own)
    Disk(own).write_atomic(own / _MARK, _mark(number, workspace))
    return replace(workspace, foreign=False)


def own_folder(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Path:
    """The user's own folder for a workspace, for facts that no workspace may state itself."""
    digest: str = sha256(os.fsencode(workspace.root)).hexdigest()[:40]
    return _all(environment) / digest


def transcript_list(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Path:
    """The file that lists the transcripts outside the workspace which its owner named."""
    return own_folder(workspace, environment) / _TRANSCRIPTS


def vouched(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The files outside the workspace that its owner named, links followed: their text may be learnt."""
    listed = transcript_list(workspace, environment)
    content = Disk(listed.parent).read_optional(listed) or b""
    return frozenset(os.fsdecode(line) for line in content.split(b"\n") if line)


def vouch(workspace: Workspace, transcript: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Record that the owner, or an agent's hook, has named this file (links followed)."""
    workspace.require_own()
    real = os.path.realpath(transcript)
    if Path(real).is_relative_to(workspace.root) or "\n" in real or real in vouched(workspace, environment):
        return
    listed = transcript_list(workspace, environment)
    make_private_folder(listed.parent)
    Disk(listed.parent).append_locked(listed, os.fsencode(real) + b"\n", b"")


def unvouch(workspace: Workspace, holds: Callable[[str], bool], environment: Mapping[str, str] = os.environ) -> int:
    """Remove the files from the list whose names `holds` accepts; returns how many."""
    known = vouched(workspace, environment)
    kept = sorted(name for name in known if not holds(name))
    if len(kept) < len(known):
        listed = transcript_list(workspace, environment)
        Disk(listed.parent).write_atomic(listed, b"".join(os.fsencode(name) + b"\n" for name in kept))
    return len(known) - len(kept)


def _known(workspace: Workspace, environment: Mapping[str, str]) -> Workspace:
    _take_over_registered(environment)
    number, own, mark = _number(workspace), own_folder(workspace, environment), None
    with suppress(StorageError):  # a mark that cannot be read marks nothing; adopting says what is in the way
        mark = Disk(own).read_optional(own / _MARK)
    return replace(workspace, foreign=number is None or mark != _mark(number, workspace))


def _take_over_registered(environment: Mapping[str, str]) -> None:
    """Adopt all workspaces of the user's registry, once, where no workspace has a mark yet."""
    every, registry = _all(environment), registry_path(environment)
    if every.exists() or not registry.exists():
        return
    make_private_folder(every)
    from daemon.config.registry import known  # needed once in the life of a state folder

    for root in known(registry):
        with suppress(DreamdError):  # it is gone, or cannot be written: adopted by hand, when it is back
            adopt(workspaces.open_workspace(root), environment)


def _all(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / "adopted"


def _mark(number: bytes, workspace: Workspace) -> bytes:
    return number + b"\n" + os.fsencode(workspace.root) + b"\n"


def _number(workspace: Workspace) -> bytes | None:
    """The number in the workspace; None when the file is missing or holds something else."""
    with storage_errors(workspace.identity):
        try:
            fd = os.open(workspace.identity, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            content = os.read(fd, 64).rstrip(b"\n")
        except OSError:
            return None
        finally:
            os.close(fd)
    return content if _NUMBER.fullmatch(content) else None
