"""Git exclude: keeps what dreamd writes out of a repository's commits, by lines in its `.git/info/exclude`.

The lines stand in a block of their own before the owner's, so that an owner's line has the last word. No git runs: a
repository's configuration may name programs.
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from state.stores.disk.disk import TEMPORARY, Disk
from state.stores.disk.workspace import STATE_FOLDER, Workspace
from state.stores.disk.worktree import Checkout, checkout_of

_BEGIN, _END = (
    b"# what dreamd writes; 'dreamd disconnect' takes its lines out again\n",
    b"# end of what dreamd writes\n",
)
_BLOCK = re.compile(re.escape(_BEGIN) + rb"(.*?)" + re.escape(_END), re.DOTALL)
_SPECIAL = re.compile(rb"[\\*?\[]|[ \t]+\Z")
_LONGEST_NAME = 4096
_NO_NAMES = (struct.error, ValueError, IndexError)


@dataclass(frozen=True, slots=True)
class Excluded:
    """The lines that were added to an exclude file, or taken out of it, as paths from the top of the checkout."""

    file: str = ".git/info/exclude"
    names: tuple[str, ...] = ()


def written_by_init(workspace: Workspace) -> list[Path]:
    """Return what dreamd writes in a workspace's folder; folders only if the owner keeps nothing in them."""
    notes, transcripts = workspace.scratch.parent, workspace.root / "transcripts"
    own_notes = any(path != workspace.scratch and TEMPORARY not in path.name for path in _entries(notes))
    written = [workspace.document, workspace.backup, workspace.scratch if own_notes else notes]
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
            lines.append(b"/" + _SPECIAL.sub(_escaped, name) + (b"/" if path.is_dir() else b""))
    new = [line for line in lines if line not in content.splitlines()]
    if new:
        found = _BLOCK.search(content)
        block = b"".join((_BEGIN, found[1] if found else b"", *(line + b"\n" for line in new), _END))
        disk.make_folder(file.parent, 0o755)
        disk.write_atomic(file, block + _without_block(content), 0o644)
    return Excluded(_shown(checkout, file), tuple(os.fsdecode(line[1:]) for line in new))


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
        self._checkout, self._names = checkout, frozenset[bytes]()
        self._is_read = False

    def holds(self, name: bytes) -> bool:
        """Return whether git tracks the file, or anything in the folder, of this name."""
        if not self._is_read:
            self._names, self._is_read = frozenset(_tracked_names(self._checkout)), True
        return name in self._names or any(one.startswith(name + b"/") for one in self._names)


def _tracked_names(checkout: Checkout) -> Iterator[bytes]:
    disk = Disk(checkout.own)
    settings = Disk(checkout.common).read_optional(checkout.common / "config") or b""
    digest = 32 if re.search(rb"(?i)objectformat\s*=\s*sha256", settings) else 20
    for file in (checkout.own / "index", *sorted(checkout.own.glob("sharedindex.*"))):
        yield from _names_in(disk.read_optional(file) or b"", digest)


def _names_in(index: bytes, digest: int) -> Iterator[bytes]:
    """Yield the paths in an index of version 2 to 4 (git's gitformat-index); nothing after what is none."""
    try:
        _, version, count = struct.unpack_from(">4sII", index)
        at, name = 12, b""
        for _ in range(count):
            flags_at = at + 40 + digest
            (flags,) = struct.unpack_from(">H", index, flags_at)
            start = flags_at + (4 if version > 2 and flags & 0x4000 else 2)
            kept, start = _prefix(index, start, len(name)) if version > 3 else (0, start)
            end = index.index(b"\0", start)
            name = name[:kept] + index[start:end]
            at = end + 1 if version > 3 else at + ((end - at) // 8 + 1) * 8
            if len(name) > _LONGEST_NAME:
                return
            yield name
    except _NO_NAMES:
        return


def _prefix(index: bytes, at: int, length: int) -> tuple[int, int]:
    """Return how much of the name before is kept in version 4, and where the rest of this one begins."""
    left = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        left = ((left + 1) << 7) | (index[at] & 0x7F)
    return max(length - left, 0), at + 1


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
