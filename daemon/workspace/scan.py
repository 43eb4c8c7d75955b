"""Scan: a workspace's watched files at one moment, as a value to compare with the next."""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path, PurePosixPath

from state.stores.disk.workspace import STATE_FOLDER

# A glob, part by part.
Pattern = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The result of a scan; every path is free of links.

    `seen` stays the same as long as nothing changes. `folders` have their device and inode: one that was made anew
    is another folder. `names` pairs a folder with a glob of the files in it that count.
    """

    seen: int
    folders: Mapping[str, tuple[int, int]]
    names: frozenset[tuple[str, str]]


def patterns_of(globs: Iterable[str]) -> tuple[Pattern, ...]:
    """Return the valid globs, by the rule of the transcripts' globs, which refuses the others."""
    return tuple(
        (*parts, "*") if parts[-1] == "**" else parts
        for glob in globs
        if (parts := PurePosixPath(glob).parts) and parts[0] != "/" and ".." not in parts and "\0" not in glob
    )


def scan(root: Path, patterns: Iterable[Pattern]) -> View:
    """Look at the files below the root that match, as `Path.glob` would find them; `.dreamd` is left out.

    There are no links above the root. A folder that a glob names is followed when it is a link, but not out of the
    workspace, where it might lead to everything; `**` follows none. What cannot be read is not there.
    """
    walk = _Walk(str(root))
    for pattern in patterns:
        walk.follow(pattern)
    return View(hash(frozenset(walk.marks)), walk.folders, frozenset(walk.names))


def files(root: Path, glob: str) -> list[Path]:
    """Return the files that match, also links, and the folders met that lead out of the root and are not entered.

    An invalid glob matches none.
    """
    walk = _Walk(str(root))
    for pattern in patterns_of([glob]):
        walk.follow(pattern)
    return sorted(Path(path) for path in {path for path, *_ in walk.marks} | walk.leading_out)


class _Walk:
    """The state of one scan. Every folder on the way to the files is noted: it changes when a new one appears."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.marks: set[tuple[str, int, int, int]] = set()
        self.folders: dict[str, tuple[int, int]] = {}
        self.names: set[tuple[str, str]] = set()
        self.leading_out: set[str] = set()
        self._listed: dict[str, list[os.DirEntry[str]]] = {}

    def follow(self, pattern: Pattern) -> None:
        todo = [(folder, pattern) for folder in self._entered([self.root])]
        met: set[tuple[str, Pattern]] = set()
        while todo:
            folder, parts = step = todo.pop()
            if step in met:
                continue
            met.add(step)
            first, rest = parts[0], parts[1:]
            if not rest:
                self._files(folder, first)
            elif first == "**":
                todo.append((folder, rest))
                below = [entry.path for entry in self._list(folder) if _may_be_folder(entry)]
                todo += [(one, parts) for one in self._entered(below)]
            else:
                todo += [(one, rest) for one in self._entered(self._named(folder, first))]

    def _named(self, folder: str, glob: str) -> list[str]:
        if not _magic(glob):
            return [f"{folder}/{glob}"]
        return [entry.path for entry in self._list(folder) if fnmatchcase(entry.name, glob)]

    def _entered(self, paths: Iterable[str]) -> list[str]:
        """Return the real paths of those that are folders, which are noted."""
        found = []
        for path in paths:
            try:
                status, real = os.lstat(path), path
                if stat.S_ISLNK(status.st_mode):
                    status, real = os.stat(path), os.path.realpath(path)  # noqa: PTH116 - Path costs more than the call
                    if not self._is_inside(real):
                        self.leading_out.add(path)
                        continue
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode) and not self._is_state(path) and not self._is_state(real):
                self.folders[real] = (status.st_dev, status.st_ino)
                found.append(real)
        return found

    def _is_inside(self, real: str) -> bool:
        return real == self.root or real.startswith(f"{self.root}/")

    def _is_state(self, path: str) -> bool:
        if path == self.root:
            return False
        return path.endswith(f"/{STATE_FOLDER}") or path.startswith(f"{self.root}/{STATE_FOLDER}/")

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        if folder not in self._listed:
            try:
                with os.scandir(folder) as entries:
                    self._listed[folder] = list(entries)
            except OSError:
                self._listed[folder] = []
        return self._listed[folder]

    def _files(self, folder: str, glob: str) -> None:
        self.names.add((folder, glob))
        for path in self._named(folder, glob):
            try:
                status = os.lstat(path)
                linked = stat.S_ISLNK(status.st_mode)
                if linked:
                    status = os.stat(path)  # noqa: PTH116 - see above
            except OSError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            self.marks.add((path, status.st_size, status.st_mtime_ns, status.st_ino))
            if linked:
                parent, name = os.path.split(os.path.realpath(path))
                self.names |= {(one, escape(name)) for one in self._entered([parent])}


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # asked again, and answered, when it is entered
        return True


def _magic(glob: str) -> bool:
    return any(sign in glob for sign in "*?[")
