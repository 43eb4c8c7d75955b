"""Git exclude: keeps what dreamd writes out of a repository's commits, by lines in its `.git/info/exclude`.

The lines form a block before the owner's, so that the owner's lines have the last word. Git is not run, because a
repository's configuration may name programs.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from state.stores.disk.disk import TEMPORARY, Disk
from state.stores.disk.git_index import Index
from state.stores.disk.workspace import DISPLACED, STATE_FOLDER, Workspace
from state.stores.disk.worktree import Checkout, checkout_of, content_of

_BEGIN, _END = (
    b"# what dreamd writes; 'dreamd disconnect' takes its lines out again\n",
    b"# end of what dreamd writes\n",
)
_BLOCK = re.compile(re.escape(_BEGIN) + rb"(.*?)" + re.escape(_END), re.DOTALL)
_SPECIAL = re.compile(rb"[\\*?\[]|[ \t]+\Z")


@dataclass(frozen=True, slots=True)
class Excluded:
    """The lines added to or removed from an exclude file, as paths relative to the top of the checkout."""

    file: str = ".git/info/exclude"
    names: tuple[str, ...] = ()


def written_by_init(workspace: Workspace) -> list[Path]:
    """Return what dreamd writes in a workspace's folder; whole folders only if the owner keeps nothing in them."""
    notes, transcripts = workspace.scratch.parent, workspace.root / "transcripts"
    displaced = notes / DISPLACED
    own_notes = any(
        path != workspace.scratch and TEMPORARY not in path.name and not path.match(DISPLACED)
        for path in notes.glob("*")
    )
    written = [workspace.document, workspace.backup, *([workspace.scratch, displaced] if own_notes else [notes])]
    written.append(workspace.root / STATE_FOLDER)
    return [*written, *([] if any(not path.is_symlink() for path in transcripts.glob("*")) else [transcripts])]


def keep_out(folder: Path, paths: Iterable[Path]) -> Excluded:
    """Exclude the paths from the repository around the folder, except tracked ones; return the new lines.

    Raise StorageError if the exclude file cannot be written.
    """
    if (checkout := checkout_of(folder)) is None:
        return Excluded()
    file, content = _read(checkout)
    tracked, lines = _tracked(checkout), list[bytes]()
    for path in paths:
        name = _name(checkout, path)
        if name and b"\n" not in name and not _holds(tracked, name):
            within, last = os.path.split(name)
            if path.name != DISPLACED:
                last = _SPECIAL.sub(_escaped, last)
            line = b"/" + os.path.join(_SPECIAL.sub(_escaped, within), last)  # noqa: PTH118 - bytes
            # The state is a folder or a file, so its line must match both.
            lines.append(line + b"/" if path.is_dir() and path.name != STATE_FOLDER else line)
    known = {*content.splitlines(), *content_of(checkout.top / ".gitignore").splitlines()}
    new = [line for line in lines if known.isdisjoint(_forms(line))]
    return _written(checkout, file, content, [*_ours(content), *(line + b"\n" for line in new)], new)


def keep_out_again(workspace: Workspace, old: Path) -> None:
    """Exclude at its new path what was excluded of a workspace that was in `old`. Raise StorageError."""
    root, written, moved = workspace.root, written_by_init(workspace), list[Path]()
    if not os.path.lexists(old / STATE_FOLDER):  # otherwise the lines belong to another workspace by now
        moved = [path for path in written if take_back(root, [old / path.relative_to(root)]).names]
    if not moved and keep_out(root, [root / STATE_FOLDER]).names:  # the workspace is new here
        moved = written
    keep_out(root, moved)


def take_back(folder: Path, paths: Iterable[Path]) -> Excluded:
    """Remove the lines that `keep_out` has added for these paths. Raise StorageError."""
    if (checkout := checkout_of(folder)) is None:
        return Excluded()
    file, content = _read(checkout)
    names, ours = {_name(checkout, path) for path in paths}, _ours(content)
    gone = [line for line in ours if re.sub(rb"\\(.)", rb"\1", line.strip(b"/\n")) in names]
    return _written(checkout, file, content, [line for line in ours if line not in gone], gone)


def _tracked(checkout: Checkout) -> frozenset[bytes]:
    return frozenset(entry.name for entry in Index(checkout).entries())


def _holds(tracked: frozenset[bytes], name: bytes) -> bool:
    return name in tracked or any(one.startswith(name + b"/") for one in tracked)


def _forms(line: bytes) -> set[bytes]:
    """Return the forms in which the owner may have excluded the same: from the top or anywhere, as folder or file."""
    forms = {line, line.rstrip(b"/")}
    return forms | {form[1:] for form in forms if form[1:2] not in (b"#", b"!")}


def _name(checkout: Checkout, path: Path) -> bytes:
    return os.fsencode(path.relative_to(checkout.top)) if path.is_relative_to(checkout.top) else b""


def _escaped(special: re.Match[bytes]) -> bytes:
    return b"".join(b"\\%c" % sign for sign in special[0])


def _read(checkout: Checkout) -> tuple[Path, bytes]:
    file = checkout.common / "info" / "exclude"
    return file, Disk(checkout.common).read_optional(file) or b""


def _ours(content: bytes) -> list[bytes]:
    found = _BLOCK.search(content)
    return found[1].splitlines(keepends=True) if found else []


def _written(checkout: Checkout, file: Path, content: bytes, ours: list[bytes], changed: list[bytes]) -> Excluded:
    """Write the block of our lines before the owner's if any line changed; return the changed lines."""
    if changed:
        disk, block = Disk(checkout.common), _BEGIN + b"".join(ours) + _END if ours else b""
        disk.make_folder(file.parent, 0o755)
        disk.write_atomic(file, block + _BLOCK.sub(b"", content, count=1), 0o644)
    shown = file.relative_to(checkout.top) if file.is_relative_to(checkout.top) else file
    return Excluded(str(shown), tuple(os.fsdecode(line.strip(b"\n").lstrip(b"/")) for line in changed))
