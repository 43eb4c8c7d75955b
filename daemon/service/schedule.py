"""Schedule: decides when a workspace dreams, consolidates or waits, as a pure function of its history and notes.

Every trigger has a moment. Of those whose moment has come, the first in this order fires; `due` says which, or until
when there is nothing to do:

    session end   an agent said so; one new note is enough, and a person waits for it
    first breath  MEMORY.md has no sections yet; one is enough, if the notes are many or long
    floor         a note has waited for 24 hours; one is enough
    pressure      the log is full, or the last dream left some of it; one is enough, because few long notes fill it
                  as well
    catch-up      the interval ran out while nobody watched; min_chunks are wanted
    interval      the interval ran out; min_chunks are wanted, else the look is skipped until the interval's next end
    idle          nothing was appended for a while; min_chunks are wanted

The reasons that need the least come first, so that a dream is never refused for a reason that needs more. With
nothing new none of them dreams. A consolidation pass comes after dreams (a dream reads what is new by itself) and
before a skip (what it reads may be what was wanted).

Three things put a dream off: the time after a failed one, an open ceiling, a pause since the last one began. They put
off the floor too, and they end by themselves.

**Time** is what the clock says, and the clock may be set. What lies in the future has no known age: a look, a pass or
a dream there counts as if it had been when the daemon began to watch (`awake_since`), and if that lies in the future
too, as long ago. The act that follows is stamped with the present, so that one clock that was set back makes at most
one early look, not a loop, and never silence until the clock has caught up. A note or a session's end in the future
fires nothing before its time; the interval and the floor do not wait for it.

**The promise of `at`**: as long as the input stays the same, nothing fires before it. All of it is arithmetic on
moments; no input makes it raise.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from state.dream import Reason
from state.text.words import counted

if TYPE_CHECKING:
    from daemon.config.settings import Config

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

    @classmethod
    def of(cls, config: "Config") -> "Thresholds":
        """Return the thresholds of this configuration."""
        return cls(
            interval=timedelta(minutes=config.dream.interval_minutes),
            min_chunks=config.dream.min_chunks,
            idle=timedelta(minutes=config.dream.idle_minutes),
            passes_every=timedelta(minutes=config.daemon.pass_minutes),
        )


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
    """What is pending in a workspace. Moments are aware, in UTC.

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
        """Return whether the last dream did not fail and left notes for the next one."""
        return self.pending.left and self.pending.notes > 0 and self.history.failures == 0

    @property
    def backoff(self) -> timedelta:
        """Return how long the last failure postpones dreams: doubled for each one before it, at most the interval."""
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


class Action(StrEnum):
    """What is to be done now. A skip is written into the ledger; waiting is not."""

    DREAM = "dream"
    PASS = "pass"  # noqa: S105 - not a password
    SKIP = "skip"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, why, and when.

    `at` is now, or for WAIT the moment until which nothing will fire; `reason` and `detail` then say what is expected
    at that moment, in words for a person. For SKIP `detail` is what the ledger gets.
    """

    action: Action
    reason: Reason | None
    detail: str
    at: datetime


def due(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision:
    """Return what this workspace should do now.

    Once the action is in the history, the same moment gives another action or WAIT, never the same one. For
    WAIT `at` is later than now, and nothing fires before it unless the input changes.
    """
    context = TriggerContext(now, history, pending, thresholds)
    decision = _first(context, [*_dreams(context), *_passes(context), *_skips(context)])
    assert decision is not None, "what is not ready is skipped"
    return decision


def work(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision | None:
    """Return what to do now, or WAIT with the moment of the next dream or pass; None when neither is foreseen.

    For callers that record no skips, because nobody watches a workspace at rest.
    """
    context = TriggerContext(now, history, pending, thresholds)
    return _first(context, [*_dreams(context), *_passes(context)])


def upcoming(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision:
    """Return the next dream, if nothing changes; else WAIT with the reason why none is foreseen."""
    context = TriggerContext(now, history, pending, thresholds)
    dreams = list(_dreams(context))
    if dreams:
        return min(dreams, key=lambda decision: decision.at)
    return replace(next(_skips(context)), action=Action.WAIT)


def phase(workspace: str) -> float:
    """Return a workspace's place in the jitter, in [0, 1): the same for one path, and spread evenly over many."""
    digest = hashlib.sha256(workspace.encode("utf-8", "surrogateescape")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


def _first(context: TriggerContext, expected: list[Decision]) -> Decision | None:
    """Return the first that is due, else WAIT until the earliest."""
    for decision in expected:
        if decision.at <= context.now:
            return replace(decision, detail=_recorded_detail(context, decision), at=context.now)
    first = min(expected, key=lambda decision: decision.at, default=None)
    return replace(first, action=Action.WAIT) if first is not None else None


def _dreams(context: TriggerContext) -> Iterator[Decision]:
    """Yield the dreams that will come if nothing changes, the most urgent first, each with its moment."""
    for reason, moment, detail in triggers(context):
        at, cause = context.postponed(moment)
        yield Decision(Action.DREAM, reason, f"{detail}, {cause}" if cause else detail, at)


def _passes(context: TriggerContext) -> Iterator[Decision]:
    """Yield the consolidation passes: for a spike, at the end of a session that is still unread, every so often."""
    pending, history, limits = context.pending, context.history, context.thresholds
    if pending.dopamine > limits.dopamine_spike or pending.cortisol > limits.cortisol_spike:
        at = context.now
        if history.last_spike_pass is not None:
            last = context.past(history.last_spike_pass) or context.awake
            at = max(at, later(last, max(limits.spike_every, SHORTEST_WAIT)))
        yield Decision(Action.PASS, Reason.SPIKE, "a consolidation pass for a spike", at)
    if not pending.changed:
        return
    ended = pending.session_ended
    if ended is not None and (history.last_pass is None or history.last_pass < ended):
        yield Decision(
            Action.PASS, Reason.SESSION_END, "a consolidation pass at the end of a session", max(context.now, ended)
        )
    if history.last_pass is None:
        at = later(context.awake, context.jitter)
    else:
        at = later(context.past(history.last_pass) or context.awake, max(limits.passes_every, SHORTEST_WAIT))
    yield Decision(Action.PASS, None, "a consolidation pass", max(context.now, at))


def _skips(context: TriggerContext) -> Iterator[Decision]:
    """Yield the end of the interval, if no dream can follow it; the detail says what would have to change."""
    if context.is_ready:
        return
    reason, moment, expected = interval_end(context)
    at, cause = context.postponed(moment)
    if context.pending.new < 1:
        detail = "nothing is pending"
    else:
        more = max(context.thresholds.min_chunks, 1) - context.pending.new
        detail = f"{expected}, if {counted(more, 'more note comes', 'more notes come')}"
        detail = f"{detail}, {cause}" if cause else detail
    yield Decision(Action.SKIP, reason, detail, at)


def _recorded_detail(context: TriggerContext, decision: Decision) -> str:
    """Return the detail for the ledger, which counts equal skips by it."""
    if decision.action is Action.PASS:
        return decision.detail
    if decision.action is Action.DREAM:
        return f"{context.pending.new} new"
    return f"{context.pending.new} new, {max(context.thresholds.min_chunks, 1)} wanted"


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
