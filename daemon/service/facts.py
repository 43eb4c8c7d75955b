"""Facts: what decisions about a workspace go by, read from its stores and files at one moment."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from daemon.config.paths import spent_folder
from daemon.config.settings import day_start
from daemon.dream.run import new_crystals, unseen_seeds
from daemon.service.triggers import History, Pending
from daemon.sessions import next_due, waiting_count
from daemon.workspace.status import lifecycles
from daemon.workspace.stores import Store
from state.document.document import parse
from state.scratch import HEADER
from state.stores.database.connection import from_text
from state.stores.database.copies import DAY, is_copy_due
from state.stores.database.meta import Meta
from state.stores.disk.stamp import Stamp
from state.stores.disk.workspace import Workspace
from state.stores.history.daily_spend import daily_spend
from state.stores.history.memory import NOTES_LEFT

if TYPE_CHECKING:
    from daemon.service.keeper import Keeper

# The key in `meta`: when the session ended for which a dream is due.
SESSION_ENDED = "session_ended"
_RUNS = 50
_FAILURES = ("failed", "rejected")
_EMPTY_LOG = len(HEADER) + 2


@dataclass(frozen=True, slots=True)
class Facts:
    """`unfinished_dream`: its id; `sessions_due`: when sessions want maintenance; `crystals` counted by lifecycle."""

    history: History
    pending: Pending
    unfinished_dream: str
    sessions_due: datetime | None
    crystals: dict[str, int]


def read_facts(store: Store, keeper: "Keeper", awake_since: datetime, phase: float, now: datetime) -> Facts:
    """Read them, beside what the keeper knows of its own acts. Raise sqlite3.Error and DreamdError."""
    runs = tuple(store.ledger.runs(_RUNS))
    # What came while a dream ran is not taken in by it, so a dream counts from its beginning.
    dreams = [run.started_at for run in runs if run.outcome != "skipped"]
    looks = [run.ended_at or run.started_at for run in runs if run.outcome == "skipped"] + dreams
    # How many of the last runs in a row failed or were rejected.
    tries = (run for run in runs if run.outcome not in ("skipped", "running"))
    failed = list(takewhile(lambda run: run.outcome in _FAILURES, tries))
    unfinished = store.ledger.unfinished()
    history = History(
        awake_since=awake_since,
        last_look=_latest([*looks, keeper.last_look], now),
        last_dream=_latest(dreams, now),
        failures=max(len(failed), keeper.failures),
        failed_at=_latest([*(run.ended_at or run.started_at for run in failed[:1]), keeper.failed_at], now),
        ceiling_until=_ceiling_until(store, now),
        last_pass=keeper.last_pass,
        last_spike_pass=keeper.last_spike_pass,
        schema=any(run.outcome == "committed" for run in runs) or _has_schema(store),
        phase=phase,
    )
    crystals = lifecycles(store.crystals.connection)
    dream = unfinished.id if unfinished else ""
    return Facts(history, _pending(store, keeper, now), dream, next_due(store, now), crystals)


def _pending(store: Store, keeper: "Keeper", now: datetime) -> Pending:
    meta, count, left = Meta(store.crystals.connection), store.notes.count(), waiting_count(store)
    levels, ended = store.feelings.levels(now), meta.get(SESSION_ENDED)
    return Pending(
        notes=count.notes,
        characters=count.characters,
        bytes=count.bytes,
        new=unseen_seeds(store) + new_crystals(store) + count.notes + left,
        left=bool(int(meta.get(NOTES_LEFT) or 0)),
        oldest=count.oldest,
        latest=_appended_at(store.workspace) if count.notes else None,
        session_ended=from_text(ended) if ended is not None else None,
        changed=keeper.changed or left > 0,
        dopamine=levels.dopamine,
        cortisol=levels.cortisol,
    )


def is_copy_wanted(keeper: "Keeper", now: datetime) -> bool:
    """Tell whether state.db was not copied for a day: a pass does it, so that damage is noticed within a day."""
    is_tried = keeper.last_copy is not None and abs(now - keeper.last_copy) < DAY
    return not is_tried and is_copy_due(keeper.workspace.database, now, DAY)


def _appended_at(workspace: Workspace) -> datetime | None:
    """Return when the log was last appended to, by the files' times: in a note an agent writes what it likes."""
    # A scratch.md that was written anew has a title, which nobody has appended to.
    stamps = (Stamp.of(str(path)) for path in (workspace.scratch, workspace.inbox))
    latest = max((one.written_ns for one in stamps if one is not None and one.size > _EMPTY_LOG), default=None)
    return datetime.fromtimestamp(latest / 1e9, UTC) if latest is not None else None


def _ceiling_until(store: Store, now: datetime) -> datetime | None:
    """Return when a daily ceiling that is reached opens again: this workspace's, or that of all together."""
    config, since = store.config, day_start(now)
    if config.model.name is None:
        return None
    spent, limits = store.ledger.spent(since=since), config.limits
    reached = spent.calls and (spent.usd >= limits.usd_per_day or spent.tokens >= limits.tokens_per_day)
    together = daily_spend(spent_folder(os.environ)).of(now)
    return since + timedelta(days=1) if reached or config.daemon.limits.reached(together) else None


def _has_schema(store: Store) -> bool:
    """Tell whether MEMORY.md has its sections, which the first dream gives it."""
    content = store.disk.read_optional(store.workspace.document) or b""
    return parse(content.decode(errors="replace")).has_schema


def _latest(moments: Iterable[datetime | None], now: datetime) -> datetime | None:
    """Return the last one that is not in the future, where a clock that was set back leaves some."""
    return max((moment for moment in moments if moment is not None and moment <= now), default=None)
