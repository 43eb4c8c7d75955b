"""Registry: the list of workspaces that the daemon keeps, from its own file and from the configuration.

The registry is a text file with one absolute path a line; people may edit it, and their comments stay. A path after
a '!' is a workspace that no daemon keeps.
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
_DIGITS = 12  # with six, a few thousand folders of one name would probably share one


@dataclass(frozen=True, slots=True)
class Entry:
    """Text that names workspaces. `origin`: the registry's path, or the key of the configuration."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class EntryTarget:
    """What an entry names now: folders that exist, free of symbolic links; one that is missing; or what is wrong."""

    roots: tuple[Path, ...] = ()
    missing: Path | None = None
    problem: DreamdError | None = None


class WorkspaceList:
    """The entries of command line, registry and configuration, and what each last named; for one thread at a time.

    Only `look_up` touches the folders of an entry, and any thread may call it: a folder's disk may hang.
    """

    def __init__(self, registry: Path, folders: Sequence[Path], home: Path) -> None:
        """Keep `folders` beside those of the registry and the configuration."""
        self._registry = registry
        self._home = home
        self._given = dict.fromkeys(Entry(str(folder), "command line") for folder in folders)
        self._targets: dict[Entry, EntryTarget | None] = {}  # None: not looked up yet
        self._read_error: DreamdError | None = None
        self._excluded: frozenset[Path] = frozenset()

    def read(self, configured: Sequence[str]) -> tuple[Entry, ...]:
        """Read the registry again and return the entries to look up; if unreadable, its entries stay as they were."""
        try:
            lines = [Entry(line, str(self._registry)) for line in _lines(self._registry) if not line.startswith("!/")]
            self._excluded, self._read_error = excluded(self._registry), None
        except DreamdError as error:
            lines = [entry for entry in self._targets if entry.origin == str(self._registry)]
            self._read_error = error
        entries = dict.fromkeys([*self._given, *lines, *(Entry(text, _CONFIGURED) for text in configured)])
        self._targets = {entry: self._targets.get(entry) for entry in entries}
        return tuple(entries)

    def look_up(self, entry: Entry) -> EntryTarget:
        """Return what the entry names now."""
        if entry in self._given:  # even if missing: whoever just named it is told what is wrong with it
            return EntryTarget((Path(os.path.realpath(entry.text)),))
        return resolve(entry, self._home)

    def record(self, entry: Entry, target: EntryTarget) -> tuple[Path, ...]:
        """Remember what the entry names; return the roots to keep."""
        if entry not in self._targets:
            return ()  # it was removed meanwhile
        before = self._targets[entry]
        if before is not None and not target.roots:
            target = replace(target, roots=before.roots)  # a folder may be gone only briefly
        self._targets[entry] = target
        return tuple(root for root in target.roots if entry in self._given or root not in self._excluded)

    def add(self, root: Path) -> None:
        """Put the workspace into the registry. Raise UsageError for a path with a line break."""
        add(self._registry, root)
        self._excluded -= {root}
        self._targets[Entry(str(root), str(self._registry))] = EntryTarget((root,))

    def remove(self, root: Path) -> None:
        """Take the workspace out of the registry, until it is added again."""
        exclude(self._registry, root)
        self._excluded |= {root}
        self._targets.pop(Entry(str(root), str(self._registry)), None)

    def problems(self) -> tuple[DreamdError, ...]:
        """Return what is wrong with the entries, each problem once."""
        problems = [target.problem for target in self._targets.copy().values() if target is not None]
        return tuple({str(one): one for one in (self._read_error, *problems) if one is not None}.values())

    def unlisted(self, roots: Iterable[Path]) -> list[Path]:
        """Return the roots that no entry names any longer; none before every entry was looked up."""
        targets = self._targets.copy()
        if self._read_error or not all(map(_is_conclusive, targets, targets.values())):
            return []
        named = {
            root
            for entry, target in targets.items()
            if target is not None
            for root in (*target.roots, target.missing)
            if entry in self._given or root not in self._excluded
        }
        return [root for root in roots if root not in named]


def known(path: Path) -> tuple[Path, ...]:
    """Return the absolute paths of the registry, in its order, each once; none without a file.

    A folder that is gone is among them.
    """
    return tuple(dict.fromkeys(Path(line) for line in _lines(path) if line.startswith("/")))


def excluded(path: Path) -> frozenset[Path]:
    """Return the workspaces that no daemon keeps, whichever entry names them."""
    return frozenset(Path(line[1:]) for line in _lines(path) if line.startswith("!/"))


def add(path: Path, root: Path) -> bool:
    """Put the workspace into the registry, which is made if missing. Return False if it was there.

    Processes that do this at once lose none of their lines. Raise UsageError for a path with a line break.
    """
    real = os.path.realpath(root)
    if not _is_line(real):
        raise UsageError(f"{real!r}: the registry has one path a line, without spaces around it", "rename the folder")
    return _write(path, {real}, b"", os.fsencode(real))


