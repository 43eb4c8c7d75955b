"""Operations on single changes that wait for the owner, or that applied: list them, decide on them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Request
from daemon.dream.changes import RefusedChange, decide_changes, open_changes
from daemon.workspace.stores import Store
from state.document.document import SectionName
from state.document.operations import Action
from state.dream import Decision, Evidence
from state.errors import UsageError
from state.stores.database.tables import Change
from state.trust import Trust

Number = Annotated[int, Field(ge=1, le=10**9)]
Numbers = Annotated[tuple[Number, ...], Field(max_length=10_000)]


@dataclass(frozen=True, slots=True)
class SaidBy:
    """Something that a change cites: who said it, and when. `speaker` is empty where it is not known.

    Of what workspaces agree on it is the folder of the workspace that says so. `heard`: its agent had read a page
    ("web") or a tool's answer ("tool") since its owner's last word.
    """

    text: str
    trust: Trust
    at: datetime
    speaker: str
    heard: str = ""


@dataclass(frozen=True, slots=True)
class ChangeToReview:
    """A change of MEMORY.md to look at. `old` lines become `new` (empty: they become a pointer).

    `decision` is waiting, or applied for one that can be undone. `why` says by which rule it waits. `outdated`: its
    lines are no longer what they were. After `until` it becomes a note.
    """

    number: int
    decision: Decision
    action: Action
    section: SectionName
    old: tuple[str, ...]
    new: str
    evidence: tuple[SaidBy, ...]
    why: str
    dream: str
    at: datetime
    until: datetime
    outdated: bool


@dataclass(frozen=True, slots=True)
class ChangesToReview:
    """The changes that wait or applied, in the order of their numbers."""

    changes: tuple[ChangeToReview, ...]


@operation("changes", reads=True)
def changes(access: WorkspaceAccess) -> ChangesToReview:
    """Return the changes of single lines that wait for the owner, and the latest ones that applied."""
    with access.read() as store:
        return ChangesToReview(tuple(_to_review(store, one, outdated) for one, outdated in open_changes(store)))


def _to_review(store: Store, one: Change, outdated: bool) -> ChangeToReview:
    change = one.change
    speakers = {
        crystal.id: crystal.speaker
        for crystal in store.crystals.get([piece.crystal for piece in change.evidence if piece.crystal])
    }
    cited = [
        SaidBy(piece.text, piece.trust, piece.at, _speaker(one, piece, speakers), piece.heard)
        for piece in change.evidence
    ]
    cited += [SaidBy(line.text, line.trust, line.born_at, "") for line in change.beside]
    return ChangeToReview(
        number=one.number,
        decision=one.decision,
        action=change.operation.action,
        section=change.operation.section,
        old=tuple(line.text for line in change.lines),
        new="" if change.operation.action is Action.EVICT else change.operation.text,
        evidence=tuple(cited),
        why=change.figures,
        dream=one.dream,
        at=one.at,
        until=one.at + timedelta(days=store.config.dream.approve_days),
        outdated=outdated,
    )


def _speaker(change: Change, piece: Evidence, speakers: Mapping[str, str]) -> str:
    return piece.about if change.is_agreement else speakers.get(piece.crystal, "")


class OwnText(Request):
    """The owner's own words for a change."""

    number: Number
    text: str = Field(min_length=1, max_length=600, description="The line, in place of what was proposed")


@dataclass(frozen=True, slots=True)
class ChangesDecided:
    """What became of the decisions. `version` is the one that they made, if any.

    `outdated` changes did not apply, since their lines are no longer what they were; `refused` ones wait on.
    """

    version: int | None
    approved: tuple[int, ...]
    declined: tuple[int, ...]
    accepted: tuple[int, ...]
    undone: tuple[int, ...]
    reopened: tuple[int, ...]
    outdated: tuple[int, ...]
    refused: tuple[RefusedChange, ...]


@operation("decide_changes", long=True)
def decide(
    access: WorkspaceAccess,
    approve: Annotated[Numbers, Arg("Changes that wait: they apply, as one version")] = (),
    decline: Annotated[Numbers, Arg("Changes that wait: they are not proposed again")] = (),
    accept: Annotated[Numbers, Arg("Changes that applied: they are right")] = (),
    undo: Annotated[Numbers, Arg("Changes that applied: the old text comes back")] = (),
    reopen: Annotated[
        Numbers, Arg("Changes that were declined or accepted: they wait, or can be undone, again")
    ] = (),
    texts: Annotated[tuple[OwnText, ...], Arg("Other words for changes that are approved", max_length=1_000)] = (),
) -> ChangesDecided:
    """Approve or decline changes that wait, accept or undo those that applied; take such a decision back."""
    decisions = _once(
        (
            *((number, Decision.APPROVED) for number in approve),
            *((number, Decision.DECLINED) for number in decline),
            *((number, Decision.ACCEPTED) for number in accept),
            *((number, Decision.UNDONE) for number in undo),
        )
    )
    if twice := sorted(decisions.keys() & set(reopen)):
        raise UsageError(f"change {twice[0]} is decided and reopened", "do one of them")
    own = {one.number: one.text for one in texts}
    if unknown := sorted(own.keys() - set(approve)):
        raise UsageError(f"there is a text for change {unknown[0]}, which is not approved", "approve it too")
    with access.exclusive() as store:
        done = decide_changes(store, decisions, own, dict.fromkeys(reopen))
    access.mark_changed()
    by_decision = {one: tuple(n for n, decision in done.decided.items() if decision is one) for one in Decision}
    return ChangesDecided(
        version=done.dream.number if done.dream else None,
        approved=by_decision[Decision.APPROVED],
        declined=by_decision[Decision.DECLINED],
        accepted=by_decision[Decision.ACCEPTED],
        undone=by_decision[Decision.UNDONE],
        reopened=tuple(sorted((*by_decision[Decision.WAITING], *by_decision[Decision.APPLIED]))),
        outdated=done.outdated,
        refused=done.refused,
    )


def _once(decided: Iterable[tuple[int, Decision]]) -> dict[int, Decision]:
    """Return the decisions by number. Raise UsageError for two on one change."""
    decisions: dict[int, Decision] = {}
    for number, decision in decided:
        if decisions.setdefault(number, decision) is not decision:
            raise UsageError(f"change {number} is decided twice", "decide it once")
    return decisions
