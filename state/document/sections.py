"""Sections of MEMORY.md: their names, and the text of a section without lines.

Separate from `state.document.document`, so that a session start need not import that.
"""

from enum import StrEnum

from state.document.markdown import says_nothing

TITLE = "# Working Memory State"
POINTER_GUIDE = "_Use memory_search if one of these topics comes up:_"
SKILL_GUIDE = "_Patterns detected from repeated tasks, before they are skills:_"
NO_FEED = "_No economics feed yet (memory/economics.json)._"
PLACEHOLDER = "_Nothing yet._"


class SectionName(StrEnum):
    """The seven sections, in their order."""

    PHENOTYPE = "The Phenotype"
    BOND = "The Bond"
    NICHE = "The Niche"
    CONTEXT = "Active Context"
    POINTERS = "Crystal Pointers"
    GAPS = "Curiosity Gaps"
    SKILLS = "Emerging Skills"


GUIDES = {SectionName.POINTERS: POINTER_GUIDE, SectionName.SKILLS: SKILL_GUIDE, SectionName.NICHE: NO_FEED}


def placeholder_of(name: SectionName) -> str:
    """Return the text that a section without lines shows."""
    return GUIDES.get(name, PLACEHOLDER)


def is_placeholder(text: str) -> bool:
    """Return whether this is a template's placeholder or guide rather than content."""
    return text.strip() in GUIDES.values() or says_nothing(text)
