"""Agreement: what lines of several memories say alike, each by its owner's word."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from state.document.document import SectionName
from state.text.words import normalise

FEWEST = 2
"""So many workspaces agree at least."""
SECTIONS = (SectionName.PHENOTYPE, SectionName.BOND)
"""Where a line may be true everywhere: who the agent is, and who its user."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A line of one workspace, which is named by its root, and when its owner said so."""

    workspace: str
    section: SectionName
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Agreement:
    """The statements that say the same, one of each workspace, in the order in which they were said."""

    statements: tuple[Statement, ...]

    @property
    def text(self) -> str:
        """The words of who said it first."""
        return self.statements[0].text

    @property
    def section(self) -> SectionName:
        """The section in which it stood first."""
        return self.statements[0].section


def agreements(statements: Collection[Statement]) -> tuple[Agreement, ...]:
    """Return what at least two workspaces say in the same words. The order of the statements does not matter."""
    by_text = defaultdict[str, list[Statement]](list)
    for one in sorted(statements, key=lambda one: (one.said_at, one.workspace, one.text, one.section)):
        by_text[normalise(one.text)].append(one)
    found = (_one_each(said) for said in by_text.values())
    return tuple(Agreement(said) for said in found if len(said) >= FEWEST)


def _one_each(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return the first statement of each workspace."""
    first = dict[str, Statement]()
    for one in statements:
        first.setdefault(one.workspace, one)
    return tuple(first.values())
