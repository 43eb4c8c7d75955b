"""Workspace facts: what the daemon decides by while a workspace's stores are closed.

`StoreFacts` are what the stores held when they were last used; `PendingNotes` are read from their files.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path

from daemon.config.settings import day_start
from daemon.dream.changes import DECLINED
from daemon.dream.run import new_crystals, unseen_seeds
from daemon.sessions.for_dreams import waiting_count
from daemon.sessions.maintenance import next_due
from daemon.workspace.stores import Store
from state.scratch import HEADER, PendingCount
from state.signals.hormones import Hormones
from state.stores.database.meta import Meta
from state.stores.disk.workspace import Workspace
from state.stores.history.journal import NOTES_LEFT
from state.stores.history.ledger import Run
from state.stores.history.segments import Segments

_RUNS = 50
_FAILURES = ("failed", "rejected")
_REREAD_SECONDS = 600
_EMPTY_LOG = len(HEADER) + 2


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
    """What the stores hold now. Raises sqlite3.Error and DreamdError."""
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


class PendingNotes:
    """How many notes of one workspace no dream has consumed, counted again only when one of their files changes."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._mark: object = ()
        self.last_read = PendingCount()

    def read(self, now: datetime) -> PendingCount:
        """How much is pending now; more than a thousand notes are not counted.

        They are read every ten minutes in any case: a write through a descriptor that was open before shows in a
        segment's size alone.
        """
        segments = self._workspace.segments
        paths = [self._workspace.scratch, segments, self._workspace.retired, *_current_segments(segments)]
        mark = (int(now.timestamp() // _REREAD_SECONDS), *(file_stamp(path) for path in paths))
        if self._mark != mark:
            self.last_read = Segments(self._workspace).count()
            self._mark = mark
        return self.last_read

    def appended_at(self) -> datetime | None:
        """When the log was last appended to, by the files' times: an agent writes what it likes into a note's."""
        stamps = [
            file_stamp(path) for path in (self._workspace.scratch, *_current_segments(self._workspace.segments))
        ]
        # A dream that takes the log leaves an empty one with a title, which nobody has appended to.
        latest = max((stamp[2] for stamp in stamps if stamp is not None and stamp[1] > _EMPTY_LOG), default=None)
        return datetime.fromtimestamp(latest / 1e9, UTC) if latest is not None else None


def file_stamp(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and modification time (ns), which differ after a write; None when there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _current_segments(folder: Path) -> Sequence[Path]:
    """The segments that are not retired."""
    with suppress(OSError):
        return sorted(folder.glob("*.md"))
    return []
