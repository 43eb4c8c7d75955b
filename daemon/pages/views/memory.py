"""Memory: MEMORY.md as the agent reads it, line by line; one line and where it comes from; the owner's hand on it."""

from typing import Annotated, Any

from pydantic import Field

from daemon.api.operations.lines import ChangeOfLine, change_lines, lines
from daemon.api.operations.search import WhyReply, memory_why
from daemon.dream.lines.standing import Line, StandingLines
from daemon.pages.acts import UNDO, undo_of
from daemon.pages.forms import Start
from daemon.pages.page import Act, Ask, Done, Page, Shown
from daemon.pages.templates import mark
from graphs.review import LineAction
from state.document.document import SectionName
from state.errors import NotFoundError

# So many headings and lines at once.
_MOST = 60
_SAID = {
    LineAction.EDIT: "The line says it in your words",
    LineAction.DELETE: "The line is gone, and is not written again",
    LineAction.PIN: "The line is pinned: no dream changes it",
    LineAction.UNPIN: "The line is not pinned any more",
    LineAction.WRONG: "What was wrong holds no longer, and is not written again",
    LineAction.ADD: "The line is in MEMORY.md",
}


def _read(ask: Ask, start: Start = 0) -> Shown:
    beside = {"sections": [name.value for name in SectionName], "next_start": start + _MOST}
    return Shown({"lines": ask(lines, start=start, limit=_MOST)}, beside)


def _read_line(
    ask: Ask,
    id: Annotated[str, Field(pattern=r"^(?:L\d{1,9})?$")] = "",
    mark: Annotated[str, Field(pattern="^(?:[0-9a-f]{20})?$")] = "",
) -> Shown:
    """Read a line by its id, or one that no version knows yet by the mark of its text."""
    standing = ask(lines)
    section, line = _standing(standing, id, mark)
    if not id and line is None:
        raise NotFoundError("this line is not in MEMORY.md any more", "go back to the memory")
    # Of a line that no version knows there is nothing to tell but that it is there.
    why = ask(memory_why, text=id) if id else WhyReply(())
    history = next((one for one in why.lines if one.id == id), None)
    return Shown({"lines": standing, "memory_why": why}, {"section": section, "line": line, "history": history})


def _standing(standing: StandingLines, id_: str, marked: str) -> tuple[str, Line | None]:
    """Return the line that is meant with its section, if it is in the file."""
    for section in standing.sections:
        for line in section.lines:
            if line.id == id_ if id_ else marked and not line.id and mark(line.text) == marked:
                return section.name, line
    return "", None


def _change(ask: Ask, **fields: Any) -> Done:  # noqa: ANN401 - the fields of ChangeOfLine
    one = ChangeOfLine(**fields)
    done = ask(change_lines, changes=(one,))
    also = "; the file was saved in the same moment, and holds both" if done.merged else ""
    said = f"{_SAID[one.action]}. MEMORY.md is at version {done.version}{also}."
    return Done(said, f"{one.action.value} {one.line or 'a line'}", done.version, undo_of(done.version))


_ACTS = (Act(_change, "change", long=True, own_form=ChangeOfLine), UNDO)
PAGE = Page("memory", "Memory", _read, acts=_ACTS, live=True)
LINE = Page("line", "Line", _read_line, under="memory")
