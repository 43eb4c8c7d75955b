"""A workspace in which thirty lines were planted, and what must be so of each of them whatever dreams did since."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from daemon.compose import Store, clock, visited
from daemon.config import Config
from state.scratch import Note
from state.stores.segments import Segments
from state.stores.workspace import Workspace, init_workspace
from state.words import normalise
from tests.journeys import lived

_WHO = ("Ada", "Grace", "Linus", "Barbara", "Edsger")
_WHAT = (
    "keeps the spare key of the boathouse under the third flowerpot",
    "asked for the quarterly report in landscape format with large print",
    "moved the nightly backup to four in the morning because of the tides",
    "calls the billing service the llama and expects everybody to know it",
    "wants release notes in the present tense and without exclamation marks",
    "paid the invoice for the lighthouse lamp twice and was refunded once",
)
_WHERE = (
    "harbour bakery library museum orchard quarry railway stadium temple vineyard airport brewery castle dairy "
    "embassy foundry glacier hospital island junction kiosk lagoon mill nursery observatory pier refinery sawmill "
    "tannery well"
).split()
LINES = tuple(
    f"{who} {what}, says the {where} keeper"
    for (what, who), where in zip(((what, who) for what in _WHAT for who in _WHO), _WHERE, strict=True)
)
NEWS = (
    "Hopper found the moth in relay seventy of the panel",
    "The ferry to Oslo is cancelled until the storm has passed",
)


def planted(folder: Path) -> Workspace:
    """One version with all of these lines; nothing is pending."""
    from daemon.cli import main

    workspace = init_workspace(folder)
    noted(workspace, LINES)
    assert main(["dream", str(workspace.root)]) == 0
    assert set(LINES) <= set(lived.lines(workspace))
    assert len(lived.document(workspace)) > 2_000
    return workspace


def copied(workspace: Workspace, folder: Path) -> Workspace:
    """The same, elsewhere, with news that wait for a dream."""
    copy = Workspace(Path(shutil.copytree(workspace.root, folder)).resolve())
    noted(copy, NEWS)
    return copy


def noted(workspace: Workspace, texts: Sequence[str]) -> None:
    """Append notes."""
    for text in texts:
        Segments(workspace).append(Note(text, datetime.now(UTC), 0.8))


def lost(workspace: Workspace, lines: Sequence[str] = LINES) -> list[str]:
    """The lines that are neither in MEMORY.md, nor revised with evidence, nor found by pointer or search."""
    standing = {normalise(line) for line in lived.lines(workspace)}
    with visited(workspace, Config()) as store:
        return [
            line
            for line in lines
            if normalise(line) not in standing and not _revised(store, line) and not _found(store, line)
        ]


def _revised(store: Store, line: str) -> bool:
    """Another line stands in its place, or stood there last, and cites what it was written for."""
    lives = [life for life in store.lineage.lives(line) if life.text == line]
    successors = [store.lineage.life(life.successor) for life in lives if life.fate in {"revised", "merged"}]
    return any(one is not None and one.evidence for one in successors)


def _found(store: Store, line: str) -> bool:
    words = [pointer.keywords for pointer in store.lineage.pointers(standing=True)]
    for keywords in (*words, line):
        hits = store.search(keywords, clock(), limit=5).hits
        if any(normalise(hit.crystal.text) == normalise(line) for hit in hits):
            return True
    return False
