"""Pieces: what was read on of one file of notes, before rows are made of it, and the mark of how far that was."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from state.scratch import Note, render_note

if TYPE_CHECKING:
    from state.forgetting.known import Known


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file was read: its first `end` bytes, which end in those of `digest`.

    The last note in them begins at byte `start`, and is the one in the row `note` (0: in none).
    """

    end: int = 0
    digest: str = ""
    start: int = 0
    note: int = 0


@dataclass(frozen=True, slots=True)
class Unread:
    """A note of a file that is in no row yet; `grows` is the row of what stood there of it before, or 0."""

    note: Note
    digest: str
    grows: int = 0
    is_filed: bool = True

    def without(self, known: "Known") -> "Unread":
        """Return the note without what is known, as it is to be filed then; itself when it holds none of that."""
        if not any(map(known.found, self.note.texts)):
            return self
        replaces = "" if known.found(self.note.replaces) else self.note.replaces
        note = replace(self.note, text=known.without(self.note.text), replaces=replaces)
        return Unread(note, digest_of(note), self.grows, is_filed=False)


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read on of one file: its notes, the digests of those that are rows already, and its marks.

    `last` is the digest of the last note (empty: it has none that is new).
    """

    path: Path
    notes: tuple[Unread, ...]
    known: tuple[str, ...]
    last: str
    before: Mark
    mark: Mark

    def without(self, known: "Known") -> "Piece":
        """Return the piece with its notes as they are without what is known."""
        notes = tuple(one.without(known) for one in self.notes)
        return replace(self, notes=notes, last=notes[-1].digest if notes else self.last)


def digest_of(note: Note) -> str:
    """Return the digest of a note's entry, as it is rendered."""
    return hashlib.sha256(render_note(note).encode("utf-8", "surrogatepass")).hexdigest()
