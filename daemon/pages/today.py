"""Today: what the first page shows, what is above every page, and what wants its owner's word."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.operations.dreams import dream_now, dream_status
from daemon.api.operations.journal import (
    ChangeName,
    Numbers,
    answer_proposals,
    answered_text,
    changes,
    proposals,
    undo_changes,
    undone_text,
)
from daemon.api.operations.signals import current_mood
from daemon.pages.page import UNDO, Act, Ask, Done, Page, Start, undo_of

Beside = Mapping[str, object]


def _now(ask: Ask) -> Beside:
    ask(dream_status)
    ask(current_mood)
    return {}


def _frame(ask: Ask, shown: str = "") -> Beside:  # noqa: ARG001 - for the template
    """Read what is above every page: where one is, what waits, whether it dreams."""
    ask(dream_status)
    return {}


def _dream(ask: Ask) -> Done:
    """Ask for a dream; the page shows how it goes."""
    done = ask(dream_now, wait=False)
    if done.outcome is None:
        return Done("A dream was asked for: it shows here as it runs.")
    number = done.outcome.dream.number
    return Done(f"It dreamt: MEMORY.md is at version {number}.", version=number)


DREAM = Act(_dream, "dream", long=True)
NOW = Page("now", "Now", _now, acts=(DREAM,), live=True)
FRAME = Page("frame", "Frame", _frame)


# ------------------------------------------------------------------------------------------------ review

# So many at once; what waits comes first.
_WAITING, _LATEST = 60, 10
Chosen = Annotated[Numbers, Field(min_length=1)]


def _review(ask: Ask, number: Start = 0) -> Beside:
    """Read what waits from the proposal `number` on, and the latest changes."""
    waiting = [one for one in ask(proposals).proposals if one.number >= number]
    ask(changes, limit=_LATEST)
    shown = waiting[:_WAITING]
    order = list(dict.fromkeys(one.section for one in shown))
    chosen = sorted(shown, key=lambda one: order.index(one.section))
    return {
        "every": [one.number for one in shown],
        "sections": [(section.value, list(group)) for section, group in groupby(chosen, key=lambda one: one.section)],
        "wait": waiting[_WAITING:],
    }


def _answer(ask: Ask, verdict: Literal["accept", "decline"], number: Chosen) -> Done:
    """Accept or decline proposals."""
    answers: dict[str, Numbers] = {verdict: number}
    done = ask(answer_proposals, **answers)
    return Done(answered_text(done), f"{verdict} {_listed(number)}", done.version, undo_of(done.version))


def _take_back(ask: Ask, name: ChangeName) -> Done:
    """Undo a change of any version."""
    done = ask(undo_changes, changes=(name,))
    return Done(undone_text(done), f"undo {name}", done.version, undo_of(done.version))


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    return f"{', '.join(map(str, numbers[:20]))}{more}"


_ANSWERS = (Act(_answer, "answer", long=True), Act(_take_back, "take_back", long=True), UNDO)
REVIEW = Page("review", "Review", _review, acts=_ANSWERS, live=True)
