"""Agreement: what lines of several memories say alike, each by its owner's word."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from state.document.document import SectionName
from state.text.words import content_terms, jaccard, normalise

FEWEST = 2
"""So many workspaces agree at least."""
SECTIONS = (SectionName.PHENOTYPE, SectionName.BOND)
"""Where a line may be true everywhere: who the agent is, and who its user."""
# Of two texts with fewer words in common nobody asks whether they say the same. A word of more texts tells nothing.
_LIKENESS = 0.25
_MOST_WITH_A_WORD = 40
_MOST_PAIRS = 500


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
        """In the words of who said it first."""
        return self.statements[0].text

    @property
    def section(self) -> SectionName:
        """Where it stood first."""
        return self.statements[0].section


def alike(statements: Collection[Statement]) -> tuple[tuple[str, str], ...]:
    """The pairs of texts of different workspaces that may say the same, those with most words in common first.

    Both are folded. Of very many only the first are told.
    """
    workspaces, with_word = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for one in statements:
        workspaces[normalise(one.text)].add(one.workspace)
    terms = {text: frozenset(content_terms(text)) for text in workspaces}
    for text, words in terms.items():
        for word in words:
            with_word[word].add(text)
    found = {
        pair: likeness
        for texts in with_word.values()
        if len(texts) <= _MOST_WITH_A_WORD
        for pair in combinations(sorted(texts), 2)
        if len(workspaces[pair[0]] | workspaces[pair[1]]) >= FEWEST
        and (likeness := jaccard(terms[pair[0]], terms[pair[1]])) >= _LIKENESS
    }
    return tuple(sorted(found, key=lambda pair: (-found[pair], pair))[:_MOST_PAIRS])


def may_be_alike(one: str, other: str) -> bool:
    """Whether two texts have words enough in common for one to say the same as the other, or the opposite."""
    return normalise(one) == normalise(other) or jaccard(content_terms(one), content_terms(other)) >= _LIKENESS


def agreements(statements: Collection[Statement], same: Callable[[str, str], bool]) -> tuple[Agreement, ...]:
    """What at least two workspaces say; `same` is asked of two texts, the one that was said earlier first.

    A statement is in one agreement at most. The order of the statements does not matter.
    """
    ordered = sorted(statements, key=lambda one: (one.said_at, one.workspace, one.text, one.section))
    by_text = defaultdict[str, list[Statement]](list)
    for one in ordered:
        by_text[normalise(one.text)].append(one)
    rank = {text: number for number, text in enumerate(by_text)}
    beside = defaultdict[str, list[str]](list)
    for pair in alike(ordered):
        first, second = sorted(pair, key=rank.__getitem__)
        beside[first].append(second)
    taken, found = set[str](), list[Agreement]()
    for text, own in by_text.items():
        if text in taken:
            continue
        others = [
            other
            for other in sorted(beside[text], key=rank.__getitem__)
            if other not in taken and same(own[0].text, by_text[other][0].text)
        ]
        every = _one_each([*own, *(one for other in others for one in by_text[other])])
        if len(every) >= FEWEST:
            taken |= {text, *others}
            found.append(Agreement(every))
    return tuple(found)


def _one_each(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The first statement of each workspace."""
    first = dict[str, Statement]()
    for one in statements:
        first.setdefault(one.workspace, one)
    return tuple(first.values())
