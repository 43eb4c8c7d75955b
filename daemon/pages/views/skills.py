"""Skills: tasks that came back in different sessions."""

from daemon.api.tables.signals import SkillsRequest, skills
from daemon.pages.page import Ask, Page, Replies


def _read(ask: Ask, query: SkillsRequest) -> Replies:
    return {"skills": ask(skills, query)}


PAGE = Page("skills", "Skills", _read, SkillsRequest)
