"""Decision: what a workspace that rests should do, from what its last owner said and what its inbox holds. Pure."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from daemon.service.schedule import Action, Decision, History, Pending, Thresholds, phase, work
from state.codec import decode, encode
from state.dream import Reason
from state.errors import StorageError
from state.stores.fleet.schedule import DueRow, Waiting

# What was interrupted goes on after a moment, in which its worker may end.
_INTERRUPTED_FOR = timedelta(seconds=1)
# What a pass leaves undone in a session is no reason for one after the other.
_BETWEEN_PASSES = timedelta(seconds=30)
# By then whoever forgets has deleted what held it, or is dead; its next owner does it then.
_ERASING_FOR = timedelta(seconds=30)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Facts:
    """What an owner says of a workspace for the time when nobody owns it.

    `interrupted`: since when a dream has begun and not ended, because its worker stopped. `sessions_due`: when the
    working memory of a session wants maintenance. `erasing`: since when something is forgotten that older
    generations still hold, because their deletion is not known to have ended.
    """

    history: History
    pending: Pending
    interrupted: datetime | None = None
    sessions_due: datetime | None = None
    erasing: datetime | None = None


def facts_text(facts: Facts) -> str:
    """Return the facts as the registry keeps them."""
    return encode(facts)


def facts_of(text: str, handle: str, since: datetime) -> Facts:
    """Return the facts in this text; none for a workspace that had no owner yet (""), known `since` then.

    Raise StorageError for a text that another version of dreamd wrote.
    """
    if not text:
        return Facts(History(awake_since=since, schema=False, phase=phase(handle)), Pending())
    return decode(Facts, text, f"the facts of {handle}")


def facts_or_none(text: str, handle: str, since: datetime) -> Facts:
    """Return the facts in this text; none for one that cannot be read."""
    try:
        return facts_of(text, handle, since)
    except StorageError:
        return facts_of("", handle, since)


def continued(history: History, before: History, now: datetime) -> History:
    """Return the history from the folder and from the owner `before`, with no stamp ahead of now.

    A folder that was moved in may have some that are.
    """
    return replace(
        history,
        last_look=_last_of(now, history.last_look, before.last_look),
        last_dream=_last_of(now, history.last_dream, before.last_dream),
        failed_at=_last_of(now, history.failed_at, before.failed_at) if history.failures else history.failed_at,
    )


def foreseen(facts: Facts, now: datetime, thresholds: Thresholds) -> Decision | None:
    """Return what is to be done now, or WAIT with its time; None when nothing is foreseen."""
    if facts.interrupted is not None:
        at = min(facts.interrupted, now) + _INTERRUPTED_FOR
        return Decision(Action.DREAM if at <= now else Action.WAIT, Reason.CATCH_UP, "it was interrupted", at)
    decision = work(now, facts.history, facts.pending, thresholds)
    if decision is not None and decision.action is not Action.WAIT:
        return decision
    return _sooner(decision, _upkeep(facts, now))


def _upkeep(facts: Facts, now: datetime) -> Decision | None:
    """Return what is to be done though nothing is to be dreamt."""
    erasing = facts.erasing
    if erasing is not None:
        at = _moved(min(erasing, now), _ERASING_FOR)
        return Decision(
            Action.PASS if at <= now else Action.WAIT, None, "what was forgotten is deleted", max(at, now)
        )
    sessions, last = facts.sessions_due, facts.history.last_pass
    if sessions is not None and last is not None and last <= now:
        sessions = max(sessions, last + _BETWEEN_PASSES)
    if sessions is None:
        return None
    action = Action.PASS if sessions <= now else Action.WAIT
    return Decision(action, None, "working memory of a session", max(sessions, now))


def _sooner(one: Decision | None, other: Decision | None) -> Decision | None:
    return min((decision for decision in (other, one) if decision is not None), key=lambda it: it.at, default=None)


def decide(row: DueRow, now: datetime, thresholds: Thresholds) -> Decision | None:
    """Return what is to be done with a workspace that rests, and with what waits in its inbox."""
    facts = facts_of(row.facts, row.place.handle, row.waiting.oldest or now)
    return foreseen(replace(facts, pending=with_inbox(facts.pending, row.waiting)), now, thresholds)


def with_inbox(pending: Pending, waiting: Waiting) -> Pending:
    """Return what waits in the workspace and in its inbox together."""
    return replace(
        pending,
        notes=pending.notes + waiting.notes,
        characters=pending.characters + waiting.characters,
        bytes=pending.bytes + waiting.characters,
        new=pending.new + waiting.notes,
        oldest=_first(pending.oldest, waiting.oldest),
        latest=_last(pending.latest, waiting.latest),
        session_ended=_last(pending.session_ended, waiting.session_ended),
        changed=pending.changed or waiting.notes > 0,
    )


def _moved(moment: datetime, by: timedelta) -> datetime:
    """Return the time so much later, or the last one there is."""
    try:
        return moment + by
    except OverflowError:
        return _LAST if by > timedelta(0) else _FIRST


def _last_of(now: datetime, *moments: datetime | None) -> datetime | None:
    return max((at for at in moments if at is not None and at <= now), default=None)


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _last(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)
