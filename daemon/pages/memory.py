"""Memory: the lines of MEMORY.md, and one of them with where it comes from."""

from typing import Annotated, Any

from pydantic import Field

from daemon.api.operations.memory import ChangeOfLine, change_lines, lines
from daemon.api.operations.search import memory_why
from daemon.dream.standing import Line, StandingLines
from daemon.pages.page import UNDO, Act, Ask, Done, Page, Start, undo_of
from daemon.pages.templates import mark
from daemon.pages.today import Beside
from graphs.review import LineAction
from state.document.sections import SectionName
from state.errors import NotFoundError

# So many headings and lines at once.
_LINES = 60
_CHANGED = {
    LineAction.EDIT: "The line says it in your words",
    LineAction.DELETE: "The line is gone, and is not written again",
    LineAction.PIN: "The line is pinned: no dream changes it",
    LineAction.UNPIN: "The line is not pinned any more",
    LineAction.ADD: "The line is in MEMORY.md",
}


def _memory(ask: Ask, start: Start = 0) -> Beside:
    ask(lines, start=start, limit=_LINES)
    return {"sections": [name.value for name in SectionName], "next_start": start + _LINES}


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
    history = next((one for one in known if one.id == id), None)
    return {"section": section, "line": line, "history": history}


def _standing(standing: StandingLines, id_: str, marked: str) -> tuple[str, Line | None]:
    """Return the line that is meant with its section, if it is in the file."""
    for section in standing.sections:
        for line in section.lines:
            if line.id == id_ if id_ else marked and not line.id and mark(line.text) == marked:
                return section.name, line
    return "", None


def _change_line(ask: Ask, **fields: Any) -> Done:  # noqa: ANN401 - the fields of ChangeOfLine
    one = ChangeOfLine(**fields)
    done = ask(change_lines, changes=(one,))
    also = "; the file was saved in the same moment, and holds both" if done.merged else ""
    said = f"{_CHANGED[one.action]}. MEMORY.md is at version {done.version}{also}."
    return Done(said, f"{one.action.value} {one.line or 'a line'}", done.version, undo_of(done.version))


_EDITING = (Act(_change_line, "change", long=True, own_form=ChangeOfLine), UNDO)
MEMORY = Page("memory", "Memory", _memory, acts=_EDITING, live=True)
LINE = Page("line", "Line", _line, under="memory")
