"""The workspaces that the daemon looks after: those of the registry file, and those of the configuration.

The registry is a text file with one absolute path a line; people may edit it, and their comments stay. A path after
a '!' is a workspace that no daemon shall look after.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.config.paths import make_private_folder
from state.errors import DreamdError, UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import STATE_FOLDER

_HEADER = (
    b"# The workspaces that dreamd looks after, one absolute path a line; after a !, one that it leaves alone.\n"
)
_CONFIGURED = "daemon.workspaces"
_LONGEST_NAME = 48
_DIGITS = 12  # with six, a few thousand folders of one name were likely to have twins


@dataclass(frozen=True, slots=True)
class Entry:
    """Text that names workspaces. `origin`: the registry's path, or the key of the configuration."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class Found:
    """What an entry names now: folders that are there, free of symbolic links; one that is not; or what is wrong."""

    roots: tuple[Path, ...] = ()
    missing: Path | None = None
    problem: DreamdError | None = None


class Listing:
    """The entries that the daemon goes by, and what each of them was last found to name; one thread at a time.

    Only `look_up` touches the folders, of one entry, and any thread may call it: one may be on a disk that hangs.
    """

    def __init__(self, registry: Path, folders: Sequence[Path], home: Path) -> None:
        """`folders` are kept beside those of the registry and the configuration."""
        self._registry = registry
        self._home = home
        self._given = tuple(Entry(str(folder), "command line") for folder in folders)
        self._found: dict[Entry, Found | None] = {}  # None: not looked up yet
        self._unread: DreamdError | None = None
        self._excluded: frozenset[Path] = frozenset()

    def read(self, configured: Sequence[str]) -> tuple[Entry, ...]:
        """Read the registry anew; the entries that are to be looked up. One that cannot be read is as it was."""
        try:
            lines = [Entry(line, str(self._registry)) for line in _lines(self._registry) if not line.startswith("!/")]
            self._excluded, self._unread = excluded(self._registry), None
        except DreamdError as error:
            lines = [entry for entry in self._found if entry.origin == str(self._registry)]
            self._unread = error
        entries = dict.fromkeys([*self._given, *lines, *(Entry(text, _CONFIGURED) for text in configured)])
        self._found = {entry: self._found.get(entry) for entry in entries}
        return tuple(entries)

    def look_up(self, entry: Entry) -> Found:
        """What the entry names now."""
        if entry in self._given:  # there or not: somebody who just named it is told what is wrong with it
            return Found((Path(os.path.realpath(entry.text)),))
        return find(entry, self._home)

    def learn(self, entry: Entry, found: Found) -> tuple[Path, ...]:
        """Keep what was found; the roots that are to be looked after."""
        if entry not in self._found:
            return ()  # it was taken out meanwhile
        before = self._found[entry]
        if before is not None and not found.roots:
            found = replace(found, roots=before.roots)  # of a folder that is briefly gone nothing is let go
        self._found[entry] = found
        return tuple(root for root in found.roots if entry in self._given or root not in self._excluded)

    def add(self, root: Path) -> None:
        """Put the workspace into the registry. Raises UsageError for a path with a line break."""
        add(self._registry, root)
        self._excluded -= {root}
        self._found[Entry(str(root), str(self._registry))] = Found((root,))

    def remove(self, root: Path) -> None:
        """Take the workspace out of the registry, until it is added again."""
        exclude(self._registry, root)
        self._excluded |= {root}
        self._found.pop(Entry(str(root), str(self._registry)), None)

    def problems(self) -> tuple[DreamdError, ...]:
        """What is wrong with entries, each said once."""
        found = [one.problem for one in self._found.copy().values() if one is not None]
        return tuple({str(problem): problem for problem in (self._unread, *found) if problem is not None}.values())

    def unnamed(self, roots: Iterable[Path]) -> list[Path]:
        """Which of these no entry names any longer; none before it is known what each of them names."""
        found = self._found.copy()
        named = {
            root
            for entry, one in found.items()
            if one is not None
            for root in (*one.roots, one.missing)
            if entry in self._given or root not in self._excluded
        }
        if self._unread or not all(map(_is_telling, found, found.values())):
            return []
        return [root for root in roots if root not in named]


def known(path: Path) -> tuple[Path, ...]:
    """The absolute paths of the registry, in its order, each once; without a file there are none.

    A folder that is gone is among them.
    """
    return tuple(dict.fromkeys(Path(line) for line in _lines(path) if line.startswith("/")))


def excluded(path: Path) -> frozenset[Path]:
    """The workspaces that no daemon shall look after, whoever names them."""
    return frozenset(Path(line[1:]) for line in _lines(path) if line.startswith("!/"))


