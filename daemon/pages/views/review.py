"""Review: what waits for the owner, change by change; approve, edit, reject, take it back."""

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.operations.changes import ChangesDecided, ChangeToReview, Numbers, OwnText, changes
from daemon.api.operations.changes import decide as decide_changes
from daemon.pages.acts import UNDO, undo_of
from daemon.pages.forms import Start
from daemon.pages.page import Act, Ask, Done, Page, Shown, Undo
from state.dream import Decision

# So many changes at once: nobody decides on what is not shown.
_MOST = 10
Chosen = Annotated[Numbers, Field(min_length=1)]


def _read(ask: Ask, number: Start = 0) -> Shown:
    """Read what waits, from this change on."""
    found = ask(changes)
    every = found.changes
    first = next((place for place, one in enumerate(every) if one.number >= number), 0)
    part, later = every[first : first + _MOST], every[first + _MOST :]
    beside = {
        "earlier": first,
        "later": later,
        "kinds": [
            ("To approve", _sections(part, Decision.WAITING), ("Approve", "approve"), ("Reject", "decline")),
            ("Applied", _sections(part, Decision.APPLIED), ("Accept", "accept"), ("Undo", "undo")),
        ],
    }
    return Shown({"changes": found}, beside)


def _sections(every: Sequence[ChangeToReview], decision: Decision) -> list[tuple[str, list[ChangeToReview]]]:
    """Return the changes of this kind by section, in the order in which the sections first occur."""
    order = list(dict.fromkeys(one.section for one in every))
    chosen = sorted((one for one in every if one.decision is decision), key=lambda one: order.index(one.section))
    return [(section.value, list(group)) for section, group in groupby(chosen, key=lambda one: one.section)]


def _decide(
    ask: Ask,
    verdict: Literal["approve", "decline", "accept", "undo"],
    number: Chosen,
    text: Annotated[str, Field(max_length=600)] = "",
) -> Done:
    """Decide on changes; `text` are the owner's own words for the only one."""
    own = (OwnText(number=number[0], text=text),) if text and len(number) == 1 else ()
    decided: dict[str, Numbers] = {verdict: number}
    done = ask(decide_changes, **decided, texts=own)
    if done.version is not None:
        undo = undo_of(done.version)
    else:  # another decision is taken back by opening the changes again
        back = done.declined or done.accepted
        undo = Undo("reopen", {"number": back}) if back else None
    return Done(_said(done), f"{verdict} {_listed(number, 20)}", done.version, undo)


def _said(done: ChangesDecided) -> str:
    outcomes = (
        ("approved", done.approved),
        ("rejected", done.declined),
        ("accepted", done.accepted),
        ("undone: the old text is back", done.undone),
        ("could not apply: the lines are no longer what they were", done.outdated),
    )
    parts = [f"{_named(numbers)} {word}" for word, numbers in outcomes if numbers]
    parts += [f"{one.number} was refused by {one.refusal.guard}: {one.refusal.figures}" for one in done.refused]
    version = f" MEMORY.md is at version {done.version}." if done.version else ""
    return f"{'; '.join(parts) or 'nothing was decided'}.{version}"


def _listed(numbers: Sequence[int], most: int) -> str:
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return f"{', '.join(map(str, numbers[:most]))}{more}"


def _named(numbers: Sequence[int]) -> str:
    return f"{'Change' if len(numbers) == 1 else 'Changes'} {_listed(numbers, 10)}"


def _reopen(ask: Ask, number: Chosen) -> Done:
    ask(decide_changes, reopen=number)
    return Done(f"{_named(number)} open again.", f"reopen {_listed(number, 20)}")


_ACTS = (
    Act(_decide, "decide", long=True),
    Act(_reopen, "reopen", long=True),
    UNDO,
)
PAGE = Page("review", "Review", _read, acts=_ACTS, live=True)
