"""Git exclude: keeps what dreamd writes out of a repository's commits, by lines in its `.git/info/exclude`.

The lines stand in a block of their own before the owner's, so that an owner's line has the last word. No git runs: a
repository's configuration may name programs.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from state.stores.disk.disk import TEMPORARY, Disk
from state.stores.disk.workspace import DISPLACED, STATE_FOLDER, Workspace
from state.stores.disk.worktree import Checkout, checkout_of, content_of
from state.stores.git.repository import Index

_BEGIN, _END = (
    b"# what dreamd writes; 'dreamd disconnect' takes its lines out again\n",
    b"# end of what dreamd writes\n",
)
_BLOCK = re.compile(re.escape(_BEGIN) + rb"(.*?)" + re.escape(_END), re.DOTALL)
_SPECIAL = re.compile(rb"[\\*?\[]|[ \t]+\Z")


@dataclass(frozen=True, slots=True)
class Excluded:
    """The lines that were added to an exclude file, or taken out of it, as paths from the top of the checkout."""

    file: str = ".git/info/exclude"
    names: tuple[str, ...] = ()


def written_by_init(workspace: Workspace) -> list[Path]:
    """Return what dreamd writes in a workspace's folder; folders only if the owner keeps nothing in them."""
    notes, transcripts = workspace.scratch.parent, workspace.root / "transcripts"
    displaced = notes / DISPLACED
    own_notes = any(
        path != workspace.scratch and TEMPORARY not in path.name and not path.match(DISPLACED)
        for path in _entries(notes)
    )
    written = [workspace.document, workspace.backup, *([workspace.scratch, displaced] if own_notes else [notes])]
    written.append(workspace.root / STATE_FOLDER)
    return [*written, *([] if any(not path.is_symlink() for path in _entries(transcripts)) else [transcripts])]


def keep_out(folder: Path, paths: Iterable[Path]) -> Excluded:
    """Exclude the paths from the repository that the folder is in, but for those that it tracks; say which are new.

    Raises StorageError for an exclude file that cannot be written.
    """
    checkout = checkout_of(folder)
    if checkout is None:
        return Excluded()
    disk, file, content = _opened(checkout)
    tracked = _Tracked(checkout)
    lines = list[bytes]()
    for path in paths:
        name = os.fsencode(path.relative_to(checkout.top)) if path.is_relative_to(checkout.top) else b""
        if name and b"\n" not in name and not tracked.holds(name):
            # The state is a folder or a file.
            is_folder = path.is_dir() and path.name != STATE_FOLDER
            folder_name, last = os.path.split(name)
            last = last if path.name == DISPLACED else _SPECIAL.sub(_escaped, last)
            escaped = os.path.join(_SPECIAL.sub(_escaped, folder_name), last)  # noqa: PTH118 - bytes
            lines.append(b"/" + escaped + (b"/" if is_folder else b""))
    known = {*content.splitlines(), *content_of(checkout.top / ".gitignore").splitlines()}
    new = [line for line in lines if known.isdisjoint(_forms(line))]
    if new:
        found = _BLOCK.search(content)
        block = b"".join((_BEGIN, found[1] if found else b"", *(line + b"\n" for line in new), _END))
        disk.make_folder(file.parent, 0o755)
        disk.write_atomic(file, block + _without_block(content), 0o644)
    return Excluded(_shown(checkout, file), tuple(os.fsdecode(line[1:]) for line in new))


def keep_out_again(workspace: Workspace, old: Path) -> None:
    """Exclude at its new path what was excluded of a workspace that was in `old`. Raises StorageError."""
    root, written, moved = workspace.root, written_by_init(workspace), list[Path]()
    if not os.path.lexists(old / STATE_FOLDER):  # else the lines are another workspace's by now
        moved = [path for path in written if take_back(root, [old / path.relative_to(root)]).names]
    if not moved and keep_out(root, [root / STATE_FOLDER]).names:  # it is new in this repository
        moved = written
    keep_out(root, moved)


def take_back(folder: Path, paths: Iterable[Path]) -> Excluded:
    """Take the lines of these paths out again that `keep_out` has added. Raises StorageError."""
    checkout = checkout_of(folder)
    if checkout is None:
        return Excluded()
    disk, file, content = _opened(checkout)
    found = _BLOCK.search(content)
    names = {os.fsencode(path.relative_to(checkout.top)) for path in paths if path.is_relative_to(checkout.top)}
    lines = found[1].splitlines(keepends=True) if found else []
    gone = [line for line in lines if re.sub(rb"\\(.)", rb"\1", line.strip(b"/\n")) in names]
    if gone:
        kept = b"".join(line for line in lines if line not in gone)
        disk.write_atomic(file, (_BEGIN + kept + _END if kept else b"") + _without_block(content), 0o644)
    return Excluded(_shown(checkout, file), tuple(os.fsdecode(line.strip(b"/\n")) for line in gone))


def tracks(path: Path) -> bool:
    """Return whether the repository around this file has it, or anything in this folder, in its index."""
    checkout = checkout_of(path.parent)
    name = os.fsencode(path.relative_to(checkout.top)) if checkout is not None else b""
    return checkout is not None and _Tracked(checkout).holds(name)


class _Tracked:
    """The names in a checkout's index, read once and only if asked."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout

    @cached_property
    def _names(self) -> frozenset[bytes]:
        return frozenset(entry.name for entry in Index(self._checkout).entries())

    def holds(self, name: bytes) -> bool:
        """Return whether git tracks the file, or anything in the folder, of this name."""
        return name in self._names or any(one.startswith(name + b"/") for one in self._names)


def _forms(line: bytes) -> set[bytes]:
    """Return how the owner may have excluded the same: from the top or anywhere; a folder also as any file."""
    forms = {line, line.rstrip(b"/")}
    return forms | {form[1:] for form in forms if form[1:2] not in (b"#", b"!")}


def _opened(checkout: Checkout) -> tuple[Disk, Path, bytes]:
    disk, file = Disk(checkout.common), checkout.common / "info" / "exclude"
    return disk, file, disk.read_optional(file) or b""


def _escaped(special: re.Match[bytes]) -> bytes:
    return b"".join(b"\\%c" % sign for sign in special[0])


def _without_block(content: bytes) -> bytes:
    return _BLOCK.sub(b"", content, count=1)


def _shown(checkout: Checkout, file: Path) -> str:
    return str(file.relative_to(checkout.top) if file.is_relative_to(checkout.top) else file)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
