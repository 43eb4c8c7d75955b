"""Registry: the list of workspaces that the daemon looks after, from its own file and from the configuration.

The registry is a text file with one absolute path per line; people may edit it, and their comments stay. A '!' before
a path excludes that workspace from every daemon.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from daemon.config.paths import make_private_folder
from state.errors import DreamdError, UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import STATE_FOLDER

_HEADER = (
    b"# The workspaces that dreamd looks after, one absolute path a line; after a !, one that it leaves alone.\n"
)
_CONFIGURED = "daemon.workspaces"
_LONGEST_NAME = 48
_DIGITS = 12  # with six, two of a few thousand folders of one name would probably collide
_NAME = re.compile(r"[a-z0-9-]{1,35}-[0-9a-f]{12}")


class Entry(NamedTuple):
    """A text that names workspaces. `origin`: "command line", the registry's path, or a configuration key."""

    text: str
    origin: str


class Named(NamedTuple):
    """The existing folders that an entry names now, symbolic links resolved, and what is wrong with the entry."""

    roots: tuple[Path, ...]
    problem: DreamdError | None = None


class WorkspaceList:
    """The entries of command line, registry and configuration, and the folders each last named. Not thread-safe.

    Except `look_up`, which any thread may call: it alone accesses an entry's folders, and their disk may hang.
    """

    def __init__(
        self,
        registry: Path,
        folders: Sequence[Path],
        home: Path,
        root_of: Callable[[Path], Path] = lambda folder: folder,
    ) -> None:
        """Start with `folders`, in addition to those of the registry and the configuration.

        `root_of` returns the root of a folder's workspace, which for a repository is elsewhere; else the folder.
        """
        self._registry = registry
        self._home, self._root_of = home, root_of
        self._given = dict.fromkeys(Entry(str(folder), "command line") for folder in folders)
        self._named: dict[Entry, Named | None] = {}  # None: not looked up yet
        self._read_error: DreamdError | None = None
        self._excluded: frozenset[Path] = frozenset()

    def read(self, configured: Sequence[str]) -> tuple[Entry, ...]:
        """Reread the registry and return the entries to look up; if it is unreadable, keep its previous entries."""
        try:
            rows = [Entry(row, str(self._registry)) for row in _rows(self._registry) if not row.startswith("!/")]
            self._excluded, self._read_error = excluded(self._registry), None
        except DreamdError as error:
            rows = [entry for entry in self._named if entry.origin == str(self._registry)]
            self._read_error = error
        entries = dict.fromkeys([*self._given, *rows, *(Entry(text, _CONFIGURED) for text in configured)])
        self._named = {entry: self._named.get(entry) for entry in entries}
        return tuple(entries)

    def look_up(self, entry: Entry) -> Named:
        """Return what the entry names now.

        A configured text may begin with `~`; with `*`, `?` or `[` it is a glob, which finds only folders that are
        workspaces already (they have `.dreamd`), and repositories that have a memory.
        """
        text, is_configured = entry.text, entry.origin == _CONFIGURED
        if is_configured and (text == "~" or text.startswith("~/")):
            text = f"{self._home}{text[1:]}"
        if not text.startswith("/") or "\0" in text:
            advice = "mend or remove it" if is_configured else "mend or remove the line"
            return Named((), UsageError(f"{entry.origin}: {entry.text!r} is no absolute path", advice))
        if is_configured and any(sign in text for sign in "*?["):
            from glob import glob

            named = [Path(os.path.realpath(name)) for name in sorted(glob(text))]  # noqa: PTH207 - Path.glob knows no absolute globs
            found = {folder: self._root_of(folder) for folder in named}
            roots = tuple(
                root for folder, root in found.items() if root != folder or os.path.lexists(folder / STATE_FOLDER)
            )
            nothing = UsageError(f"{_CONFIGURED}: {entry.text!r} names no workspace", "mend or remove it")
            return Named(roots, None if roots else nothing)
        root = self._root_of(Path(os.path.realpath(text)))
        # If a folder from the command line is missing, opening it reports why.
        if entry in self._given or os.path.isdir(root):  # noqa: PTH112 - Path.is_dir may raise here
            return Named((root,))
        advice = f"bring it back, or take {'it' if is_configured else 'its line'} out of {entry.origin}"
        return Named((), UsageError(f"{entry.text}: no such folder", advice))

    def record(self, entry: Entry, named: Named) -> tuple[Path, ...]:
        """Record what the entry names; return the roots to look after."""
        if entry not in self._named:
            return ()  # it was removed meanwhile
        before = self._named[entry]
        if before is not None and not named.roots:
            named = named._replace(roots=before.roots)  # a folder may be gone only briefly
        self._named[entry] = named
        return self._kept(entry, named)

    def add(self, root: Path) -> None:
        """Add the workspace to the registry. Raise UsageError for a path with a line break or outer spaces."""
        add(self._registry, root)
        self._excluded -= {root}
        self._named[Entry(str(root), str(self._registry))] = Named((root,))

    def remove(self, root: Path) -> None:
        """Exclude the workspace from every entry until it is added again."""
        exclude(self._registry, root)
        self._excluded |= {root}
        self._named.pop(Entry(str(root), str(self._registry)), None)

    def problems(self) -> tuple[DreamdError, ...]:
        """Return the problems of all entries, without duplicates."""
        problems = [named.problem for named in self._named.copy().values() if named is not None]
        return tuple({str(one): one for one in (self._read_error, *problems) if one is not None}.values())

    def unlisted(self, roots: Iterable[Path]) -> list[Path]:
        """Return the roots that no entry names any longer.

        Return none until every entry was looked up, or while a configured one finds nothing: a disk may be unmounted.
        """
        kept = set[Path]()
        for entry, named in self._named.items():
            if named is None or not (named.roots or entry.origin != _CONFIGURED):
                return []
            kept.update(self._kept(entry, named))
        return [root for root in roots if root not in kept] if self._read_error is None else []

    def _kept(self, entry: Entry, named: Named) -> tuple[Path, ...]:
        return tuple(root for root in named.roots if entry in self._given or root not in self._excluded)


