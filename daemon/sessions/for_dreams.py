"""Dream input: items that left a session become crystals for the next dream; open items are its context.

Such an item becomes a crystal of the origin `working`. The next dream takes it in like every other new one, and
memory_search finds it; what was protected and lost all the same counts as important. The rest stays in the archive.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from daemon.sessions.call import call, sessions_of
from daemon.sessions.promotion import crystal_of, trust_of
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal
from state.sessions.item import Item
from state.sessions.policies.policy import LIVE, Order
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

    Returns how many were new. What was forgotten, softly or for good, is not among them.
    """
    sessions, done = sessions_of(store), 0
    version = store.lineage.last_version()
    while True:
        # The crystals and the mark are one transaction: a kill repeats the batch, it never skips one.
        with transaction(sessions.connection):
            items = sessions.archive.undreamt(_AT_ONCE)
            rest = [item for item in items if item.content.strip()]
            done += store.crystals.upsert([_crystal_of_departed(store, item, now) for item in rest])
            sessions.archive.dreamt([item.id for item in items], version)
        if not items:
            return done


def waiting_count(store: Store) -> int:
    """How many items wait to be handed over; beyond a hundred they are not counted."""
    return sessions_of(store).archive.undreamt_count(_ENOUGH)


@call
def open_items(store: Store, now: datetime, limit: int) -> tuple[OpenItem, ...]:
    """At most so many items of the open sessions, the most important first, then the oldest.

    Nothing that is a long-term record already, hidden, expired, or forgotten for good.
    """
    sessions = sessions_of(store)
    with sessions.steady():
        items: list[Item] = []
        for session in sessions.open_ones(_OPEN_SESSIONS):
            live = sessions.view(session).items(Order.MOST_IMPORTANT, LIVE)
            items += islice((item for item in live if _is_open(sessions, item, now)), limit)
        items.sort(key=lambda item: (-item.importance, item.created_at, item.id))
        return tuple(
            OpenItem(redacted(store, item.content), item.importance, trust_of(item), item.created_at)
            for item in items[:limit]
        )


def _is_open(sessions: Sessions, item: Item, now: datetime) -> bool:
    return not (item.promoted or item.expired(now) or sessions.forgotten.holds(item.content))


def _crystal_of_departed(store: Store, item: Item, now: datetime) -> Crystal:
    crystal = crystal_of(store, item, now)
    return replace(
        crystal,
        text=redacted(store, item.content),
        session=redacted(store, item.session),
        importance=max(RESCUED, item.importance) if item.rescue else item.importance,
    )
