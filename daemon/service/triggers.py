"""Triggers: the moments at which dreams are due for the schedule, in order of urgency, and what postpones them.

The rules are in `daemon.service.schedule`; here is their arithmetic. A trigger's moment may be past: it is due since.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from state.dream import Reason

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NEVER = datetime.max.replace(tzinfo=UTC)
_DAY = timedelta(days=1)
# Between two actions of a kind; without it, one could follow itself at the same moment.
SHORTEST_WAIT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The figures of the triggers.

    `floor` holds whatever the others say. `pause` is the least time from one dream's begin to the next one's, so that
    a hundred short sessions are not a hundred dreams; after one that left notes it is `pause_with_rest`. `retry`
    follows a failed dream and doubles with each further one. All are at most the interval.
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
    pause_with_rest: timedelta = timedelta(seconds=10)


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
    schema: bool = True
    phase: float = 0.0


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits in a workspace. Moments are aware, in UTC.

    `notes`, `characters`, `bytes`: the pending notes, in rows and in files.
    `new`: what readiness counts: notes or crystals that no dream has taken in.
    `left`: the last dream took in as many notes as fit, and left some of these.
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
    left: bool = False
    oldest: datetime | None = None
    latest: datetime | None = None
    session_ended: datetime | None = None
    changed: bool = False
    dopamine: float = 0.0
    cortisol: float = 0.0


@dataclass(frozen=True, slots=True)
class TriggerContext:
    """The input of a decision, and the times that follow from it."""

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
    def last_look(self) -> datetime | None:
        return self.past(self.history.last_look)

    @property
    def consumed_upto(self) -> datetime | None:
        """Up to when notes were consumed: the beginning of the last dream, if it did not fail."""
        return None if self.history.failures > 0 else self.past(self.history.last_dream)

    @property
    def interval(self) -> timedelta:
        return max(self.thresholds.interval, SHORTEST_WAIT)

    @property
    def jitter(self) -> timedelta:
        """Up to a tenth of the interval; it spreads the workspaces that one start of the daemon brought into step."""
        return self.interval / 10 * min(max(self.history.phase, 0.0), 1.0)

    @property
    def pause(self) -> timedelta:
        limits = self.thresholds
        return min(limits.pause_with_rest if self.has_rest else limits.pause, self.interval)

    @property
    def has_rest(self) -> bool:
        """Whether the last dream did not fail and left notes for the next one."""
        return self.pending.left and self.pending.notes > 0 and self.history.failures == 0

    @property
    def backoff(self) -> timedelta:
        """How long the last failure postpones dreams: doubled for each one before it, at most the interval."""
        first = max(self.thresholds.retry, SHORTEST_WAIT)
        seconds = first.total_seconds() * 2.0 ** min(max(self.history.failures - 1, 0), 60)
        return self.interval if seconds >= self.interval.total_seconds() else timedelta(seconds=seconds)

    @property
    def is_ready(self) -> bool:
        return self.pending.new >= max(self.thresholds.min_chunks, 1)

    def retry_at(self, moment: datetime) -> datetime:
        """Return the moment, or a pause after a look since then that led to no dream."""
        if self.last_look is None or self.last_look < moment:
            return moment
        return later(self.last_look, max(self.pause, SHORTEST_WAIT))

    def is_new(self, moment: datetime) -> bool:
        """Tell whether no dream has begun since then."""
        return self.consumed_upto is None or self.consumed_upto < moment

    def postponed(self, moment: datetime) -> tuple[datetime, str]:
        """Return when a dream that is due at this moment may begin, and what postpones it until then."""
        moment, cause, history = max(moment, self.now), "", self.history
        delays = []
        if history.last_dream is not None:
            delays.append((history.last_dream, later(history.last_dream, self.pause), "after a pause"))
        if history.failed_at is not None and history.failures > 0:
            delays.append((history.failed_at, later(history.failed_at, self.backoff), "after a failed try"))
        if history.ceiling_until is not None:
            until = history.ceiling_until
            delays.append((_earlier(until, _DAY), until, f"held by a ceiling until {until:%H:%M} UTC"))
        for begin, end, what in delays:
            if begin <= moment < end:
                moment, cause = end, what
        return moment, cause


def triggers(context: TriggerContext) -> Iterator[tuple[Reason, datetime, str]]:
    """Return the triggers that hold, or will at their moment, in order of urgency, and in words."""
    pending, limits = context.pending, context.thresholds
    if pending.new < 1:
        return
    appended = pending.latest if pending.latest is not None and context.is_new(pending.latest) else None
    if pending.session_ended is not None and context.is_new(pending.session_ended):
        yield Reason.SESSION_END, context.retry_at(pending.session_ended), "session end"
    if appended is not None and not context.history.schema and _is_first_breath(pending, limits):
        words = f"first breath: {pending.notes} notes, {pending.characters} characters"
        yield Reason.FIRST_BREATH, context.retry_at(appended), words
    if pending.oldest is not None:
        hours = limits.floor.total_seconds() / 3600
        words = f"the floor: the oldest note has then waited {hours:g} hours"
        yield Reason.FLOOR, context.retry_at(later(_waiting_since(context, pending.oldest), limits.floor)), words
    if context.has_rest:
        words = f"pressure: {pending.notes} notes are left of what the last dream could take in"
        yield Reason.PRESSURE, context.retry_at(context.past(context.history.last_dream) or context.awake), words
    elif appended is not None and (pending.notes >= limits.pressure_notes or pending.bytes >= limits.pressure_bytes):
        words = f"pressure: {pending.notes} notes, {pending.bytes} bytes"
        yield Reason.PRESSURE, context.retry_at(appended), words
    if not context.is_ready:
        return
    yield interval_end(context)
    if appended is not None:
        minutes = limits.idle.total_seconds() / 60
        words = f"idle: nothing has then been appended for {minutes:g} minutes"
        yield Reason.IDLE, context.retry_at(later(appended, limits.idle)), words


def _is_first_breath(pending: Pending, limits: Thresholds) -> bool:
    return pending.notes >= limits.first_breath_notes or pending.characters >= limits.first_breath_characters


def _waiting_since(context: TriggerContext, oldest: datetime) -> datetime:
    """Return since when a note has waited: its stamp, but not since before the dream that took in all there was.

    So an agent whose clock is wrong, or a restored version that gives its notes back, makes one such dream a day and
    not one a note. Without such a dream, what lies ahead of the clock waits since the daemon watches; but more than a
    day ahead the clock was set back, and nobody knows how long it has waited.
    """
    if oldest > context.now:
        return context.consumed_upto or (context.awake if oldest <= later(context.now, _DAY) else _LONG_AGO)
    return max(oldest, context.consumed_upto or _LONG_AGO)


def interval_end(context: TriggerContext) -> tuple[Reason, datetime, str]:
    """Return when the interval ends. After a failed dream, notes that are ready wait for the next try instead."""
    runs_out = later(context.last_look or context.awake, context.interval)
    at = later(max(runs_out, context.awake), context.jitter)
    if context.is_ready and context.history.failures > 0 and context.history.failed_at is not None:
        at = min(at, context.retry_at(context.history.failed_at))
    if runs_out < context.awake:
        return Reason.CATCH_UP, at, "catch-up after downtime"
    return Reason.INTERVAL, at, "interval"


def later(moment: datetime, wait: timedelta) -> datetime:
    """Return the moment after this wait; at the end of the calendar, its end."""
    try:
        return moment + wait
    except OverflowError:
        return _NEVER


def _earlier(moment: datetime, wait: timedelta) -> datetime:
    try:
        return moment - wait
    except OverflowError:
        return _LONG_AGO
