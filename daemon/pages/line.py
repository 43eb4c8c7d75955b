"""Line: a line of MEMORY.md, what it rests on, its values through time, its use, and what to do about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from daemon.api.operations.journal import proposals
from daemon.api.operations.memory import lines
from daemon.api.operations.search import memory_why
from daemon.dream.standing import Line, StandingLines
from daemon.journal.crystal import Evidence
from daemon.journal.story import FormerValue, LineStory
from daemon.pages.page import Ask, Page
from daemon.pages.templates import mark
from daemon.pages.today import Beside
from state.changes.values import Span
from state.document.operations import Why
from state.dream import OWNERS, OWNERS_EDITS
from state.errors import NotFoundError

# Dots are drawn on so wide a line, the last ones only, and not nearer to each other than their labels are long.
_WIDTH, _MOST_DOTS, _APART = 320, 5, 66
_DEEDS = {
    Why.ADDED: "Learnt",
    Why.EVICTED: "Put away",
    Why.ANSWERED: "Answered",
    Why.DELETED: "Deleted",
    Why.PINNED: "Pinned or unpinned",
    Why.UNDONE: "Undone",
}


@dataclass(frozen=True, slots=True)
class Dot:
    """A value of a line as it is drawn, `x` from the left."""

    x: int
    value: FormerValue


def _line(
    ask: Ask,
    id: Annotated[str, Field(pattern=r"^(?:L\d{1,9})?$")] = "",
    mark: Annotated[str, Field(pattern="^(?:[0-9a-f]{20})?$")] = "",
) -> Beside:
    """Read a line by its id, or one that no version knows yet by the mark of its text."""
    section, line = _standing(ask(lines), id, mark)
    if not id and line is None:
        raise NotFoundError("this line is not in MEMORY.md any more", "go back to the memory")
    # Of a line that no version knows there is nothing to tell but that it is there.
    known = ask(memory_why, text=id).lines if id else ()
    story = next((one for one in known if one.id == id), None)
    waiting = ask(proposals).proposals if line is not None and line.proposed else ()
    text, spans = (line.text, line.unsupported) if line else (story.text, ()) if story else ("", ())
    return {
        "section": section,
        "line": line,
        "story": story,
        "parts": list(_parts(text, spans)),
        "notes": _notes(story.evidence) if story else [],
        "owners": story is None or (story.writing is not None and story.writing.cause in OWNERS_EDITS),
        "proposal": next((one for one in waiting if line is not None and one.number == line.proposed), None),
        "dots": _dots(story),
        "deeds": _DEEDS,
        "causes_of_owner": OWNERS,
    }


def _standing(standing: StandingLines, id_: str, marked: str) -> tuple[str, Line | None]:
    """Return the line that is meant with its section, if it is in the file."""
    for section in standing.sections:
        for line in section.lines:
            if line.id == id_ if id_ else marked and not line.id and mark(line.text) == marked:
                return section.name, line
    return "", None


def _parts(text: str, unsupported: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    """Yield the text in parts, each with whether no evidence has it."""
    end = 0
    for span in unsupported:
        yield text[end : span.start], False
        yield text[span.start : span.end], True
        end = span.end
    yield text[end:], False


def _notes(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return what was said, the newest first, without what only a part of the evidence was made of."""
    derived_from = {parent for piece in evidence for parent in piece.parents}
    said = [one for one in evidence if one.at is not None and one.id not in derived_from]
    return sorted(said, key=lambda one: str(one.at), reverse=True)


def _dots(story: LineStory | None) -> list[Dot]:
    """Return the last values in the order of time, and as far from each other as time allows."""
    values = story.values[-_MOST_DOTS:] if story else ()
    if not values:
        return []
    room, span = _WIDTH - _APART * (len(values) - 1), max(values[-1].at - values[0].at, timedelta(seconds=1))
    shares = ((one.at - values[0].at) / span for one in values)
    return [
        Dot(int(_APART * place + room * share), one)
        for place, (one, share) in enumerate(zip(values, shares, strict=True))
    ]


LINE = Page("line", "Line", _line, under="memory")
