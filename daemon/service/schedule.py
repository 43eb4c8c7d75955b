"""Schedule: decides when a workspace dreams, consolidates or waits, as a pure function of its history and notes.

Every trigger has a moment. Of those that have come the first in this order fires; `due` says which, or until when
there is nothing to do:

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
from datetime import datetime
from enum import StrEnum

from daemon.service.triggers import (
    SHORTEST_WAIT,
    History,
    Pending,
    Thresholds,
    TriggerContext,
    interval_end,
    later,
    triggers,
)
from state.dream import Reason

__all__ = ["Action", "Decision", "History", "Pending", "Thresholds", "due", "phase", "upcoming", "work"]


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
    expected = [*_dreams(context), *_passes(context), *_skips(context)]
    for decision in expected:
        if decision.at <= now:
            return replace(decision, detail=_recorded_detail(context, decision), at=now)
    first = min(expected, key=lambda decision: decision.at)
    return replace(first, action=Action.WAIT)


def upcoming(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision:
    """Return the next dream, if nothing changes; else WAIT with the reason why none is foreseen."""
    context = TriggerContext(now, history, pending, thresholds)
    dreams = list(_dreams(context))
    if dreams:
        return min(dreams, key=lambda decision: decision.at)
    return replace(next(_skips(context)), action=Action.WAIT)


def work(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision | None:
    """Return what to do now, or WAIT with the moment of the next dream or pass; None when neither is foreseen.

    For who records no skips, because nobody watches while a workspace rests.
    """
    context = TriggerContext(now, history, pending, thresholds)
    expected = [*_dreams(context), *_passes(context)]
    for decision in expected:
        if decision.at <= now:
            return replace(decision, detail=_recorded_detail(context, decision), at=now)
    first = min(expected, key=lambda decision: decision.at, default=None)
    return replace(first, action=Action.WAIT) if first is not None else None


def phase(workspace: str) -> float:
    """Return a workspace's place in the jitter, in [0, 1): the same for one path, and spread evenly over many."""
    digest = hashlib.sha256(workspace.encode("utf-8", "surrogateescape")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


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
        detail = f"{expected}, if {more} more {'note comes' if more == 1 else 'notes come'}"
        detail = f"{detail}, {cause}" if cause else detail
    yield Decision(Action.SKIP, reason, detail, at)


def _recorded_detail(context: TriggerContext, decision: Decision) -> str:
    """Return the detail for the ledger, which counts equal skips by it."""
    if decision.action is Action.PASS:
        return decision.detail
    if decision.action is Action.DREAM:
        return f"{context.pending.new} new"
    return f"{context.pending.new} new, {max(context.thresholds.min_chunks, 1)} wanted"
