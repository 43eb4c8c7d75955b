"""Line: one line of MEMORY.md, where it comes from, and the owner's hand on it; beside the memory, or alone."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from daemon.api.operations.lines import lines
from daemon.api.operations.request import Request
from daemon.api.operations.search import WhyReply, memory_why
from daemon.dream.lines.standing import Line, StandingLines
from daemon.pages.page import Ask, Page, Replies
from daemon.pages.templates import mark
from daemon.pages.views import memory
from state.errors import NotFoundError


class Which(Request):
    """A line, by its id; one that no version knows yet by the mark of its text."""

    id: str = Field(default="", max_length=20, pattern=r"^(?:L\d{1,9})?$")
    mark: str = Field(default="", pattern="^(?:[0-9a-f]{20})?$")


def _read(ask: Ask, query: Which) -> Replies:
    standing = ask(lines)
    if not query.id and _standing(standing, query) is None:
        raise NotFoundError("this line does not stand in MEMORY.md any more", "go back to the memory")
    # Of a line that no version knows there is nothing to tell but that it stands.
    why = ask(memory_why, text=query.id) if query.id else WhyReply(())
    return {"lines": standing, "memory_why": why}


def _view(replies: Replies, query: Which, _: datetime) -> Mapping[str, object]:
    found = _standing(replies["lines"], query)
    why = [one for one in replies["memory_why"].lines if one.id == query.id][:1]
    return {
        "section": found[0] if found else "",
        "line": found[1] if found else None,
        "history": why[0] if why else None,
    }


def _standing(standing: StandingLines, query: Which) -> tuple[str, Line] | None:
    """Return the line that is meant with its section, if it stands."""
    for section in standing.sections:
        for line in section.lines:
            if (query.id and line.id == query.id) or (query.mark and not line.id and mark(line.text) == query.mark):
                return section.name, line
    return None


PAGE = Page("line", "Line", _read, Which, view=_view, actions=memory.PAGE.actions, under="memory")
