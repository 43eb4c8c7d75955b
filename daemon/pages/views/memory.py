"""Memory: MEMORY.md as the agent reads it, line by line, with what is known of each; the owner's hand on it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from pydantic import Field

from daemon.api.operations.lines import ChangeOfLine, change_lines, lines
from daemon.api.operations.request import Request
from daemon.dream.lines.standing import Line, SectionLines, StandingLines
from daemon.pages.page import Action, Ask, Done, Page, Replies
from daemon.pages.templates import counted, short, weight
from daemon.pages.undo import TakeBack, take_back, undo_of
from graphs.review import LineAction
from state.document.document import SectionName

# So many headings and lines at once, or fewer where they are long; what a line has on the page beside its words, and
# a pointer beside that.
_MOST, _MOST_BYTES, _LINE_BYTES, _POINTER_BYTES = 80, 46_000, 800, 500
_SAID = {
    LineAction.EDIT: "The line says it in your words",
    LineAction.DELETE: "The line is gone, and is not written again",
    LineAction.PIN: "The line is pinned: no dream changes it",
    LineAction.UNPIN: "The line is not pinned any more",
    LineAction.WRONG: "What was wrong holds no longer, and is not written again",
    LineAction.ADD: "The line stands in MEMORY.md",
}


class Part(Request):
    """Which part of the file."""

    start: int = Field(default=0, ge=0, le=10**9)


def _read(ask: Ask, query: Part) -> Replies:
    return {"lines": ask(lines, start=query.start, limit=_MOST)}


def _view(replies: Replies, query: Part, _: datetime) -> Mapping[str, object]:
    found: StandingLines = replies["lines"]
    shown = _fitting(found.sections)
    left_out = sum(_places(one) for one in found.sections) - sum(_places(one) for one in shown)
    # Where the part begins within a section, its heading is shown and is none of these places.
    asked = _MOST if found.more else sum(_places(one) for one in found.sections) - (query.start > 0)
    return {
        "shown": shown,
        "more": found.more + left_out,
        "next_start": query.start + max(1, asked - left_out),
        "sections": [name.value for name in SectionName],
    }


def _fitting(sections: Sequence[SectionLines]) -> list[SectionLines]:
    """Return as many of the first lines as fit onto a page; one at least."""
    left, found = _MOST_BYTES, list[SectionLines]()
    for section in sections:
        lines = list[Line]()
        for line in section.lines:
            left -= (
                _LINE_BYTES
                + _POINTER_BYTES * bool(line.crystal)
                + weight(line.text)
                + weight(short(line.superseded_by))
            )
            if left < 0 and (found or lines):
                return [*found, replace(section, lines=tuple(lines))] if lines else found
            lines.append(line)
        found.append(replace(section, lines=tuple(lines)))
    return found


def _places(section: SectionLines) -> int:
    return len(section.lines) + bool(section.heading)


def _change(ask: Ask, one: ChangeOfLine) -> Done:
    done = ask(change_lines, changes=(one,))
    also = "; the file was saved in the same moment, and holds both" if done.merged else ""
    return Done(
        f"{_SAID[one.action]}. MEMORY.md is at version {done.version}{also}.",
        f"{one.action.value} {one.line or 'a line'}",
        done.version,
        undo_of("memory", done.version),
    )


def _undo(ask: Ask, form: TakeBack) -> Done:
    """Restore the version before an act; the one that stood can be brought back the same way."""
    done = take_back(ask, form)
    waits = f" {counted(done.pending, 'note waits', 'notes wait')} for the next dream." if done.pending else ""
    return Done(
        f"Undone: MEMORY.md is as it was in version {form.version}; that is version {done.dream.number} now.{waits}",
        f"version {form.version}",
        done.dream.number,
        undo_of("memory", done.dream.number),
    )


PAGE = Page(
    "memory",
    "Memory",
    _read,
    Part,
    view=_view,
    live=True,
    actions=(
        Action("change", ChangeOfLine, _change, long=True),
        Action("undo", TakeBack, _undo, long=True),
    ),
)
