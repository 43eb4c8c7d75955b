"""When a workspace dreams, consolidates or waits: one pure decision over what is known of it at a moment.

Every trigger has a moment. One that has come fires, the first of them in this order; `due` says which, or until when
there is nothing to do:

    session end   an agent said so; one new note is enough, and a person waits for it
    first breath  MEMORY.md has no sections yet; one is enough, if the notes are many or long
    floor         a note has waited for 24 hours; one is enough
    pressure      the log is full; one is enough, because few long notes fill it as well
    catch-up      the interval ran out while nobody watched; min_chunks are wanted
    interval      the interval ran out; min_chunks are wanted, else the look is skipped until the interval's next end
    idle          nothing was appended for a while; min_chunks are wanted

The reasons that want the least stand first, so that a dream is never refused for a reason that wants more. With
nothing new none of them dreams. A consolidation pass comes after dreams (a dream reads what is new by itself) and
before a skip (what it reads may be what was wanted).

Three things put a dream off: the time after a failed one, an open ceiling, a pause since the last one began. They put
off the floor too, and they end by themselves. A proposal that waits for its owner has no end of its own; then looks
are skipped, and say so.

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

from daemon.service.triggers import LEAST, History, Pending, Thresholds, TriggerContext, later, look, triggers
from state.dream import Reason

__all__ = ["Action", "Decision", "History", "Pending", "Thresholds", "due", "phase", "upcoming"]


class Action(StrEnum):
    """What is to be done now. A skip is written into the ledger; waiting is not."""

    DREAM = "dream"
    PASS = "pass"  # noqa: S105 - no password
    SKIP = "skip"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, why, and when.

    `at` is now, or for WAIT the moment until which nothing will fire; `reason` and `detail` then say what is expected
    at that moment, in words for a person. For SKIP `detail` is what the ledger gets.
    """

    act: Action
    reason: Reason | None
    detail: str
    at: datetime


def due(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision:
    """What this workspace should do now.

    After the act is stamped into the history, asking again at the same moment gives another act or WAIT, never the
    same one. For WAIT `at` is later than now, and nothing fires before it unless the input changes.
    """
    case = TriggerContext(now, history, pending, thresholds)
    expected = [*_dreams(case), *_passes(case), *_skips(case)]
    for one in expected:
        if one.at <= now:
            return replace(one, detail=_recorded(case, one), at=now)
    first = min(expected, key=lambda one: one.at)
    return replace(first, act=Action.WAIT)


def upcoming(now: datetime, history: History, pending: Pending, thresholds: Thresholds) -> Decision:
    """The next dream, if nothing changes; else WAIT with the reason why none is foreseen."""
    case = TriggerContext(now, history, pending, thresholds)
    dreams = list(_dreams(case))
    if dreams:
        return min(dreams, key=lambda one: one.at)
    return replace(next(_skips(case)), act=Action.WAIT)


def phase(workspace: str) -> float:
    """A workspace's place in the jitter, in [0, 1): always the same for one path, and spread evenly over many."""
    digest = hashlib.sha256(workspace.encode("utf-8", "surrogateescape")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


def _dreams(case: TriggerContext) -> Iterator[Decision]:
    """The dreams that will come if nothing changes, the most urgent first, each with its moment (now or later)."""
    for reason, moment, words in triggers(case):
        at, held = case.held(moment)
        yield Decision(Action.DREAM, reason, f"{words}, {held}" if held else words, at)


def _passes(case: TriggerContext) -> Iterator[Decision]:
    """The consolidation passes: for a spike, at the end of a session that is still unread, every so often."""
    pending, history, limits = case.pending, case.history, case.thresholds
    if pending.dopamine > limits.dopamine_spike or pending.cortisol > limits.cortisol_spike:
        at = case.now
        if history.last_spike_pass is not None:
            last = case.past(history.last_spike_pass) or case.awake
            at = max(at, later(last, max(limits.spike_every, LEAST)))
        yield Decision(Action.PASS, Reason.SPIKE, "a consolidation pass for a spike", at)
    if not pending.changed:
        return
    ended = pending.session_ended
    if ended is not None and (history.last_pass is None or history.last_pass < ended):
        yield Decision(
            Action.PASS, Reason.SESSION_END, "a consolidation pass at the end of a session", max(case.now, ended)
        )
    if history.last_pass is None:
        at = later(case.awake, case.jitter)
    else:
        at = later(case.past(history.last_pass) or case.awake, max(limits.passes_every, LEAST))
    yield Decision(Action.PASS, None, "a consolidation pass", max(case.now, at))


def _skips(case: TriggerContext) -> Iterator[Decision]:
    """The next look, if it would come to nothing; in words, what would have to change."""
    if case.is_ready and not case.history.proposal:
        return
    reason, moment, words = look(case)
    at, held = case.held(moment)
    if case.history.proposal:
        detail = _recorded(case, Decision(Action.SKIP, reason, "", at))
    elif case.pending.new < 1:
        detail = "nothing is pending"
    else:
        more = max(case.thresholds.min_chunks, 1) - case.pending.new
        detail = f"{words}, if {more} more {'note comes' if more == 1 else 'notes come'}"
        detail = f"{detail}, {held}" if held else detail
    yield Decision(Action.SKIP, reason, detail, at)


def _recorded(case: TriggerContext, one: Decision) -> str:
    """What is written down about an act; equal words for equal skips, which the ledger counts."""
    if one.act is Action.PASS:
        return one.detail
    if one.act is Action.DREAM:
        return f"{case.pending.new} new"
    if case.history.proposal:
        return f"proposal {case.history.proposal} waits for 'dreamd review'"
    return f"{case.pending.new} new, {max(case.thresholds.min_chunks, 1)} wanted"
