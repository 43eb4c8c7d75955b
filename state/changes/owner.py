"""Owner: what a person did to the lines of MEMORY.md, worked out from the text they left."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from state.changes.change import Change, CurrentLine
from state.document.document import Document, parse
from state.document.merge import removed_lines
from state.document.operations import Why
from state.document.sections import SectionName
from state.text.words import content_terms, jaccard, normalise, numbers
from state.trust import Trust

IMPORTANCE = 0.8
CORRECTED = 0.5
# A text that shares this much of its words with a deleted line, and has the same numbers, counts as that line.
SAME_AS_DELETED = 0.75
# If this many lines, and more than half of all, are gone at once, it was an accident in the editor, not a wish.
LEAST_ACCIDENT = 5


@dataclass(frozen=True, slots=True)
class OwnersText:
    """The changes that a person made to the lines, and what they mean for later dreams.

    `deleted` are texts that the person does not want again, `lifted` earlier deleted texts that they wrote again.
    """

    changes: tuple[Change, ...]
    deleted: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def same_as_deleted(text: str, deleted: str) -> bool:
    """Return whether a text repeats a deleted line: the same text, or ¾ of its words and the same numbers."""
    if normalise(text) == normalise(deleted):
        return True
    return likeness(text, deleted) >= SAME_AS_DELETED and set(numbers(text)) == set(numbers(deleted))


def is_unwanted(text: str, deleted: Iterable[str], own: Collection[str]) -> bool:
    """Return whether the owner deleted this text, unless it is closer to one of their own lines."""
    return any(
        same_as_deleted(text, one) and not any(likeness(text, other) > likeness(text, one) for other in own)
        for one in deleted
    )


def likeness(one: str, other: str) -> float:
    """Return the share of words that two texts have in common (Jaccard index), from 0 to 1."""
    return jaccard(_terms(one), _terms(other))


@lru_cache(maxsize=1024)
def _terms(text: str) -> frozenset[str]:
    return content_terms(text)


def match(current: Iterable[CurrentLine], texts: Iterable[tuple[SectionName, str]]) -> list[CurrentLine | None]:
    """Return the ledger's line for each line of a document, each used at most once.

    Lines match by text and section, else by text alone (a person moved it); None for a new line.
    """
    free, lines = list(current), list(texts)
    found: list[CurrentLine | None] = [None] * len(lines)
    for same_section in (True, False):
        by_key: dict[tuple[str, str], list[CurrentLine]] = {}
        for line in free:
            by_key.setdefault((line.key, line.section.value if same_section else ""), []).append(line)
        for at, (section, text) in enumerate(lines):
            candidates = by_key.get((normalise(text), section.value if same_section else ""))
            if found[at] is None and candidates:
                found[at] = candidates.pop(0)
        used = {line.id for line in found if line is not None}
        free = [line for line in free if line.id not in used]
    return found


def lines_in(document: Document, known: Iterable[CurrentLine]) -> tuple[CurrentLine, ...]:
    """Return the lines of a document that the ledger knows, with section, text and pin from the document."""
    blocks = list(document.lines())
    found = match(known, [(name, block.text) for name, block in blocks])
    return tuple(
        replace(line, section=name, text=block.text, pinned=block.pinned)
        for (name, block), line in zip(blocks, found, strict=True)
        if line is not None
    )


def owners_text(
    standing: Sequence[CurrentLine],
    text: str,
    now: datetime,
    *,
    seen: str | None = None,
    unwanted: Iterable[str] = (),
) -> OwnersText:
    """Compare a text with the current lines; `unwanted` are the texts deleted earlier.

    `seen` is the text that the person had before them, if it is not that of the current lines: they did not delete
    lines they never saw, nor keep lines they removed from it.
    """
    document = parse(text)
    blocks = list(document.lines())
    known = match(standing, [(name, block.text) for name, block in blocks])
    kept = {line.id for line in known if line is not None}
    gone = [line for line in standing if line.id not in kept]
    come = [
        CurrentLine("", name, block.text, IMPORTANCE, Trust.OWNER, now, pinned=block.pinned)
        for (name, block), line in zip(blocks, known, strict=True)
        if line is None
    ]
    seen_before = None if seen is None else {block.key for _, block in parse(seen).lines()}
    changes = [_said_otherwise(line, come) for line in gone]
    changes += [Change(Why.ADDED, (), (line,)) for line in come]
    if seen_before is not None:
        changes = [
            replace(one, why=Why.EVICTED) if one.why is Why.DELETED and one.gone[0].key not in seen_before else one
            for one in changes
        ]
    anywhere = {block.key for part in document.parts for block in part.lines}
    deleted = [_unwanted(one) for one in changes]
    texts = [line for line in (*deleted, *(removed_lines(seen, text) if seen else ())) if line]
    texts = [one for one in dict.fromkeys(texts) if normalise(one) not in anywhere]
    lifted = tuple(one for one in unwanted if normalise(one) in anywhere)
    if len(texts) >= LEAST_ACCIDENT and 2 * len(texts) > len(standing):
        problem = (
            f"{len(texts)} of {len(standing)} lines are gone from MEMORY.md: taken as an accident, they may be "
            "written again ('dreamd restore' brings them back)"
        )
        return OwnersText(tuple(changes), (), lifted, (problem,))
    return OwnersText(tuple(changes), tuple(texts), lifted)


def restored_text(
    standing: Sequence[CurrentLine],
    text: str,
    now: datetime,
    earlier: Callable[[CurrentLine], tuple[CurrentLine, tuple[str, ...]]],
) -> tuple[Change, ...]:
    """Return the changes that bring back an older text.

    `earlier` returns a line of that text as it was then, and the crystals behind it.
    """
    changes = list[Change]()
    for one in owners_text(standing, text, now).changes:
        if one.gone:
            changes.append(Change(Why.EVICTED, one.gone))
        for line in one.come:
            was, evidence = earlier(line)
            changes.append(Change(Why.ADDED, (), (was,), evidence))
    return tuple(changes)


def _said_otherwise(gone: CurrentLine, come: list[CurrentLine]) -> Change:
    """Return the change of a removed line: revised into the likeliest new line of its section, else deleted.

    The new line shares at least half of the terms, and is removed from `come`.
    """
    alike = [
        (jaccard(content_terms(gone.text), content_terms(line.text)), at)
        for at, line in enumerate(come)
        if line.section is gone.section
    ]
    best = max(alike, default=(0.0, -1))
    if best[0] < CORRECTED:
        return Change(Why.DELETED, (gone,))
    return Change(Why.REVISED, (gone,), (come.pop(best[1]),))


def _unwanted(change: Change) -> str:
    """Return the text that the owner does not want again, or "".

    A line that was only reworded may be worded that way again; one whose number was corrected may not.
    """
    if change.why is Why.DELETED:
        return change.gone[0].text
    if change.why is Why.REVISED and set(numbers(change.gone[0].text)) != set(numbers(change.come[0].text)):
        return change.gone[0].text
    return ""
