"""Plan application: archives and promotes the items that a policy's plan names, in the caller's transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from state.crystals.crystal import Origin, crystal_id
from state.sessions.ids import promoted_id
from state.sessions.importance import score
from state.sessions.item import Item
from state.sessions.policies.by_name import policy_of
from state.sessions.policies.policy import Action, Plan, Step
from state.stores.sessions.events import EventKind
from state.stores.sessions.outbox import Promotion
from state.stores.sessions.relations import Relation
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions

AUTO = "auto"
MANUAL = "manual"

# Why an item with these relations may not be a crystal; empty when it may.
Veto = Callable[[Item, Sequence[Relation]], str]


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a plan: the steps that were done, and refusals with their reasons."""

    archived: tuple[Step, ...] = ()
    promoted: tuple[Step, ...] = ()
    refused: tuple[tuple[Item, str], ...] = ()


def apply_plan(sessions: Sessions, session: Session, plan: Plan, now: datetime, veto: Veto) -> Applied:
    """Apply the plan. An item that may not be promoted stays, or is archived where it would leave."""
    if not plan.steps:
        return Applied()
    archived, promoted, refused = list[Step](), list[Step](), list[tuple[Item, str]]()
    for step in plan.steps:
        if step.action is Action.ARCHIVE:
            archived.append(step)
            continue
        why = put_in_outbox(sessions, session, step.item, step.reason, AUTO, now, veto)
        if why:
            refused.append((step.item, why))
            if step.leaves:
                archived.append(Step(step.item, Action.ARCHIVE, why, rescue=step.rescue))
        else:
            promoted.append(step)
    sessions.items.leave(session, [(step.item, step.reason, step.rescue) for step in archived], now)
    leaving = [(step.item, step.reason, step.rescue) for step in promoted if step.leaves]
    sessions.items.leave(session, leaving, now, EventKind.LEFT)
    return Applied(tuple(archived), tuple(promoted), tuple(refused))


def put_in_outbox(
    sessions: Sessions, session: Session, item: Item, rule: str, reason: str, now: datetime, veto: Veto
) -> str:
    """Queue an item for promotion (`rule` says by what; `reason`: auto or manual); returns why it may not be, or "".

    An item that is in the outbox, or was delivered, is left as it is.
    """
    if sessions.outbox.of(session, item) is not None:
        return ""
    relations = sessions.relations.of(session, [item]).get(item.seq, ())
    why = veto(item, relations)
    if why:
        last = sessions.events.last(session, item.seq)
        if last is None or (last.action, last.reason) != (EventKind.REFUSED, why):  # it is asked for at every access
            sessions.events.add(session, EventKind.REFUSED, now, [(item.seq, why, {})])
        return why
    lifetime = policy_of(session.policy, session.config).lifetime(item)
    metadata = item.metadata | {
        "promoted_from_working": "true",
        "working_memory_id": item.id,
        "working_memory_session": item.session,
        "promotion_reason": reason,
        "access_count_at_promotion": str(item.access_count),
        "importance_at_promotion": f"{score(item, now, lifetime):g}",
    }
    crystal = crystal_id(Origin.WORKING, item.content)
    record = Promotion(promoted_id(item.id, now), crystal, metadata, reason, now)
    sessions.outbox.put(session, item, record)
    sessions.events.add(session, EventKind.PROMOTED, now, [(item.seq, rule, {"accesses": item.access_count})])
    return ""
