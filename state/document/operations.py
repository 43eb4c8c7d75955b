"""Operations: what a synthesis may do to the lines of MEMORY.md, and what became of each line.

A model (or the extractive synthesis) answers with operations on lines that have ids, each citing the ids that
justify it. Code applies them; nothing else changes a document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from state.document.document import Edit, SectionName
from state.trust import Trust

# What the program counts and points to keeps the order in which it comes.
_IN_THEIR_ORDER = {SectionName.NICHE, SectionName.SKILLS, SectionName.POINTERS}


class Fate(StrEnum):
    """What happened to a line that no longer stands in MEMORY.md."""

    REVISED = "revised"
    MERGED = "merged"
    EVICTED = "evicted"
    DELETED = "deleted"
    ANSWERED = "answered"


class Action(StrEnum):
    """What an operation does."""

    ADD = "add"
    REVISE = "revise"
    EVICT = "evict"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change. `lines` are the ids of the old lines (none for an addition), `cites` the ids that justify it.

    `text` is the new line, or for an eviction the topic of its pointer. `section` is where the new line stands;
    for an eviction, where the old one stood.
    """

    action: Action
    section: SectionName
    text: str
    lines: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()

    @property
    def removes(self) -> bool:
        """Whether lines leave."""
        return bool(self.lines)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A guard's refusal, with its figures: what was refused (`operation`, `section` or `dream`) and why."""

    guard: str
    scope: str
    figures: str
    operation: Operation | None = None


@dataclass(frozen=True, slots=True)
class Birth:
    """A line that this dream wrote. `evidence` names crystals; `replaces` the lines whose place it takes."""

    id: str
    section: SectionName
    text: str
    importance: float
    trust: Trust
    evidence: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Death:
    """A line that left in this dream. `crystal` holds its text, `successor` is the line in its place, if any."""

    id: str
    section: SectionName
    text: str
    fate: Fate
    crystal: str
    successor: str = ""


def edits_of(operations: Sequence[Operation], texts: Mapping[str, tuple[SectionName, str]]) -> tuple[Edit, ...]:
    """The edits that carry out these operations; `texts` gives section and text of every standing line.

    A merge whose lines stand in several sections, or whose new line stands in another one, is an addition where
    the new line belongs and a removal elsewhere. A new line stands above those of its section: the newest first.
    """
    edits: list[Edit] = []
    for operation in operations:
        new = None if operation.action is Action.EVICT else operation.text
        by_section: dict[SectionName, list[str]] = {}
        for line in operation.lines:
            section, text = texts[line]
            by_section.setdefault(section, []).append(text)
        here = tuple(by_section.pop(operation.section, ()))
        if here or new is not None:
            first = not here and operation.section not in _IN_THEIR_ORDER
            edits.append(Edit(operation.section, here, new, first=first))
        edits += [Edit(section, (text,), None) for section, old in by_section.items() for text in old]
    return tuple(edits)
