"""Note pieces: what was read of notes, from rows and files, as values."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from state.scratch import Note
from state.stores.history.inbox import Entry, digest_of

# Session starts only look at files: they load nothing that forgets.
if TYPE_CHECKING:
    from state.forgetting.known import Known


class Pending(NamedTuple):
    """A note that no version has consumed: its row, its crystal's row, and its content."""

    key: int
    crystal: int
    note: Note


class Newest(NamedTuple):
    """The newest pending notes, oldest first; `more` says that there are older ones, which were not read."""

    notes: tuple[Note, ...]
    more: bool


class Mark(NamedTuple):
    """How far a file was read: its first `end` bytes; `digest` is that of the last of them.

    The last note in them begins at byte `start` and has the row `note` (0: none).
    """

    end: int = 0
    digest: str = ""
    start: int = 0
    note: int = 0


class Piece(NamedTuple):
    """What was newly read from one file: its notes, the digests of notes that are rows already, and its marks.

    `last` is the digest of the last note if it is new; empty if there is none or it is known. `is_strangers`: git
    tracks the file, so whoever can push to the repository may have written these notes.
    """

    path: Path
    notes: tuple[Entry, ...]
    known: tuple[str, ...]
    last: str
    before: Mark
    mark: Mark
    is_strangers: bool = False

    def without(self, known: "Known") -> "Piece":
        """Return the piece with its notes as they are to be filed, without texts that are known to be forgotten."""
        notes = tuple(_without(one, known) for one in self.notes)
        return self._replace(notes=notes, last=notes[-1].digest if self.last else "")


def _without(one: Entry, known: "Known") -> Entry:
    if not any(map(known.found, one.note.texts)):
        return one
    replaces = "" if known.found(one.note.replaces) else one.note.replaces
    note = one.note._replace(text=known.without(one.note.text), replaces=replaces)
    return one._replace(note=note, digest=digest_of(note), is_filed=False)
