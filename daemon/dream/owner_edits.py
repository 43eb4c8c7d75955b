"""Owner edits: what the owner wrote, corrected and deleted in MEMORY.md since the last version."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from daemon.workspace.stores import Store
from state.document.document import Document
from state.dream import CurrentLine
from state.stores.history.lineage import match
from state.text.words import content_terms, jaccard, normalise, numbers
from state.trust import Trust

IMPORTANCE = 0.8
CORRECTED = 0.5
# So many lines gone at once, and more than half of all: an editor's accident rather than a wish.
LEAST_ACCIDENT = 5


@dataclass(frozen=True, slots=True)
class OwnerEdits:
    """The lines of MEMORY.md now, and what the owner did to them.

    `written` are the ids of new lines, `gone` the ledger's lines that stand there no longer, `corrected` pairs of ids
    of a gone line and the new one in its place, `tombstones` the texts that must not be written again.
    """

    lines: tuple[CurrentLine, ...]
    written: tuple[str, ...]
    gone: tuple[CurrentLine, ...]
    corrected: tuple[tuple[str, str], ...]
    tombstones: tuple[str, ...]
    next_line: int
    problems: tuple[str, ...]


def owner_edits(store: Store, document: Document, now: datetime) -> OwnerEdits:
    """Compare MEMORY.md with the lines of the last version in the ledger."""
    standing = store.lineage.current_lines()
    blocks = list(document.lines())
    known = match(standing, [(name, block.text) for name, block in blocks])
    number = store.lineage.next_line()
    lines, written = [], []
    for (name, block), line in zip(blocks, known, strict=True):
        if line is None:
            line = CurrentLine(f"L{number}", name, block.text, IMPORTANCE, Trust.OWNER, now)  # noqa: PLW2901
            written.append(line.id)
            number += 1
        lines.append(replace(line, section=name, text=block.text, pinned=block.pinned))
    kept = {line.id for line in lines}
    gone = [line for line in standing if line.id not in kept]
    corrected = _corrected(gone, [line for line in lines if line.id in written])
    tombstones, problems = _deleted_texts(document, standing, gone, corrected, lines)
    return OwnerEdits(
        tuple(lines), tuple(written), tuple(gone), tuple(corrected.items()), tombstones, number, problems
    )


def _corrected(gone: Sequence[CurrentLine], new: Sequence[CurrentLine]) -> dict[str, str]:
    """Which new line is a gone one in other words: of the same section, half of the terms in common."""
    free, pairs = list(new), {}
    for old in gone:
        alike = [
            (jaccard(content_terms(old.text), content_terms(line.text)), at)
            for at, line in enumerate(free)
            if line.section is old.section
        ]
        best = max(alike, default=(0.0, -1))
        if best[0] >= CORRECTED:
            pairs[old.id] = free.pop(best[1]).id
    return pairs


def _deleted_texts(
    document: Document,
    standing: Sequence[CurrentLine],
    gone: Sequence[CurrentLine],
    corrected: dict[str, str],
    lines: Sequence[CurrentLine],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The texts that the owner does not want again, and what looks like an accident.

    A line that was only worded otherwise may be worded so again; one of which a number was corrected may not. A line
    that stands elsewhere in the file (under a heading that was renamed) was not deleted.
    """
    anywhere = {block.key for part in document.parts for block in part.lines}
    by_id = {line.id: line for line in lines}
    unwanted = [
        old
        for old in gone
        if normalise(old.text) not in anywhere
        and (old.id not in corrected or set(numbers(old.text)) != set(numbers(by_id[corrected[old.id]].text)))
    ]
    if len(unwanted) >= LEAST_ACCIDENT and 2 * len(unwanted) > len(standing):
        problem = (
            f"{len(unwanted)} of {len(standing)} lines are gone from MEMORY.md: taken as an accident, they may be "
            "written again ('dreamd restore' brings them back)"
        )
        return (), (problem,)
    return tuple(old.text for old in unwanted), ()
