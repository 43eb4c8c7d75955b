"""Consolidation: takes in what is new, merges duplicates, ages crystals, finds skills; without a model.

    absorb ─> embed ─> merge duplicates ─> age ─> find skills ─> sweep

Each step takes what waits for it (a queue, a watermark, a moment that has come) in batches. A batch is one short
transaction that also says that it is done: a kill repeats the batch that it met, and no other. With nothing new a
pass is a few look-ups, however large the store is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from daemon.dream.agreements import propose_agreements
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import Absorbed, absorb_transcripts, transcript_files
from daemon.sessions import hand_over, maintain
from daemon.workspace.retention import sweep
from daemon.workspace.searching import chroma_of, embed_waiting
from daemon.workspace.stores import Store
from state.errors import ConfigError
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.duplicates import HiddenDuplicates
from state.stores.crystals.skills import Skills
from state.stores.database.connection import transaction
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory

COMPARE_BATCH = 64
# An equal text is among the nearest to a crystal.
NEAREST = 8


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What one pass did. `skills` is how many there are when they were found anew; `problems` are for a person.

    `complete` is false when it was stopped: the rest waits for the next pass.
    """

    notes: int = 0
    turns: int = 0
    working: int = 0
    vectors: int = 0
    compared: int = 0
    merged: int = 0
    archived: int = 0
    frozen: int = 0
    skills: int | None = None
    problems: tuple[str, ...] = ()
    complete: bool = True

    @property
    def changed(self) -> bool:
        """Return whether anything was new, or moved."""
        counts = (self.notes, self.turns, self.working, self.vectors, self.compared)
        moved = (self.archived, self.frozen)
        return any(counts) or any(moved) or self.skills is not None


def consolidate(store: Store, now: datetime, stop: Callable[[], bool] = lambda: False) -> Consolidation:
    """Return one pass over a workspace that this process owns; `stop()` is called between batches.

    Transcripts that cannot be read are among the problems. Raises what the stores fail with: what was done until
    then stays, and the next pass goes on.
    """
    absorbed = _absorb(store, now, stop)
    notes = absorb_notes(store, now, None, stop)
    kept = maintain(store, now)
    working = kept.promoted + hand_over(store, now)
    store.crystals.vectors.settle()
    vectors = embed_waiting(store, stop) if store.crystals.vectors.wait() else 0
    compared, merged = merge_duplicates(store, stop)
    archived, frozen = _age(store.memory, store.crystals, now, stop)
    skills = None if stop() else Skills(store.connection, store.crystals.vectors).refresh()
    propose_agreements(store, now)
    sweep(store, now)
    return Consolidation(
        notes=notes,
        turns=absorbed.turns,
        working=working,
        vectors=vectors,
        compared=compared,
        merged=merged,
        archived=archived,
        frozen=frozen,
        skills=skills,
        problems=absorbed.problems,
        complete=not stop(),
    )


def _absorb(store: Store, now: datetime, stop: Callable[[], bool]) -> Absorbed:
    try:
        return absorb_transcripts(store, transcript_files(store.workspace, store.config), now, stop=stop)
    except ConfigError as error:
        return Absorbed(problems=(str(error),))


def merge_duplicates(
    store: Store, stop: Callable[[], bool] = lambda: False, most: int | None = None
) -> tuple[int, int]:
    """Merge the crystals that wait to be compared with equal ones; return how many were compared, and merged.

    Of what waits at most so many, the latest first.
    """
    duplicates, count, merged = HiddenDuplicates(store.crystals), 0, 0
    batch = COMPARE_BATCH if most is None else min(most, COMPARE_BATCH)
    while not stop() and (most is None or count < most) and (keys := duplicates.waiting(batch)):
        near = store.crystals.vectors.neighbours(keys, NEAREST, chroma_of(store))
        canonical = duplicates.survivors({other for cosines in near.values() for other in cosines})
        with transaction(store.connection):
            store.memory.check()
            for key, cosines in near.items():
                merged += sum(duplicates.merge(key, canonical.get(other, other)) for other in cosines)
            duplicates.compared(keys)
        count += len(keys)
    return count, merged


def _age(memory: Memory, crystals: Crystals, now: datetime, stop: Callable[[], bool]) -> tuple[int, int]:
    """Archive what has faded; returns how many crystals were archived, and frozen."""
    archived = frozen = 0
    while not stop():
        memory.check()
        faded, kept = crystals.archive_faded(now)
        archived, frozen = archived + faded, frozen + kept
        if not faded + kept:
            break
    return archived, frozen


def new_input(store: Store) -> int:
    """Count pending notes, and crystals since the last dream.

    A thousand of each are counted. What dreams have passed over is no news: it comes along with what is.
    """
    return new_crystals(store.crystals, store.lineage) + store.notes.count().notes


def new_crystals(crystals: Crystals, lineage: Lineage) -> int:
    """Count the crystals that are new since the last dream; before the first one, those of the old MEMORY.md too."""
    seeds = 0 if lineage.last_version() else len(crystals.unseen_seeds())
    return crystals.undreamt_count() + seeds