def known(path: Path) -> tuple[Path, ...]:
    """Return the absolute paths of the registry in order, without duplicates; none without a file.

    The folders may no longer exist.
    """
    return tuple(dict.fromkeys(Path(row) for row in _rows(path) if row.startswith("/")))


def excluded(path: Path) -> frozenset[Path]:
    """Return the workspaces that are excluded from every daemon, whichever entry names them."""
    return frozenset(Path(row[1:]) for row in _rows(path) if row.startswith("!/"))


def add(path: Path, root: Path) -> bool:
    """Add the workspace to the registry, created if missing. Return False if it was there already.

    Concurrent calls lose no line. Raise UsageError for a path with a line break, or with spaces around it.
    """
    real = os.path.realpath(root)
    if not _is_row(real):
        raise UsageError(f"{real!r}: the registry has one path a line, without spaces around it", "rename the folder")
    return _put(path, {Path(real)}, real)


def exclude(path: Path, root: Path) -> bool:
    """Exclude the workspace until it is added again. Return False if it was excluded, or cannot be in the registry.

    Every other line stays as it is.
    """
    real = os.path.realpath(root)
    return _is_row(real) and _put(path, {Path(real), root}, f"!{real}")


def rename(path: Path, old: Path, new: Path) -> None:
    """Replace the old path of a moved workspace by the new one, if the registry has it."""
    if path.exists() and _is_row(str(new)):
        moved = {f"{mark}{old}": os.fsencode(f"{mark}{new}") for mark in ("", "!")}
        _edit(path, lambda lines: [moved.get(_row(line), line) for line in lines])


def name_of(root: Path) -> str:
    """Return the workspace's name in URLs, labels and logs: [a-z0-9-], at most 48 characters.

    It is the folder's name and twelve hexadecimal digits of the SHA-256 of its absolute path; of a repository's
    memory, which has such a name, it is that. So it never changes.
    Two paths are unlikely to share a name; if they do, the root decides.
    """
    if root.parent.name == "dreamd" and _NAME.fullmatch(root.name):  # a folder of the user's data has such a name
        return root.name
    # Unlike fsencode, this accepts every surrogate.
    path = os.path.abspath(root).encode("utf-8", "surrogatepass")  # noqa: PTH100 - removes `..`, keeps links
    digits = hashlib.sha256(path).hexdigest()[:_DIGITS]
    slug = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[: _LONGEST_NAME - _DIGITS - 1].rstrip("-")
    return f"{slug or 'workspace'}-{digits}"


def _put(path: Path, roots: set[Path], row: str) -> bool:
    """Replace the workspace's lines by this row. Return False if it is there already."""

    def replaced(lines: list[bytes]) -> list[bytes]:
        own = [line for line in lines if _row(line) and Path(_row(line).removeprefix("!")) in roots]
        if own and all(_row(line)[0] == row[0] for line in own):
            return lines
        return [*(line for line in lines if line not in own), os.fsencode(row)]

    make_private_folder(path.parent)
    return _edit(path, replaced)


def _edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> bool:
    """Change the lines under a lock. Return False if nothing changed."""
    disk = Disk(path.parent)
    with disk.locked(path, _HEADER):
        lines = disk.read_bytes(path).removesuffix(b"\n").split(b"\n")
        changed = change(lines)
        if changed == lines:
            return False
        disk.write_atomic(path, b"".join(line + b"\n" for line in changed))
    return True


def _rows(path: Path) -> list[str]:
    """Return the lines that are neither blank nor comments."""
    return [row for line in (Disk(path.parent).read_optional(path) or b"").split(b"\n") if (row := _row(line))]


def _row(line: bytes) -> str:
    row = os.fsdecode(line).strip()
    return "" if row.startswith("#") else row


def _is_row(path: str) -> bool:
    return path == path.strip() and "\n" not in path and "\r" not in path
