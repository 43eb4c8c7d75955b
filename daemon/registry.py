"""The workspaces that the daemon looks after: those of the registry file, and those of the configuration.

The registry is a text file with one absolute path a line; people may edit it, and their comments stay. A path after
a '!' is a workspace that no daemon shall look after.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.places import make_private_folder
from daemon.status import Problem
from state.errors import UsageError
from state.stores.files import Disk
from state.stores.workspace import STATE_FOLDER

_HEADER = (
    b"# The workspaces that dreamd looks after, one absolute path a line; after a !, one that it leaves alone.\n"
)
_LONGEST_NAME = 48
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class WorkspaceSet:
    """Folders that are there, free of symbolic links and each once; and a problem for whatever is not."""

    roots: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()


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


def known_workspaces(registry: Path, configured: Sequence[str], home: Path) -> WorkspaceSet:
    """All that are known: the registry's, then `daemon.workspaces` of the configuration.

    A configured text may begin with `~`; with `*`, `?` or `[` it is a glob, and finds the folders that have been
    workspaces before (they hold `.dreamd`). What is gone, or cannot be meant, is a problem, and the others count.
    """
    found: dict[Path, None] = {}
    problems: list[Problem] = []
    for line in _lines(registry):
        if line.startswith("!/"):
            continue
        if line.startswith("/") and os.path.isdir(line):  # noqa: PTH112 - Path.is_dir may raise here
            found[Path(os.path.realpath(line))] = None
        elif line.startswith("/"):
            advice = f"bring it back, or take its line out of {registry}"
            problems.append(Problem(f"{line}: no such folder", advice))
        else:
            problems.append(Problem(f"{registry}: {line!r} is no absolute path", "mend or remove the line"))
    for text in configured:
        folders = _configured(text, home)
        found |= dict.fromkeys(folders)
        if not folders:
            problems.append(Problem(f"daemon.workspaces: {text!r} names no {_wanted(text)}", "mend or remove it"))
    out = excluded(registry)
    return WorkspaceSet(tuple(root for root in found if root not in out), tuple(dict.fromkeys(problems)))


def name_of(root: Path) -> str:
    """The workspace's name in URLs, labels and logs: [a-z0-9-], at most 48 characters.

    The folder's own name, and six hexadecimal digits of the SHA-256 of its absolute path: the same for ever, and
    another one for another path.
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


def _configured(text: str, home: Path) -> list[Path]:
    from glob import glob

    path = str(home) + text[1:] if text == "~" or text.startswith("~/") else text
    if not path.startswith("/") or "\0" in path:
        return []
    if _is_glob(path):
        paths = [name for name in sorted(glob(path)) if os.path.isdir(os.path.join(name, STATE_FOLDER))]  # noqa: PTH112, PTH118, PTH207 - Path.glob knows no absolute globs
    else:
        paths = [path] if os.path.isdir(path) else []  # noqa: PTH112 - Path.is_dir may raise here
    return [Path(os.path.realpath(name)) for name in paths]


def _is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _wanted(text: str) -> str:
    return "workspace" if _is_glob(text) else "folder by an absolute path"