def add(path: Path, root: Path) -> bool:
    """Put the workspace into the registry (made if missing); False when it was there.

    Processes that do this at once lose none of their lines. Raises UsageError for a path with a line break.
    """
    real = os.path.realpath(root)
    if not _is_line(real):
        raise UsageError(f"{real!r}: the registry has one path a line, without spaces around it", "rename the folder")
    return _write(path, {real}, b"", os.fsencode(real))


def exclude(path: Path, root: Path) -> bool:
    """Take the workspace out of the registry and write down that it stays out until it is added; False when it did.

    Every other line stays as it is. A path that cannot be a line cannot get in either.
    """
    real = os.path.realpath(root)
    return _is_line(real) and _write(path, {real, str(root)}, b"!", b"!" + os.fsencode(real))


def _write(path: Path, names: set[str], mark: bytes, line: bytes) -> bool:
    """Replace the lines of a workspace by this one; False when it stands there alone."""
    make_private_folder(path.parent)
    disk = Disk(path.parent)
    roots = {Path(name) for name in names}
    with disk.locked(path, _HEADER):
        lines = disk.read_bytes(path).splitlines(keepends=True)
        told = [_parsed(one) for one in lines]
        about = [bool(one) and Path(one[0].removeprefix("!")) in roots for one in told]
        others = [one for one, is_about in zip(lines, about, strict=True) if not is_about]
        standing = [one[0].startswith("!") for one, is_about in zip(told, about, strict=True) if is_about]
        if standing and all(excludes == bool(mark) for excludes in standing):
            return False
        content = b"".join(others)
        apart = b"" if not content or content.endswith(b"\n") else b"\n"
        disk.write_atomic(path, content + apart + line + b"\n")
    return True


def _is_line(path: str) -> bool:
    return path == path.strip() and "\n" not in path and "\r" not in path


def _is_telling(entry: Entry, found: Found | None) -> bool:
    """Whether it is known what the entry names; a glob that finds nothing may be that of a disk that is away."""
    if found is None:
        return False
    return bool(found.roots) or found.missing is not None or entry.origin != _CONFIGURED


def find(entry: Entry, home: Path) -> Found:
    """What the entry names now.

    A configured text may begin with `~`; with `*`, `?` or `[` it is a glob, and finds the folders that have been
    workspaces before (they hold `.dreamd`). What is gone, or cannot be meant, is a problem.
    """
    if entry.origin == _CONFIGURED:
        return _configured(entry.text, home)
    if not entry.text.startswith("/"):
        what = f"{entry.origin}: {entry.text!r} is no absolute path"
        return Found(problem=UsageError(what, "mend or remove the line"))
    root = Path(os.path.realpath(entry.text))
    if os.path.isdir(root):  # noqa: PTH112 - Path.is_dir may raise here
        return Found((root,))
    gone = UsageError(f"{entry.text}: no such folder", f"bring it back, or take its line out of {entry.origin}")
    return Found(missing=root, problem=gone)


def name_of(root: Path) -> str:
    """The workspace's name in URLs, labels and logs: [a-z0-9-], at most 48 characters.

    The folder's own name, and twelve hexadecimal digits of the SHA-256 of its absolute path: the same for ever. Two
    paths of one name are not to be expected, and are told apart all the same wherever a root is known.
    """
    # Not fsencode: a path with any surrogate has a name.
    path = os.path.abspath(root).encode("utf-8", "surrogatepass")  # noqa: PTH100 - `..` is taken out, links are not
    digits = hashlib.sha256(path).hexdigest()[:_DIGITS]
    slug = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[: _LONGEST_NAME - _DIGITS - 1].rstrip("-")
    return f"{slug or 'workspace'}-{digits}"


def _lines(path: Path) -> Iterable[str]:
    return _parsed(Disk(path.parent).read_if_there(path) or b"")


def _parsed(content: bytes) -> list[str]:
    """The lines that are neither blank nor a comment."""
    lines = (os.fsdecode(line).strip() for line in content.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _configured(text: str, home: Path) -> Found:
    from glob import glob

    path = str(home) + text[1:] if text == "~" or text.startswith("~/") else text
    wrong = UsageError(f"{_CONFIGURED}: {text!r} names no {_wanted(text)}", "mend or remove it")
    if not path.startswith("/") or "\0" in path:
        return Found(problem=wrong)
    if _is_glob(path):
        paths = [name for name in sorted(glob(path)) if os.path.isdir(os.path.join(name, STATE_FOLDER))]  # noqa: PTH112, PTH118, PTH207 - Path.glob knows no absolute globs
        return Found(tuple(Path(os.path.realpath(name)) for name in paths), problem=None if paths else wrong)
    root = Path(os.path.realpath(path))
    return Found((root,)) if os.path.isdir(root) else Found(missing=root, problem=wrong)  # noqa: PTH112 - see above


def _is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _wanted(text: str) -> str:
    return "workspace" if _is_glob(text) else "folder by an absolute path"
