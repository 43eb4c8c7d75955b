"""Scan: finds the files of a workspace that match globs, and tells which have changed since the last look.

Files are polled rather than watched: a look takes a fraction of a millisecond, what it misses the next one finds, and
it works on every file system.
"""

import os
import stat
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from state.stores.disk.workspace import SCRATCH, STATE_FOLDER

# The share of time that polling one workspace may take.
_SHARE = 0.02


class Change(StrEnum):
    """What has changed in a workspace."""

    SCRATCH = "scratch"
    DOCUMENT = "document"
    TRANSCRIPT = "transcript"


class Watched:
    """The files of one workspace as of the last look; for one thread at a time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: dict[Change, int] = {}
        self._not_before = 0.0

    def look(self, transcripts: Sequence[str]) -> set[Change]:
        """Return what has changed since the last look; the first look returns nothing."""
        began = time.monotonic()
        if began < self._not_before:
            return set()
        globs = {Change.SCRATCH: [SCRATCH], Change.DOCUMENT: ["MEMORY.md"], Change.TRANSCRIPT: transcripts}
        root = os.path.realpath(self._root)
        before, self._seen = self._seen, {change: _stamp(root, some) for change, some in globs.items()}
        now = time.monotonic()
        self._not_before = now + (now - began) / _SHARE
        return {change for change, seen in self._seen.items() if before and seen != before[change]}


def files(root: Path, glob: str) -> list[Path]:
    """Return the files that match, links included, and the folders that lead out of the root, which are not entered.

    Match like `Path.glob`, except in `.dreamd`. A linked folder that the glob names is followed unless it leads out
    of the root; `**` follows no links. Unreadable entries are skipped, and a glob that is absolute or leads upwards
    matches nothing.
    """
    walk = _Walk(os.fspath(root))
    walk.follow(glob)
    return sorted(Path(path) for path in {*walk.files, *walk.leading_out})


def _stamp(root: str, globs: Iterable[str]) -> int:
    """Return a fingerprint that changes whenever a matching file is added, removed or written."""
    walk = _Walk(root)
    for glob in globs:
        walk.follow(glob)
    return hash(frozenset(walk.files.items()))


class _Walk:
    """The matching files below a root (a path without links), with what changes when they are written."""

    def __init__(self, root: str) -> None:
        self.files: dict[str, tuple[int, ...]] = {}
        self.leading_out: set[str] = set()
        self._root = root
        self._listed: dict[str, list[tuple[str, bool]]] = {}

    def follow(self, glob: str) -> None:
        """Add the files that match."""
        parts = PurePosixPath(glob).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in glob:
            return
        todo = [(self._root, parts if parts[-1] != "**" else (*parts, "*"))]
        met = set[tuple[str, tuple[str, ...]]]()
        while todo:
            folder, parts = step = todo.pop()
            if step in met:
                continue
            met.add(step)
            first, rest = parts[0], parts[1:]
            if not rest:
                self._add(self._named(folder, first))
            elif first == "**":
                todo.append((folder, rest))
                below = [path for path, is_folder in self._list(folder) if is_folder]
                todo += [(path, parts) for path in self._entered(below)]
            else:
                todo += [(path, rest) for path in self._entered(self._named(folder, first))]

    def _named(self, folder: str, glob: str) -> list[str]:
        if not any(sign in glob for sign in "*?["):
            return [f"{folder}/{glob}"]
        return [path for path, _ in self._list(folder) if fnmatchcase(os.path.basename(path), glob)]  # noqa: PTH119 - a Path costs more than the call

    def _entered(self, paths: Iterable[str]) -> list[str]:
        """Return the real paths of the folders that are inside the root."""
        found = []
        for path in paths:
            try:
                status, real = os.lstat(path), path
                if stat.S_ISLNK(status.st_mode):
                    status, real = os.stat(path), os.path.realpath(path)  # noqa: PTH116 - see above
            except OSError:
                continue
            below = f"{real}/".removeprefix(f"{self._root}/")
            if below.startswith("/"):
                self.leading_out.add(path)
            elif stat.S_ISDIR(status.st_mode) and f"/{STATE_FOLDER}/" not in f"/{below}":
                found.append(real)
        return found

    def _list(self, folder: str) -> list[tuple[str, bool]]:
        """Return the entries of a folder, and whether each is a folder itself rather than a link."""
        if folder not in self._listed:
            try:
                with os.scandir(folder) as entries:
                    self._listed[folder] = [(one.path, one.is_dir(follow_symlinks=False)) for one in entries]
            except OSError:
                self._listed[folder] = []
        return self._listed[folder]

    def _add(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                status = os.stat(path)  # noqa: PTH116 - see above
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                self.files[path] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
