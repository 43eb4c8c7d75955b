"""Consolidation: takes in new input and ages crystals, all without a model.

    absorb ─> embed ─> age ─> sweep

Each step works through its queue in batches. A batch is one short transaction that also records its completion, so
a kill repeats at most one batch. Without new input a pass is a few look-ups, however large the store is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from daemon.dream.agreements import propose_agreements
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import Absorbed, absorb_configured
from daemon.sessions import hand_over, maintain
from daemon.workspace.retention import sweep
from daemon.workspace.searching import embed_waiting, tell
from daemon.workspace.stores import Store
from state.errors import ConfigError
from state.stores.crystals.crystals import Crystals
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What one pass did.

    `problems`: messages for a person. `complete` is false if the pass was stopped; the next one does the rest.
    """

    notes: int = 0
    turns: int = 0
    working: int = 0
    vectors: int = 0
    archived: int = 0
    frozen: int = 0
    problems: tuple[str, ...] = ()
    complete: bool = True

    @property
    def changed(self) -> bool:
        """Return whether the pass took in or moved anything."""
        return any((self.notes, self.turns, self.working, self.vectors, self.archived, self.frozen))


def consolidate(store: Store, now: datetime, stop: Callable[[], bool] = lambda: False) -> Consolidation:
    """Run one pass over a workspace that this process owns; `stop()` is called between batches.

    Unreadable transcripts are reported as problems. Errors of the stores are raised; completed batches stay, and the
    next pass continues from there.
    """
    absorbed = _absorb(store, now, stop)
    notes = absorb_notes(store, now, None, stop)
    kept = maintain(store, now)
    working = kept.promoted + hand_over(store, now)
    vectors = embed_waiting(store, stop) if store.crystals.vectors.waiting()[0] else 0
    tell(store, stop)
    archived, frozen = _age(store.memory, store.crystals, now, stop)
    propose_agreements(store, now)
    sweep(store, now)
    return Consolidation(
        notes=notes,
        turns=absorbed.turns,
        working=working,
        vectors=vectors,
        archived=archived,
        frozen=frozen,
        problems=absorbed.problems,
        complete=not stop(),
    )


def _absorb(store: Store, now: datetime, stop: Callable[[], bool]) -> Absorbed:
    try:
        return absorb_configured(store, now, stop=stop)
    except ConfigError as error:
        return Absorbed(problems=(str(error),))


def _age(memory: Memory, crystals: Crystals, now: datetime, stop: Callable[[], bool]) -> tuple[int, int]:
    """Archive faded crystals; return how many were archived, and how many frozen."""
    archived = frozen = 0
    while not stop():
        memory.check()
        faded, kept = crystals.archive_faded(now)
        archived, frozen = archived + faded, frozen + kept
        if not faded + kept:
            break
    return archived, frozen


def new_input(store: Store) -> int:
    """Count pending notes and crystals since the last dream, up to a thousand of each.

    The backlog that earlier dreams passed over does not count; it only accompanies new input.
    """
    return new_crystals(store.crystals, store.lineage) + store.notes.count().notes


def new_crystals(crystals: Crystals, lineage: Lineage) -> int:
    """Count the crystals since the last dream; before the first dream, include those of the former MEMORY.md."""
    seeds = 0 if lineage.last_version() else len(crystals.unseen_seeds())
    return crystals.undreamt_count() + seeds
