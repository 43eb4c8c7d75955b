"""Schedule: decides when a workspace dreams, consolidates or waits, as a pure function of its history and notes.

Each trigger has a moment. Of the triggers whose moment has come, the first in this order fires:

    interrupted   a dream was cut off; it goes on, whatever is pending
    session end   an agent reported it; one new note is enough, because a person waits for the dream
    first breath  MEMORY.md has no sections yet; one note is enough, if the notes are many or long
    floor         a note has waited for 24 hours; one is enough
    pressure      the log is full, or the last dream left notes; one is enough, because a few long notes fill it too
    catch-up      the interval ended while no daemon watched; needs min_chunks notes
    interval      the interval ended; needs min_chunks notes, else the look is skipped until the next interval ends
    idle          nothing was appended for a while; needs min_chunks notes

Triggers that need the least come first, so that no dream is refused for a trigger that needs more. Without anything
new, none fires. A consolidation pass comes after dreams, which read new input themselves, and before a skip, because
what the pass reads may be what was missing.

Three things postpone every dream, the floor included: the backoff after a failure, a reached ceiling, and a pause
since the last dream began. Each ends by itself. One that was interrupted waits for the backoff alone, because what it
was answered is paid for.

**Time**: the clock may be set back, so a recorded moment may lie in the future, and its age is unknown. A look, pass
or dream in the future counts as if it had happened when the daemon began to watch (`awake_since`), or long ago if
that is in the future too. The next action is recorded with the present time. So a clock that was set back causes at
most one early look, no loop, and no silence until it has caught up. A note or session end in the future fires nothing
before its time; the interval and the floor do not wait for it.

**`at` is a promise**: while the input stays the same, nothing fires before it. Everything is arithmetic on moments,
and no input raises.
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
# The minimum time between two actions of a kind, without which one could follow itself at the same moment.
SHORTEST_WAIT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The figures of the triggers.

    `floor` applies whatever the others are. `pause` is the minimum time between the starts of two dreams, so that a
    hundred short sessions do not cause a hundred dreams; after a dream that left notes it is `pause_with_notes_left`.
    `retry` is the backoff after a failed dream; each further failure doubles it. None exceeds the interval.
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
    pause_with_notes_left: timedelta = timedelta(seconds=10)

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

    `awake_since`: since when the daemon has watched without a gap: its start, or the end of the machine's last sleep.
    `last_look`: when the last run began or was skipped, with any outcome; the interval counts from here.
    `last_dream`: when the last run began that was no skip. Unless it failed, it took in everything there was.
    `failures`, `failed_at`: the number of failed or rejected runs in a row, and when the last of them ended.
    `ceiling_until`: when the reached ceiling is lifted, at most a day ahead; a later moment is ignored, because
    another clock set it.
    `last_pass`, `last_spike_pass`: when the last pass began, with any outcome, and the last one for a spike.
    `schema`: whether MEMORY.md has its seven sections.
    `phase`: this workspace's share of the jitter, in [0, 1).

    After an action, its moment must replace the former one, even a later one from before the clock was set back.
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
    `new`: how many notes and crystals no dream has taken in; `min_chunks` applies to it.
    `left`: whether the last dream had no room for some of these notes.
    `oldest`: the earliest timestamp of a pending note. Agents write timestamps, so it may be anything.
    `latest`: when something was last appended, by the file's time; None without notes.
    `session_ended`: when an agent last reported a session's end, unless a later dream took its notes in.
    `interrupted`: whether a dream was cut off and can go on.
    `changed`: whether there is something that no pass has seen.
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
    interrupted: bool = False
    changed: bool = False
    dopamine: float = 0.0
    cortisol: float = 0.0


@dataclass(frozen=True, slots=True)
class TriggerContext:
    """The input of a decision, and the times derived from it."""

    now: datetime
    history: History
    pending: Pending
    thresholds: Thresholds

    def unless_future(self, stamp: datetime | None) -> datetime | None:
        return stamp if stamp is not None and stamp <= self.now else None

    @property
    def awake(self) -> datetime:
        return self.unless_future(self.history.awake_since) or _LONG_AGO

    @property
    def last_look(self) -> datetime | None:
        return self.unless_future(self.history.last_look)

    @property
    def consumed_upto(self) -> datetime | None:
        """Return up to when notes were consumed: the start of the last dream, unless it failed."""
        return None if self.history.failures > 0 else self.unless_future(self.history.last_dream)

    @property
    def interval(self) -> timedelta:
        return max(self.thresholds.interval, SHORTEST_WAIT)

    @property
    def jitter(self) -> timedelta:
        """Return up to a tenth of the interval: it spreads workspaces that the daemon began to watch together."""
        return self.interval / 10 * min(max(self.history.phase, 0.0), 1.0)

    @property
    def pause(self) -> timedelta:
        limits = self.thresholds
        return min(limits.pause_with_notes_left if self.has_notes_left else limits.pause, self.interval)

    @property
    def has_notes_left(self) -> bool:
        """Return whether the last dream did not fail and left notes for the next one."""
        return self.pending.left and self.pending.notes > 0 and self.history.failures == 0

    @property
    def backoff(self) -> timedelta:
        """Return how long the last failure postpones dreams: twice as long for each failure before it."""
        first = max(self.thresholds.retry, SHORTEST_WAIT)
        seconds = first.total_seconds() * 2.0 ** min(max(self.history.failures - 1, 0), 60)
        return self.interval if seconds >= self.interval.total_seconds() else timedelta(seconds=seconds)

    @property
    def after_failure(self) -> datetime:
        """Return now, or when the backoff after a failed dream ends."""
        failed_at = self.unless_future(self.history.failed_at)
        return max(self.now, later(failed_at, self.backoff)) if failed_at and self.history.failures else self.now

    @property
    def is_ready(self) -> bool:
        return self.pending.new >= max(self.thresholds.min_chunks, 1)

    def retry_at(self, moment: datetime) -> datetime:
        """Return the moment, or a pause after a look since then that led to no dream."""
        if self.last_look is None or self.last_look < moment:
            return moment
        return later(self.last_look, max(self.pause, SHORTEST_WAIT))

    def is_new(self, moment: datetime) -> bool:
        """Return whether no dream has begun since then."""
        return self.consumed_upto is None or self.consumed_upto < moment

    def postponed(self, moment: datetime) -> tuple[datetime, str]:
        """Return when a dream due at this moment may begin, and what postpones it."""
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
    """What to do now. A skip is written to the ledger; waiting is not."""

    DREAM = "dream"
    PASS = "pass"  # noqa: S105 - not a password
    SKIP = "skip"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, why, and when.

    `at` is now; for WAIT it is the moment until which nothing fires, and `reason` and `detail` tell a person what is
    expected then. For SKIP, `detail` is for the ledger.
    """

    action: Action
    reason: Reason | None
    detail: str
    at: datetime


