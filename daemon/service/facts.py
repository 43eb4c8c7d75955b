"""Store facts: what the daemon decides by while a workspace's stores are closed, as they were when last used."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from daemon.config.settings import day_start
from daemon.dream.changes import DECLINED
from daemon.dream.run import new_crystals, unseen_seeds
from daemon.sessions.for_dreams import waiting_count
from daemon.sessions.lifecycle import next_due
from daemon.workspace.stores import Store
from state.signals.hormones import Hormones
from state.stores.database.meta import Meta
from state.stores.database.tables import Run
from state.stores.history.memory import NOTES_LEFT

_RUNS = 50
_FAILURES = ("failed", "rejected")


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What the stores held at one moment.

    `crystals` is the newest crystal's number, `seeds` and `undreamt` count what is new since the last dream,
    `notes_left` the notes that it left, `left_over` what it left of the sessions; `proposal` and `unfinished_dream`
    are ids, empty without one; `sessions_due` is
    when sessions want maintenance; `ceiling_until` is when a daily ceiling that is reached opens again.
    """

    levels: Hormones
    crystals: int = 0
    seeds: int = 0
    undreamt: int = 0
    notes_left: int = 0
    left_over: int = 0
    proposal: str = ""
    unfinished_dream: str = ""
    sessions_due: datetime | None = None
    runs: tuple[Run, ...] = ()
    ceiling_until: datetime | None = None

    @property
    def failures(self) -> tuple[int, datetime | None]:
        """How many of the last runs in a row failed or were rejected; when the last of them ended."""
        tries = [run for run in self.runs if run.outcome not in ("skipped", "running")]
        failed = list(takewhile(lambda run: run.outcome in _FAILURES and run.detail != DECLINED, tries))
        return len(failed), (failed[0].ended_at or failed[0].started_at) if failed else None


def read_store_facts(store: Store, now: datetime) -> StoreFacts:
    """Return what the stores hold now. Raise sqlite3.Error and DreamdError."""
    unfinished = store.ledger.unfinished()
    proposals = store.ledger.proposals()
    return StoreFacts(
        levels=store.feelings.levels(now),
        crystals=store.crystals.newest(),
        seeds=unseen_seeds(store),
        undreamt=new_crystals(store),
        notes_left=int(Meta(store.crystals.connection).get(NOTES_LEFT) or 0),
        left_over=waiting_count(store),
        proposal=proposals[0].dream if proposals else "",
        unfinished_dream=unfinished.id if unfinished else "",
        sessions_due=next_due(store, now),
        runs=tuple(store.ledger.runs(_RUNS)),
        ceiling_until=_ceiling_until(store, now),
    )


def _ceiling_until(store: Store, now: datetime) -> datetime | None:
    limits, since = store.config.limits, day_start(now)
    if store.config.model.name is None:
        return None
    spent = store.ledger.spent(since=since)
    reached = spent.calls and (spent.usd >= limits.usd_per_day or spent.tokens >= limits.tokens_per_day)
    return since + timedelta(days=1) if reached else None
