"""Operations on changes of lines that await the owner's approval or were applied: list and decide them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Request
from daemon.api.text import decided_text, review_text
from daemon.config.settings import Config
from daemon.dream.review import RefusedChange, decide_changes, open_changes
from daemon.explain.crystal import Evidence
from state.document.operations import Action
from state.document.sections import SectionName
from state.dream import Decision
from state.errors import UsageError
from state.stores.crystals.crystals import Crystals
from state.stores.database.tables import Change

Number = Annotated[int, Field(ge=1, le=10**9)]
Numbers = Annotated[tuple[Number, ...], Field(max_length=10_000)]


@dataclass(frozen=True, slots=True)
class ChangeToReview:
    """A change of MEMORY.md to review. `new` replaces the `old` lines (empty: a pointer does).

    `decision` is "waiting", or "applied" if it can be undone. `why` names the rule that makes it wait. `outdated`:
    its lines have changed since. After `until` it becomes a note. For a line on which several workspaces agree, the
    evidence's speaker is the folder of the workspace that has it.
    """

    number: int
    decision: Decision
    action: Action
    section: SectionName
    old: tuple[str, ...]
    new: str
    evidence: tuple[Evidence, ...]
    why: str
    dream: str
    at: datetime
    until: datetime
    outdated: bool


@dataclass(frozen=True, slots=True)
class ChangesToReview:
    """The waiting changes, then the applied ones, each by number."""

    changes: tuple[ChangeToReview, ...]


@operation("changes", reads=True, text=review_text)
def changes(access: WorkspaceAccess) -> ChangesToReview:
    """Return the changes of single lines that wait for the owner, and the latest ones that applied."""
    with access.read() as store:
        return ChangesToReview(tuple(_to_review(store.config, store.crystals, *one) for one in open_changes(store)))


def _to_review(config: Config, crystals: Crystals, one: Change, outdated: bool) -> ChangeToReview:
    change, operation = one.change, one.change.operation
    known = crystals.get([piece.crystal for piece in change.evidence if piece.crystal])
    speakers = {crystal.id: crystal.speaker for crystal in known}
    cited = [
        Evidence(
            id=piece.crystal,
            text=piece.text,
            trust=piece.trust.value,
            speaker=piece.about if one.is_agreement else speakers.get(piece.crystal, ""),
            heard=piece.heard,
            at=piece.at,
        )
        for piece in change.evidence
    ]
    cited += [Evidence("", line.text, trust=line.trust.value, at=line.born_at) for line in change.beside]
    return ChangeToReview(
        number=one.number,
        decision=one.decision,
        action=operation.action,
        section=operation.section,
        old=tuple(line.text for line in change.lines),
        new="" if operation.action is Action.EVICT else operation.text,
        evidence=tuple(cited),
        why=change.figures,
        dream=one.dream,
        at=one.at,
        until=one.at + timedelta(days=config.dream.approve_days),
        outdated=outdated,
    )


class OwnText(Request):
    """The owner's own text for a change."""

    number: Number
    text: str = Field(min_length=1, max_length=600, description="The line, in place of what was proposed")


@dataclass(frozen=True, slots=True)
class ChangesDecided:
    """The results of the decisions. `version` is the one they created, if any.

    `outdated` changes were not applied, as their lines have changed since; `refused` ones still wait.
    """

    version: int | None
    approved: tuple[int, ...]
    declined: tuple[int, ...]
    accepted: tuple[int, ...]
    undone: tuple[int, ...]
    reopened: tuple[int, ...]
    outdated: tuple[int, ...]
    refused: tuple[RefusedChange, ...]


@operation("decide_changes", long=True, text=decided_text)
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
    wishes = {
        Decision.APPROVED: approve,
        Decision.DECLINED: decline,
        Decision.ACCEPTED: accept,
        Decision.UNDONE: undo,
    }
    decisions = dict[int, Decision]()
    for decision, number in ((decision, number) for decision, numbers in wishes.items() for number in numbers):
        if decisions.setdefault(number, decision) is not decision:
            raise UsageError(f"change {number} is decided twice", "decide it once")
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
