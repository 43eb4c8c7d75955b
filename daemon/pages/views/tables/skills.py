"""Skills: tasks that came back in different sessions."""

from pydantic import Field

from daemon.api.tables.signals import SkillsRequest, skills
from daemon.pages.page import Ask, Page, Replies


class SkillsQuery(SkillsRequest):
    """As the operation is asked; a row has some 1 KB at most."""

    limit: int = Field(default=50, ge=1, le=50)


def _read(ask: Ask, query: SkillsQuery) -> Replies:
    return {"skills": ask(skills, query)}


PAGE = Page("skills", "Skills", _read, SkillsQuery)