def due(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision:
    """Return what this workspace should do now.

    With that action in the history, the same moment gives another action or WAIT, never the same one. For WAIT, `at`
    is later than now, and nothing fires before it unless the input changes.
    """
    context = TriggerContext(now, history, pending, thresholds)
    decision = _first(context, [*_dreams(context), *_passes(context), *_skips(context)])
    assert decision is not None, "what is not ready is skipped"
    return decision


def work(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision | None:
    """Return what to do now, or WAIT until the next dream or pass; None if neither is foreseen.

    It is for callers that record no skips, because nobody watches an idle workspace.
    """
    context = TriggerContext(now, history, pending, thresholds)
    return _first(context, [*_dreams(context), *_passes(context)])


def upcoming(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision:
    """Return the next dream if nothing changes; WAIT, with the reason, if none is foreseen."""
    context = TriggerContext(now, history, pending, thresholds)
    dreams = list(_dreams(context))
    if dreams:
        return min(dreams, key=lambda decision: decision.at)
    return replace(next(_skips(context)), action=Action.WAIT)


def phase(workspace: str) -> float:
    """Return a workspace's share of the jitter, in [0, 1): constant for a path, and spread evenly over many."""
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
    """Yield the dreams that follow if nothing changes, with their moments, the most urgent first."""
    if context.pending.interrupted:
        yield Decision(Action.DREAM, Reason.CATCH_UP, "it was interrupted", context.after_failure)
    for reason, moment, detail in triggers(context):
        at, cause = context.postponed(moment)
        yield Decision(Action.DREAM, reason, f"{detail}, {cause}" if cause else detail, at)


def _passes(context: TriggerContext) -> Iterator[Decision]:
    """Yield the consolidation passes: for a spike, for an unread session that ended, and at intervals."""
    pending, history, limits = context.pending, context.history, context.thresholds
    if pending.dopamine > limits.dopamine_spike or pending.cortisol > limits.cortisol_spike:
        at = context.now
        if history.last_spike_pass is not None:
            last = context.unless_future(history.last_spike_pass) or context.awake
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
        at = later(context.unless_future(history.last_pass) or context.awake, max(limits.passes_every, SHORTEST_WAIT))
    yield Decision(Action.PASS, None, "a consolidation pass", max(context.now, at))


def _skips(context: TriggerContext) -> Iterator[Decision]:
    """Yield the end of the interval if no dream can follow it; the detail says what is missing."""
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
    """Return the detail for the ledger, which counts skips with the same one in one row."""
    if decision.action is Action.PASS:
        return decision.detail
    if decision.action is Action.DREAM:
        return f"{context.pending.new} new"
    return f"{context.pending.new} new, {max(context.thresholds.min_chunks, 1)} wanted"


def triggers(context: TriggerContext) -> Iterator[tuple[Reason, datetime, str]]:
    """Yield the triggers that fire now or at a later moment, in order of urgency, each with a description."""
    pending, limits = context.pending, context.thresholds
    if pending.new < 1:
        return
    appended = pending.latest if pending.latest is not None and context.is_new(pending.latest) else None
    if pending.session_ended is not None and context.is_new(pending.session_ended):
        yield Reason.SESSION_END, context.retry_at(pending.session_ended), "session end"
    if appended is not None and not context.history.schema and _is_first_breath(pending, limits):
        words = f"the first dream: {pending.notes} notes, {pending.characters} characters"
        yield Reason.FIRST_BREATH, context.retry_at(appended), words
    if pending.oldest is not None:
        hours = limits.floor.total_seconds() / 3600
        words = f"the oldest note has then waited {hours:g} hours"
        yield Reason.FLOOR, context.retry_at(later(_waiting_since(context, pending.oldest), limits.floor)), words
    if context.has_notes_left:
        words = f"much waits: {pending.notes} notes are left of what the last dream could take in"
        yield (
            Reason.PRESSURE,
            context.retry_at(context.unless_future(context.history.last_dream) or context.awake),
            words,
        )
    elif appended is not None and (pending.notes >= limits.pressure_notes or pending.bytes >= limits.pressure_bytes):
        words = f"much waits: {pending.notes} notes, {pending.bytes} bytes"
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
    """Return since when the oldest note has waited: since its timestamp, but at most since the last complete dream.

    So an agent with a wrong clock, or a restore that makes notes pending again, causes one such dream a day, not one
    for each note. Without such a dream, a note from the future waits since the daemon began to watch; if it is more
    than a day ahead, the clock was set back and its age is unknown.
    """
    if oldest > context.now:
        return context.consumed_upto or (context.awake if oldest <= later(context.now, _DAY) else _LONG_AGO)
    return max(oldest, context.consumed_upto or _LONG_AGO)


def interval_end(context: TriggerContext) -> tuple[Reason, datetime, str]:
    """Return when the interval ends; after a failed dream, if enough is new, the time of the next try."""
    runs_out = later(context.last_look or context.awake, context.interval)
    at = later(max(runs_out, context.awake), context.jitter)
    if context.is_ready and context.history.failures > 0 and context.history.failed_at is not None:
        at = min(at, context.retry_at(context.history.failed_at))
    if runs_out < context.awake:
        return Reason.CATCH_UP, at, "catch-up after downtime"
    return Reason.INTERVAL, at, "interval"


def later(moment: datetime, wait: timedelta) -> datetime:
    """Return the moment after this wait, at most the end of the calendar."""
    try:
        return moment + wait
    except OverflowError:
        return _NEVER


def _earlier(moment: datetime, wait: timedelta) -> datetime:
    try:
        return moment - wait
    except OverflowError:
        return _LONG_AGO
