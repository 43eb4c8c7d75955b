"""Memory: implements the port `graphs.ports.Memory` over the stores of one workspace, for real and for dry runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from daemon.dream.snapshot import snapshot
from daemon.ingest.notes import absorb_notes, note_crystal, pending_crystals
from daemon.sessions.lifecycle import mind_correction
from daemon.workspace.document import settle_document
from daemon.workspace.redaction import learnable
from daemon.workspace.searching import embed_waiting, embedder_of, searched_in
from daemon.workspace.stores import Store, utc_now
from graphs.input_budget import room_of, room_of_notes
from graphs.ports import Trial
from state.crystals.crystal import Crystal
from state.dream import OWNERS_RUNS, RESTORE, Dream, Reason, Snapshot
from state.errors import ConflictError
from state.pending import Bite
from state.stores.crystals.search import Searched, search, stored_aside
from state.stores.disk.looked_through import LookedThrough

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With more notes, however short, a dream would take longer than a person waits.
MOST_NOTES = 200
# A process that stays embeds each line once, and keeps so many vectors, by the digests of their texts.
MOST_VECTORS = 4_096
_VECTORS = dict[str, "dict[bytes, NDArray[np.float32]]"]()


@dataclass(frozen=True, slots=True)
class Upto:
    """How far a dream has read: the last crystal's row, the last note's row, and the number of its next line."""

    crystal: int
    note: int
    next_line: int


@dataclass(frozen=True, slots=True)
class WorkspaceMemory:
    """Reads from the stores and commits to them."""

    store: Store
    context_window: int | None = None

    def read(self, dream: str, reason: Reason, now: datetime, upto: "Upto | None" = None) -> Snapshot:
        """Take in new notes and read all that a dream needs, with as many of the oldest pending notes as fit.

        A resumed dream passes `upto`, and reads the same notes and crystals as before.
        """
        absorb_notes(self.store, now, most=MOST_NOTES)
        pending = self.store.notes.pending(self._bite)
        taken = [one for one in pending if upto is None or one.key <= upto.note]
        waiting = self.store.notes.count().notes - len(taken)
        rows = pending_crystals(self.store.crystals, taken)
        return snapshot(
            self.store,
            list(dict.fromkeys(crystal for _, crystal in rows)),
            [(row, crystal.id) for row, crystal in rows],
            dream,
            reason,
            now,
            max(0, waiting),
            upto.crystal if upto is not None else None,
        )

    @property
    def _bite(self) -> Bite:
        redaction = self.store.config.redaction
        window = self.context_window
        return Bite(MOST_NOTES, room_of_notes(window), lambda note: room_of(redaction.of(note.text), window))

    @contextmanager
    def trial(self, crystals: Sequence[Crystal]) -> Iterator[Trial]:
        """Search as if these crystals were stored, without writing them."""
        with stored_aside(self._new(crystals), embedder_of(self.store)) as aside:
            yield _Trial(searched_in(self.store, aside), crystals[0].created_at if crystals else _EPOCH)

    def alike(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the cosine of meaning of each text with each; nothing if there is no embedding model."""
        embedder = embedder_of(self.store) if len(texts) > 1 else None
        if embedder is None:
            return ()
        import numpy as np

        known, rows = _VECTORS.setdefault(embedder.name, {}), []
        for text in texts:
            digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
            if (row := known.get(digest)) is None:
                # One by one: the vectors of quantised models vary with the texts beside theirs.
                row = known[digest] = embedder.embed([text])[0]
            rows.append(row)  # at once: a dream of another workspace may drop it
        for digest in list(known)[:-MOST_VECTORS]:
            known.pop(digest, None)
        vectors = np.stack(rows)
        cosines: list[list[float]] = (vectors @ vectors.T).tolist()
        return cosines

    def _new(self, crystals: Sequence[Crystal]) -> list[Crystal]:
        """Return the crystals that may be learned and that a search would not find in the store already."""
        stored = self.store.crystals
        crystals = stored.with_stored_ids(crystals)
        shown = {one.id for one in stored.by_keys(stored.keys(one.id for one in crystals).values()).values()}
        return [one for one in learnable(self.store.crystals, crystals) if one.id not in shown]

    def commit(self, dream: Dream) -> Dream:
        """Commit the dream, then embed new crystals.

        A dream that changes nothing makes no version, unless it is a restore, but consumes its input.
        """
        memory = self.store.memory
        absorb_notes(self.store, utc_now())  # so that scratch.md is rewritten with every pending note
        if self.store.lineage.version_of(dream.id) is None:
            settle_document(self.store)  # an earlier version may have been checked out since the dream read it
        is_version = dream.number == 1 or dream.cause == RESTORE or not dream.changes_nothing
        done = memory.commit(dream) if is_version else memory.consume(dream)
        looked = LookedThrough(self.store.workspace, self.store.config.redaction)
        looked.redacted_lines(done.after, self.store.grounds)
        looked.keep()  # so that session starts need not
        embed_waiting(self.store)
        return done


@dataclass(frozen=True, slots=True)
class DryMemory(WorkspaceMemory):
    """Reads without consuming anything, and commits nothing."""

    def read(self, dream: str, reason: Reason, now: datetime, upto: "Upto | None" = None) -> Snapshot:  # noqa: ARG002
        """Read the pending notes, including new ones, which stay in their files."""
        pending = self._bite.of(self.store.notes.each_pending(), lambda note: note)
        connection, config = self.store.connection, self.store.config
        made = learnable(self.store.crystals, (note_crystal(connection, config, note, now) for note in pending))
        ids = self.store.crystals.ids_of(one.digest for one in made)
        notes = [replace(one, id=ids.get(one.digest, one.digest)) for one in made]
        waiting = self.store.notes.count().notes - len(pending)
        taken = list(enumerate((one.id for one in notes), 1))  # numbers stand in for rows
        return snapshot(self.store, notes, taken, dream, reason, now, max(0, waiting))

    def commit(self, dream: Dream) -> Dream:
        """Return the dream as it is: a dry run writes nothing."""
        return dream


def commit_owners(store: Store, dream: Dream, detail: str) -> Dream:
    """Commit a version by the owner like a dream, under a ledger entry of its own.

    Raise ConflictError, and record the run as failed, if the owner saved MEMORY.md at the same instant.
    """
    store.ledger.begin(dream.id, OWNERS_RUNS[dream.cause].format(dream.reason), dream.at)
    try:
        done = WorkspaceMemory(store).commit(dream)
    except ConflictError as error:
        store.ledger.end(dream.id, "failed", f"{error.code}: {error}", utc_now())
        raise
    store.ledger.end(done.id, "committed", detail, utc_now(), done.number)
    mind_correction(store, done, done.at)
    return done


@dataclass(frozen=True, slots=True)
class _Trial:
    searched: Searched
    at: datetime

    def first(self, keywords: str, limit: int) -> tuple[str, ...]:
        found = search(self.searched, keywords, self.at, limit=limit, by_value=False, everything=True)
        return tuple(hit.crystal.id for hit in found.hits)

    def frequency(self, words: Sequence[str]) -> Mapping[str, int]:
        return self.searched.frequency(words)


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
