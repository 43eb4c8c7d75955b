"""What makes a dream come, and what puts it off: the moments of the triggers, in order of urgency.

The rules are in `daemon.service.schedule`; here is their arithmetic. A trigger's moment may be past (it holds since
then).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from state.dream import Reason

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NEVER = datetime.max.replace(tzinfo=UTC)
_DAY = timedelta(days=1)
# What is waited for between two acts of a kind; without it, one could follow itself at the same moment.
LEAST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The figures of the triggers.

    `floor` holds whatever the others say. `pause` is the least time from one dream's begin to the next one's, so that
    a hundred short sessions are not a hundred dreams. `retry` follows a failed dream and doubles with each further
    one. Both are at most the interval.
    """

    interval: timedelta = timedelta(minutes=120)
    min_chunks: int = 5
    idle: timedelta = timedelta(minutes=20)
    pressure_notes: int = 20
    pressure_bytes: int = 8192
    floor: timedelta = timedelta(hours=24)
    first_breath_notes: int = 5
    first_breath_characters: int = 500
    passes_every: timedelta = timedelta(minutes=5)
    spike_every: timedelta = timedelta(minutes=10)
    dopamine_spike: float = 0.7
    cortisol_spike: float = 0.8
    retry: timedelta = timedelta(minutes=5)
    pause: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class History:
    """What the ledger and the daemon know of a workspace. Moments are aware, in UTC; any may lie in the future.

    `awake_since`: since when the daemon watches without a gap: its start, or the end of the machine's last sleep.
    `last_look`: when a run last began or was skipped, whatever became of it; the interval counts from here.
    `last_dream`: when the last run began that was more than a skip. Unless it failed, it took in all there was.
    `failures`, `failed_at`: how many failed or were rejected in a row, and when the last of them ended.
    `ceiling_until`: when the open breaker closes, at most a day ahead; one further ahead was set by another clock and
    does not hold.
    `last_pass`, `last_spike_pass`: when a pass was last begun, whatever became of it, and the last for a spike.
    `proposal`: the id of a proposal that must be decided before the next dream; empty when dreams need no approval.
    `schema`: whether MEMORY.md has its seven sections.
    `phase`: this workspace's place in the jitter, in [0, 1).

    After each act its stamp must be the moment of the act, even where the ledger holds a later one from before the
    clock was set back.
    """

    awake_since: datetime
    last_look: datetime | None = None
    last_dream: datetime | None = None
    failures: int = 0
    failed_at: datetime | None = None
    ceiling_until: datetime | None = None
    last_pass: datetime | None = None
    last_spike_pass: datetime | None = None
    proposal: str = ""
    schema: bool = True
    phase: float = 0.0


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits in a workspace. Moments are aware, in UTC.

    `notes`, `characters`, `bytes`: the pending notes, in scratch.md and segments.
    `new`: what readiness counts: notes or crystals that no dream has taken in.
    `oldest`: the earliest stamp of a pending note. Stamps are written by agents and may be anything.
    `latest`: when something was last appended, by the file's time and not by a stamp; None without notes.
    `session_ended`: when an agent last said so, as long as no dream that began later took its notes in.
    `changed`: whether there is anything that no pass has seen.
    `dopamine`, `cortisol`: the levels, decayed to now.
    """

    notes: int = 0
    characters: int = 0
    bytes: int = 0
    new: int = 0
    oldest: datetime | None = None
    latest: datetime | None = None
    session_ended: datetime | None = None
    changed: bool = False
    dopamine: float = 0.0
    cortisol: float = 0.0


@dataclass(frozen=True, slots=True)
class TriggerContext:
    """The input, and what follows from it about time."""

    now: datetime
    history: History
    pending: Pending
    thresholds: Thresholds

    def past(self, stamp: datetime | None) -> datetime | None:
        return stamp if stamp is not None and stamp <= self.now else None

    @property
    def awake(self) -> datetime:
        return self.past(self.history.awake_since) or _LONG_AGO

    @property
    def looked(self) -> datetime | None:
        return self.past(self.history.last_look)

    @property
    def taken_in(self) -> datetime | None:
        """Up to when everything was taken in: the begin of the last dream, if it did not fail."""
        return None if self.history.failures > 0 else self.past(self.history.last_dream)

    @property
    def interval(self) -> timedelta:
        return max(self.thresholds.interval, LEAST)

    @property
    def jitter(self) -> timedelta:
        """Up to a tenth of the interval; it spreads the workspaces that one start of the daemon brought into step."""
        return self.interval / 10 * min(max(self.history.phase, 0.0), 1.0)

    @property
    def pause(self) -> timedelta:
        return min(self.thresholds.pause, self.interval)

    @property
    def backoff(self) -> timedelta:
        """How long the last failure holds: doubled for each one before it, at most the interval."""
        first = max(self.thresholds.retry, LEAST)
        seconds = first.total_seconds() * 2.0 ** min(max(self.history.failures - 1, 0), 60)
        return self.interval if seconds >= self.interval.total_seconds() else timedelta(seconds=seconds)

    @property
    def is_ready(self) -> bool:
        return self.pending.new >= max(self.thresholds.min_chunks, 1)

    def again(self, moment: datetime) -> datetime:
        """The moment, or a pause after a look since then that came to nothing: what still holds is tried again."""
        if self.looked is None or self.looked < moment:
            return moment
        return later(self.looked, max(self.pause, LEAST))

    def is_new(self, moment: datetime) -> bool:
        """Whether no dream has taken in what happened then."""
        return self.taken_in is None or self.taken_in < moment

    def held(self, moment: datetime) -> tuple[datetime, str]:
        """When a dream that is due at this moment may begin, and what puts it off till then."""
        moment, why, history = max(moment, self.now), "", self.history
        holds = []
        if history.last_dream is not None:
            holds.append((history.last_dream, later(history.last_dream, self.pause), "after a pause"))
        if history.failed_at is not None and history.failures > 0:
            holds.append((history.failed_at, later(history.failed_at, self.backoff), "after a failed try"))
        if history.ceiling_until is not None:
            until = history.ceiling_until
            holds.append((_earlier(until, _DAY), until, f"held by a ceiling until {until:%H:%M} UTC"))
        for begin, end, what in holds:
            if begin <= moment < end:
                moment, why = end, what
        return moment, why


def triggers(case: TriggerContext) -> Iterator[tuple[Reason, datetime, str]]:
    """The triggers that hold, or will at their moment, in order of urgency, and in words."""
    pending, limits = case.pending, case.thresholds
    if pending.new < 1 or case.history.proposal:
        return
    appended = pending.latest if pending.latest is not None and case.is_new(pending.latest) else None
    if pending.session_ended is not None and case.is_new(pending.session_ended):
        yield Reason.SESSION_END, case.again(pending.session_ended), "session end"
    if appended is not None and not case.history.schema and _is_first_breath(pending, limits):
        words = f"first breath: {pending.notes} notes, {pending.characters} characters"
        yield Reason.FIRST_BREATH, case.again(appended), words
    if pending.oldest is not None:
        hours = limits.floor.total_seconds() / 3600
        words = f"the floor: the oldest note has then waited {hours:g} hours"
        yield Reason.FLOOR, case.again(later(_waiting_since(case, pending.oldest), limits.floor)), words
    if appended is not None and (pending.notes >= limits.pressure_notes or pending.bytes >= limits.pressure_bytes):
        words = f"pressure: {pending.notes} notes, {pending.bytes} bytes"
        yield Reason.PRESSURE, case.again(appended), words
    if not case.is_ready:
        return
    yield look(case)
    if appended is not None:
        minutes = limits.idle.total_seconds() / 60
        words = f"idle: nothing has then been appended for {minutes:g} minutes"
        yield Reason.IDLE, case.again(later(appended, limits.idle)), words


def _is_first_breath(pending: Pending, limits: Thresholds) -> bool:
    return pending.notes >= limits.first_breath_notes or pending.characters >= limits.first_breath_characters


def _waiting_since(case: TriggerContext, oldest: datetime) -> datetime:
    """Since when a note has waited: its stamp, but not since before the dream that took in all there was.

    So an agent whose clock is wrong, or a restored version that gives its notes back, makes one such dream a day and
    not one a note. Without such a dream, what lies ahead of the clock waits since the daemon watches; but more than a
    day ahead the clock was set back, and nobody knows how long it has waited.
    """
    if oldest > case.now:
        return case.taken_in or (case.awake if oldest <= later(case.now, _DAY) else _LONG_AGO)
    return max(oldest, case.taken_in or _LONG_AGO)


def look(case: TriggerContext) -> tuple[Reason, datetime, str]:
    """When the interval runs out. What is ready after a failed dream waits for the next try instead."""
    runs_out = later(case.looked or case.awake, case.interval)
    at = later(max(runs_out, case.awake), case.jitter)
    if case.is_ready and case.history.failures > 0 and case.history.failed_at is not None:
        at = min(at, case.again(case.history.failed_at))
    if runs_out < case.awake:
        return Reason.CATCH_UP, at, "catch-up after downtime"
    return Reason.INTERVAL, at, "interval"


def later(moment: datetime, wait: timedelta) -> datetime:
    """The moment after this wait; at the end of the calendar, its end."""
    try:
        return moment + wait
    except OverflowError:
        return _NEVER


def _earlier(moment: datetime, wait: timedelta) -> datetime:
    try:
        return moment - wait
    except OverflowError:
        return _LONG_AGO
