"""Dream input: items that left a session become crystals for the next dream; open items are its context.

Such an item becomes a crystal of the origin `working`. The next dream takes it in like every other new one, and
memory_search finds it; what was protected and lost all the same counts as important. The rest stays in the archive.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from daemon.sessions.call import call, steady
from daemon.sessions.promotion import crystal_of, trust_of
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal
from state.sessions.item import Item
from state.sessions.selection import standing
from state.stores.database.connection import transaction
from state.stores.sessions.sessions import Sessions
from state.trust import Trust

# So important is at least what a hard limit took although it was protected.
RESCUED = 0.9
_AT_ONCE = 50
_OPEN_SESSIONS = 20
_ENOUGH = 100


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An item of an open session as a dream may see it: without its secrets."""

    text: str
    importance: float
    trust: Trust
    created_at: datetime


@call
def hand_over(store: Store, now: datetime) -> int:
    """Make crystals of what left the sessions, deserves it and was not handed over yet, what a hard limit took first.

    Return how many were new. What was forgotten, softly or for good, is not among them.
    """
    sessions, done = Sessions(store.crystals.connection), 0
    version = store.lineage.last_version()
    while True:
        # The crystals and the mark are one transaction: a kill repeats the batch, it never skips one.
        with transaction(sessions.connection):
            items = sessions.undreamt(_AT_ONCE)
            crystals = [_departed(store, item, now, rescue=rescue) for item, rescue in items if item.content.strip()]
            done += store.crystals.upsert(crystals)
            sessions.mark_dreamt((item for item, _ in items), version)
        if not items:
            return done


def waiting_count(store: Store) -> int:
    """Return how many items wait to be handed over; beyond a hundred they are not counted."""
    return Sessions(store.crystals.connection).undreamt_count(_ENOUGH)


@call
def open_items(store: Store, now: datetime, limit: int) -> tuple[OpenItem, ...]:
    """Return at most so many items of the open sessions, the most important first, then the oldest.

    None is a long-term record already, hidden, expired, or forgotten for good.
    """
    sessions = Sessions(store.crystals.connection)
    items: list[Item] = []
    with steady(store):
        for session in sessions.open_ones(_OPEN_SESSIONS):
            items += (item for item in standing(sessions.held(session), now) if not item.promoted_to_id)
    items.sort(key=lambda item: (-item.importance, item.created_at, item.id))
    chosen = islice((item for item in items if not sessions.forgotten.holds(item.content)), limit)
    return tuple(
        OpenItem(redacted(store, item.content), item.importance, trust_of(item), item.created_at) for item in chosen
    )


def _departed(store: Store, item: Item, now: datetime, *, rescue: bool) -> Crystal:
    return replace(
        crystal_of(store, item, now),
        text=redacted(store, item.content),
        session=redacted(store, item.session_id),
        importance=max(RESCUED, item.importance) if rescue else item.importance,
    )
