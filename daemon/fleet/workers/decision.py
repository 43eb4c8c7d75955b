"""Decision: what a workspace that rests should do, from what its last owner said and what its inbox holds. Pure."""

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from daemon.service.schedule import Action, Decision, History, Pending, Thresholds, phase, work
from state.codec import decode, encode
from state.dream import Reason
from state.stores.fleet.schedule import DueRow, Waiting

Value = TypeVar("Value", History, Pending)


@dataclass(frozen=True, slots=True)
class Facts:
    """What an owner says of a workspace for the time when nobody owns it; moments by PostgreSQL's clock.

    `interrupted`: a dream has begun and not ended, because its worker stopped.
    """

    history: History
    pending: Pending
    interrupted: bool = False


def facts_text(facts: Facts, ahead: timedelta) -> str:
    """The facts as the registry keeps them; PostgreSQL's clock is so much `ahead` of this process's."""
    return encode(replace(facts, history=_shifted(facts.history, ahead), pending=_shifted(facts.pending, ahead)))


def facts_of(text: str, handle: str, since: datetime) -> Facts:
    """The facts in this text; of a workspace that had no owner yet (""), which is known `since` then, none."""
    if not text:
        return Facts(History(awake_since=since, schema=False, phase=phase(handle)), Pending())
    return decode(Facts, text, f"the facts of {handle}")


def decide(row: DueRow, now: datetime, thresholds: Thresholds) -> Decision | None:
    """What is to be done with the workspace now; WAIT until when; None: nothing is foreseen."""
    facts = facts_of(row.facts, row.place.handle, row.waiting.oldest or now)
    if facts.interrupted:
        return Decision(Action.DREAM, Reason.CATCH_UP, "a dream was interrupted", now)
    return work(now, facts.history, with_inbox(facts.pending, row.waiting), thresholds)


def with_inbox(pending: Pending, waiting: Waiting) -> Pending:
    """What waits in the workspace and in its inbox together."""
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


def _shifted(value: Value, ahead: timedelta) -> Value:
    moments = ((one.name, getattr(value, one.name)) for one in fields(value))
    shifted: dict[str, Any] = {name: at + ahead for name, at in moments if isinstance(at, datetime)}
    return replace(value, **shifted)


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _last(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((at for at in (one, other) if at is not None), default=None)
