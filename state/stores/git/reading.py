"""Reading: MEMORY.md as the memory takes it: a person's edits count; what git brought or left in conflict does not.

A file that is missing or was emptied is more likely an accident than a wish. A file that equals an earlier version,
or that git changed together with HEAD, is a checkout. In these cases, and while the file has conflict markers, the
last version is the memory; if a person edited a checkout, only these edits are taken.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path

from state.document.document import parse, render
from state.document.editing import edited
from state.document.merge import difference, is_conflicted
from state.errors import DocumentError
from state.stores.database.meta import Meta
from state.stores.disk.workspace import Workspace
from state.stores.git.repository import (
    UNKNOWN,
    GitFile,
    git_file,
    is_blob,
    is_given_up,
    put_by_git,
    text_of_blob,
)
from state.stores.history.lineage import Lineage, digest_of
from state.stores.history.memory import HELD, decode_document

_SEEN = "git"
"""In `meta`: git's state of MEMORY.md when its writer last looked at it, and the digest of its text then."""
_STAMP = re.compile(r"^_Last dream: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z", re.MULTILINE)


class Found(Enum):
    """The state of the file: the memory's own, edited by a person, gone, in conflict, or checked out by git."""

    OWN = auto()
    EDITED = auto()
    GONE = auto()
    CONFLICT = auto()
    CHECKOUT = auto()


@dataclass(frozen=True, slots=True)
class Reading:
    """MEMORY.md as read: `text` is the memory, `file` the file's content, `version` the last committed version.

    `is_known` says that the file's text is that of a version. `base` is the text that a person's edits were made to.
    `problem` says why the memory differs from the file.
    """

    found: Found
    text: str
    file: str
    version: int
    is_known: bool = False
    base: str = ""
    problem: str = ""


def reading(workspace: Workspace, connection: sqlite3.Connection) -> Reading:
    """Read MEMORY.md. Raise DocumentError if it is not text, or has conflict markers before the first version."""
    path = workspace.document
    content = workspace.disk().read_optional(path)
    file = decode_document(content or b"", path)
    version, digest = Lineage(connection).standing()
    if not version:
        if is_conflicted(file):
            raise DocumentError(f"{path} has git's conflict markers", "resolve the conflict, then dream again")
        return Reading(Found.EDITED, file, file, 0)
    if not file.strip():
        how = "is missing" if content is None else "is empty"
        own = Lineage(connection).text(version)
        return Reading(
            Found.GONE, own, file, version, problem=f"MEMORY.md {how}; version {version} is taken as the old state"
        )
    if digest_of(file) == digest:
        return Reading(Found.OWN, file, file, version)
    return _compared(workspace, connection, file, version)


def is_checkout(workspace: Workspace, connection: sqlite3.Connection, rendered: str) -> bool:
    """Return whether git put the file's present text there, after `rendered` was in it.

    Return False for a person's save, also if they edited a text of ours that has the stamp of `rendered`. Raise
    DocumentError.
    """
    read = reading(workspace, connection)
    is_persons = read.base != read.file and read.base in _stamped_alike(Lineage(connection), rendered)
    return read.found is Found.CHECKOUT and not is_persons


def note_git(workspace: Workspace, connection: sqlite3.Connection) -> None:
    """Record git's state of MEMORY.md, whose text is the memory's or a person's, for the next reading to compare."""
    meta, now = Meta(connection), git_file(workspace.document)
    content = workspace.disk().read_optional(workspace.document) or b""
    noted = json.dumps([sha256(content).hexdigest(), *astuple(now)]) if now else ""
    if (meta.get(_SEEN) or "") != noted:
        meta.put(_SEEN, noted)


def _compared(workspace: Workspace, connection: sqlite3.Connection, file: str, version: int) -> Reading:
    """Classify a file that differs from the last version."""
    lineage = Lineage(connection)
    own = lineage.text(version)
    if not own:  # without the version's text, an edit cannot be told from anything else
        return Reading(Found.EDITED, file, file, version)
    if is_conflicted(file) and not is_conflicted(own):
        problem = f"MEMORY.md has git's conflict markers; until they are gone version {version} is used"
        return Reading(Found.CONFLICT, own, file, version, problem=problem)
    problem = f"MEMORY.md is not what anybody wrote but what git checked out; version {version} is used"
    earlier = tuple(_stamped_alike(lineage, file))
    if file in earlier or lineage.has_text(file):
        problem = f"MEMORY.md has the text of an earlier version, which is no edit; version {version} is used"
        return Reading(Found.CHECKOUT, own, file, version, is_known=True, problem=problem)
    meta = Meta(connection)
    held, seen = meta.get(HELD), _seen(meta)
    # With the stamp of a version before the conflict, nobody resolved it: git put that version there instead.
    is_later = held is not None and (not earlier or _stamp_of(file) == _stamp_of(lineage.text(int(held))))
    is_resolved = is_later and not (seen and is_given_up(workspace.document, seen[1]))
    base = "" if is_resolved else _base_of(workspace.document, seen, file, own, earlier)
    if base is None:
        return Reading(Found.CHECKOUT, own, file, version, problem=problem)
    if base in ("", own):
        return Reading(Found.EDITED, file, file, version)
    text = render(edited(parse(own), difference(base, file))[0])
    return Reading(Found.CHECKOUT, text, file, version, base=base, problem=problem)


def _seen(meta: Meta) -> tuple[str, GitFile] | None:
    """Return the digest of the file's text and git's state of it when they were last recorded."""
    if not (seen := meta.get(_SEEN)):
        return None
    text, *rest = json.loads(seen)
    return text, GitFile(*rest)


def _base_of(path: Path, seen: tuple[str, GitFile] | None, file: str, own: str, earlier: Sequence[str]) -> str | None:
    """Return the text that a person edited: one of these, or "" for the text that was there before.

    Return None if git wrote the file, or may have written it.
    """
    # With an earlier version's stamp, it is an edit of that version, whoever brought it back.
    base = earlier[0] if earlier and _stamp_of(file) not in ("", _stamp_of(own)) else ""
    now = git_file(path)
    if not seen or now is None or not now.blob:
        return base
    text, before = seen
    if now.resolved or text == digest_of(file):
        return ""
    put = put_by_git(path, before, now)
    if put is None:
        # A stash, too, puts back the text that is in the index; a person would not type exactly that.
        return None if now.blob == before.blob and is_blob(file.encode(), now.blob) else base
    if now.blob == UNKNOWN or is_blob(file.encode(), put):
        return None
    if put == before.blob and not base:
        return base
    known = (one for one in (own, *earlier) if is_blob(one.encode(), put))
    indexed = next(known, None) or text_of_blob(path, put)
    # A reset of the index alone leaves the file unchanged, with the stamp of the version that it was made from.
    is_same_commit = (now.head, now.busy) == (before.head, before.busy)
    is_left = is_same_commit and _stamp_of(file) == _stamp_of(own) != _stamp_of(indexed or "")
    return "" if is_left else indexed


def _stamp_of(text: str) -> str:
    stamp = _STAMP.search(text)
    return stamp[1] if stamp else ""


def _stamped_alike(lineage: Lineage, file: str) -> Iterator[str]:
    """Yield the texts that MEMORY.md had with the same stamp as the file, including a person's."""
    stamp = _stamp_of(file)
    numbers = lineage.made_at(stamp) if stamp else [0]
    for number in numbers:
        for one in (number, number - 1, number + 1):
            if text := lineage.text(one):
                yield text
