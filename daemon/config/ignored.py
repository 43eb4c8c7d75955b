"""Ignored: the projects that their owner keeps out of every memory: rows, of which the last one counts."""

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from daemon.config.paths import home, make_private_folder, state_folder
from state.errors import UsageError
from state.stores.disk.disk import Disk

_HEADER = (
    b"# What dreamd keeps no memory of, a path or glob a line; after a !, an exception. The last one counts.\n"
    b"# 'dreamd ignore' and 'dreamd init' edit it.\n"
)


def ignored(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the rows in order: paths and globs, and exceptions, which begin with a !."""
    path = _path(environment)
    content = Disk(path.parent).read_optional(path) if path.exists() else None
    rows = (os.fsdecode(row).strip() for row in (content or b"").split(b"\n"))
    return tuple(row for row in rows if row.startswith(("/", "!/")))


def is_ignored(folder: Path, environment: Mapping[str, str]) -> bool:
    """Return whether the owner keeps this folder, or one above it, out."""
    matching = [row for row in ignored(environment) if _matches(row.removeprefix("!"), folder)]
    return bool(matching) and not matching[-1].startswith("!")


def ignore(word: str, environment: Mapping[str, str]) -> str:
    """Keep a folder, or what a glob names, out; return it as an absolute path. Raise UsageError."""
    if not word.strip() or "\n" in word or "\0" in word:
        raise UsageError("an ignored project is a folder or a glob in one line", "name one")
    if word == "~" or word.startswith("~/"):
        word = f"{home(environment)}{word[1:]}"
    row = os.path.join(Path.cwd(), word)  # noqa: PTH118 - a glob is no path
    row = os.path.normpath(row) if any(sign in row for sign in "*?[") else os.path.realpath(row)
    if row == "/":
        raise UsageError("that would ignore everything", "'dreamd uninstall' takes dreamd out of every agent")
    _put(row, environment)
    return row


def lift(folder: Path, environment: Mapping[str, str]) -> bool:
    """Have this folder remembered again; return whether it was ignored. Other folders of a glob stay ignored."""
    was = is_ignored(folder, environment)
    if was:
        _put(f"!{folder}", environment)
    return was


def _put(row: str, environment: Mapping[str, str]) -> None:
    """Make a row the last one, in place of the same one and its contrary."""
    path = _path(environment)
    make_private_folder(path.parent)
    disk, contrary = Disk(path.parent), row[1:] if row.startswith("!") else f"!{row}"
    with disk.locked(path, _HEADER):
        lines = disk.read_bytes(path).splitlines(keepends=True)
        kept = [line for line in lines if os.fsdecode(line).strip() not in (row, contrary)]
        disk.write_atomic(path, b"".join(kept))
        if not row.startswith("!") or is_ignored(Path(row[1:]), environment):
            disk.write_atomic(path, b"".join(kept) + os.fsencode(row) + b"\n")


def _matches(row: str, folder: Path) -> bool:
    is_glob = any(sign in row for sign in "*?[")
    return any(row == str(one) or (is_glob and fnmatchcase(str(one), row)) for one in (folder, *folder.parents))


def _path(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / "ignored"
