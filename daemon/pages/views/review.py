"""Review: what waits for the owner, change by change, and whole dreams; approve, edit, reject, take it back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Literal

from pydantic import Field

from daemon.api.operations.changes import ChangesDecided, ChangeToReview, Numbers, OwnText, changes
from daemon.api.operations.changes import decide as decide_changes
from daemon.api.operations.dreams import dream_status
from daemon.api.operations.request import Request
from daemon.api.operations.versions import decide as decide_proposal
from daemon.api.operations.versions import diff, proposals, unified_diff
from daemon.pages.page import Action, Ask, Done, Page, Replies, Undo
from daemon.pages.templates import weight
from daemon.pages.undo import TakeBack, take_back, undo_of
from state.dream import Decision
from state.text.word_diff import word_diff

# So much at once, and what a change and a changed word have on the page beside their text. Nobody decides on what is
# not shown.
_MOST_BYTES, _CHANGE_BYTES, _MARK_BYTES, _DIFF_CHARACTERS = 44_000, 3_300, 80, 20_000


class FromChange(Request):
    """From which change on."""

    number: int = Field(default=0, ge=0, le=10**9)


def _read(ask: Ask, _: FromChange) -> Replies:
    return {"changes": ask(changes), "proposals": ask(proposals)}


def _view(replies: Replies, query: FromChange, _: datetime) -> Mapping[str, object]:
    changes: Sequence[ChangeToReview] = replies["changes"].changes
    dreams = replies["proposals"].dreams
    earlier = [one for one in changes if one.number < query.number]
    if len(earlier) == len(changes):  # those that were meant are decided
        earlier = []
    # Whole dreams stand before every change, and not again on the pages after the first.
    before = len(dreams) if changes and changes[0].number <= query.number <= changes[-1].number else 0
    shown = dreams[before:]
    diffs = {dream.id: unified_diff(dream.before, dream.after, "now", f"version {dream.number}") for dream in shown}
    left = _MOST_BYTES - sum(weight(diff[:_DIFF_CHARACTERS]) for diff in diffs.values())
    every = _fitting(changes[len(earlier) :], left, 0 if shown else 1)
    later = changes[len(earlier) + len(every) :]
    return {
        "dreams": shown,
        "earlier": len(earlier) + before,
        "more": len(later),
        "next_number": later[0].number if later else 0,
        "waiting": _sections(every, Decision.WAITING),
        "applied": _sections(every, Decision.APPLIED),
        "diffs": diffs,
        "most": _DIFF_CHARACTERS,
    }


def _fitting(changes: Sequence[ChangeToReview], left: int, least: int) -> Sequence[ChangeToReview]:
    """Return as many of the first changes as fit onto a page; `least` at least."""
    for place, one in enumerate(changes):
        texts = (one.new, one.new, one.why, *one.old, *(piece.text for piece in one.evidence))
        marked = sum(part.changed for side in word_diff("\n".join(one.old), one.new) for part in side)
        left -= _CHANGE_BYTES + _MARK_BYTES * marked + sum(map(weight, texts))
        if left < 0:
            return changes[: max(least, place)]
    return changes


def _sections(every: Sequence[ChangeToReview], decision: Decision) -> list[tuple[str, list[ChangeToReview]]]:
    """Return the changes of this kind by section, in the order in which the sections first occur."""
    order = list(dict.fromkeys(one.section for one in every))
    chosen = sorted((one for one in every if one.decision is decision), key=lambda one: order.index(one.section))
    return [(section.value, list(group)) for section, group in groupby(chosen, key=lambda one: one.section)]


class DecideForm(Request):
    """A decision on changes, by their numbers; `text` are the owner's own words for the only one."""

    verdict: Literal["approve", "decline", "accept", "undo"]
    number: Numbers = Field(min_length=1)
    text: str = Field(default="", max_length=600)


def _decide(ask: Ask, form: DecideForm) -> Done:
    own = (OwnText(number=form.number[0], text=form.text),) if form.text and len(form.number) == 1 else ()
    decided: dict[str, Numbers] = {form.verdict: form.number}
    done = ask(decide_changes, **decided, texts=own)
    return Done(_said(done), _about(form.verdict, form.number), done.version, _undo(done))


def _said(done: ChangesDecided) -> str:
    parts = [
        f"{_numbers(numbers)} {word}"
        for word, numbers in (
            ("approved", done.approved),
            ("rejected", done.declined),
            ("accepted", done.accepted),
            ("undone: the old text is back", done.undone),
            ("could not apply: the lines are no longer what they were", done.outdated),
        )
        if numbers
    ]
    parts += [f"{one.number} was refused by {one.refusal.guard}: {one.refusal.figures}" for one in done.refused]
    version = f" MEMORY.md is at version {done.version}." if done.version else ""
    return f"{'; '.join(parts) or 'nothing was decided'}.{version}"


def _numbers(numbers: Sequence[int]) -> str:
    what = "Change" if len(numbers) == 1 else "Changes"
    shown = ", ".join(map(str, numbers[:10]))
    return f"{what} {shown}" if len(numbers) <= 10 else f"{what} {shown} and {len(numbers) - 10} more"


def _about(verdict: str, numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    return f"{verdict} {', '.join(map(str, numbers[:20]))}{more}"


def _undo(done: ChangesDecided) -> Undo | None:
    """Return what takes it back: a version by the one before it, another decision by opening the changes again."""
    if done.version is not None:
        return undo_of("review", done.version)
    back = done.declined or done.accepted
    return Undo("review", "reopen", {"number": back}) if back else None


class Numbered(Request):
    """Changes by their numbers."""

    number: Numbers = Field(min_length=1)


def _reopen(ask: Ask, form: Numbered) -> Done:
    ask(decide_changes, reopen=form.number)
    return Done(f"{_numbers(form.number)} open again.", _about("reopen", form.number))


def _take_back(ask: Ask, form: TakeBack) -> Done:
    done = take_back(ask, form)
    return Done(
        f"Undone: MEMORY.md is as it was in version {form.version}; what was decided since is open again.",
        f"version {form.version}",
        done.dream.number,
    )


class DecideProposal(Request):
    """A decision on a whole dream."""

    dream: str = Field(min_length=1, max_length=100)
    verdict: Literal["approve", "decline"]


def _decide_proposal(ask: Ask, form: DecideProposal) -> Done:
    # What was written into the file since the last version becomes a part of this one: an undo would take it along.
    written = form.verdict == "approve" and ask(dream_status).version > 0 and ask(diff, file=True).diff
    done = ask(decide_proposal, dream=form.dream, verdict=form.verdict)
    undo = None if written else undo_of("review", done.version)
    said = f"The dream is version {done.version}." if done.version else "The dream was rejected; its notes wait."
    return Done(said, f"{form.verdict} {done.dream}", done.version, undo)


PAGE = Page(
    "review",
    "Review",
    _read,
    FromChange,
    _view,
    live=True,
    actions=(
        Action("decide", DecideForm, _decide, long=True),
        Action("reopen", Numbered, _reopen, long=True),
        Action("undo", TakeBack, _take_back, long=True),
        Action("proposal", DecideProposal, _decide_proposal, long=True),
    ),
)
