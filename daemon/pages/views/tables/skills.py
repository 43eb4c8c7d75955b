"""Skills: tasks that came back in different sessions."""

from daemon.api.operations.request import Request
from daemon.api.tables.signals import skills
from daemon.pages.page import Ask, Page, Replies

# A row has some 1 KB at most.
_MOST = 50


def _read(ask: Ask, query: Request) -> Replies:
    return {"skills": ask(skills, **{**query.given, "limit": min(_MOST, query.given["limit"])})}


PAGE = Page("skills", "Skills", _read, skills.request)