def exclude(path: Path, root: Path) -> bool:
    """Take the workspace out of the registry, where it stays out until it is added. Return False if it was out.

    Every other line stays as it is. A path that cannot be a line cannot get in either.
    """
    real = os.path.realpath(root)
    return _is_line(real) and _write(path, {real, str(root)}, b"!", b"!" + os.fsencode(real))


def rename(path: Path, old: Path, new: Path) -> None:
    """Write the new path of a workspace that was moved in the place of the old one, if that is there."""
    if not path.exists() or not _is_line(str(new)):
        return
    disk = Disk(path.parent)
    with disk.locked(path, _HEADER):
        lines = disk.read_bytes(path).splitlines()
        moved = {mark + os.fsencode(old): mark + os.fsencode(new) for mark in (b"", b"!")}
        disk.write_atomic(path, b"".join(moved.get(line.strip(), line) + b"\n" for line in lines))


def _write(path: Path, names: set[str], mark: bytes, line: bytes) -> bool:
    """Replace the lines of a workspace by this one. Return False if it is there already."""
    make_private_folder(path.parent)
    disk = Disk(path.parent)
    roots = {Path(name) for name in names}
    with disk.locked(path, _HEADER):
        lines = disk.read_bytes(path).splitlines(keepends=True)
        parsed = [_parsed(line) for line in lines]
        is_same = [bool(one) and Path(one[0].removeprefix("!")) in roots for one in parsed]
        others = [line for line, same in zip(lines, is_same, strict=True) if not same]
        exclusions = [one[0].startswith("!") for one, same in zip(parsed, is_same, strict=True) if same]
        if exclusions and all(excludes == bool(mark) for excludes in exclusions):
            return False
        content = b"".join(others)
        separator = b"" if not content or content.endswith(b"\n") else b"\n"
        disk.write_atomic(path, content + separator + line + b"\n")
    return True


def _is_line(path: str) -> bool:
    return path == path.strip() and "\n" not in path and "\r" not in path


def _is_conclusive(entry: Entry, target: EntryTarget | None) -> bool:
    """Tell whether it is known what the entry names; a glob without a match may be one of an unmounted disk."""
    if target is None:
        return False
    return bool(target.roots) or target.missing is not None or entry.origin != _CONFIGURED


def resolve(entry: Entry, home: Path) -> EntryTarget:
    """Return what the entry names now.

    A configured text may begin with `~`; with `*`, `?` or `[` it is a glob, and finds the folders that have been
    workspaces before (they have `.dreamd`). What is gone, or cannot be meant, is a problem.
    """
    if entry.origin == _CONFIGURED:
        return _configured(entry.text, home)
    if not entry.text.startswith("/") or "\0" in entry.text:
        what = f"{entry.origin}: {entry.text!r} is no absolute path"
        return EntryTarget(problem=UsageError(what, "mend or remove the line"))
    root = Path(os.path.realpath(entry.text))
    if os.path.isdir(root):  # noqa: PTH112 - Path.is_dir may raise here
        return EntryTarget((root,))
    gone = UsageError(f"{entry.text}: no such folder", f"bring it back, or take its line out of {entry.origin}")
    return EntryTarget(missing=root, problem=gone)


def name_of(root: Path) -> str:
    """Return the workspace's name in URLs, labels and logs: [a-z0-9-], at most 48 characters.

    The folder's own name and twelve hexadecimal digits of the SHA-256 of its absolute path, the same for ever. Two
    paths are unlikely to share a name; where they do, the root decides.
    """
    # Not fsencode: a path with any surrogate has a name.
    path = os.path.abspath(root).encode("utf-8", "surrogatepass")  # noqa: PTH100 - `..` is taken out, links are not
    digits = hashlib.sha256(path).hexdigest()[:_DIGITS]
    slug = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[: _LONGEST_NAME - _DIGITS - 1].rstrip("-")
    return f"{slug or 'workspace'}-{digits}"


def _lines(path: Path) -> Iterable[str]:
    return _parsed(Disk(path.parent).read_optional(path) or b"")


def _parsed(content: bytes) -> list[str]:
    """Return the lines that are neither blank nor a comment."""
    lines = (os.fsdecode(line).strip() for line in content.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _configured(text: str, home: Path) -> EntryTarget:
    from glob import glob

    path = str(home) + text[1:] if text == "~" or text.startswith("~/") else text
    wanted = "workspace" if _is_glob(text) else "folder by an absolute path"
    wrong = UsageError(f"{_CONFIGURED}: {text!r} names no {wanted}", "mend or remove it")
    if not path.startswith("/") or "\0" in path:
        return EntryTarget(problem=wrong)
    if _is_glob(path):
        paths = [name for name in sorted(glob(path)) if os.path.lexists(os.path.join(name, STATE_FOLDER))]  # noqa: PTH118, PTH207 - Path.glob knows no absolute globs
        return EntryTarget(tuple(Path(os.path.realpath(name)) for name in paths), problem=None if paths else wrong)
    root = Path(os.path.realpath(path))
    return EntryTarget((root,)) if os.path.isdir(root) else EntryTarget(missing=root, problem=wrong)  # noqa: PTH112 - see above


def _is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")
