"""Standing lines: MEMORY.md as it is in the file now, each line with what is known of it, by a few queries in all."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from daemon.dream.snapshot import Grounds, grounds_of
from daemon.workspace.document import read_document
from daemon.workspace.redaction import redacted
from daemon.workspace.session_start import project_budget
from daemon.workspace.stores import Store
from graphs.review import AUTHOR as OWNER
from graphs.review import stands
from state.changes.change import CurrentLine
from state.changes.owner import IMPORTANCE, match
from state.document.document import Block, Part, SectionName, parse
from state.document.pointer import parse_pointer
from state.document.seed import split_seed
from state.dream import RESTORE, Decision
from state.stores.history.lineage import Author
from state.text.words import normalise
from state.trust import Trust

# More of a line is not shown: no dream writes a longer one. So much more is looked at, as a secret may stand there.
SHOWN_CHARACTERS = 1_000
_LOOKED_AT = 4
SEED = "seed"
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of MEMORY.md. `id` is empty as long as no version knows it; it was written by hand then.

    `cut`: only its beginning is shown. `author`: a model, extractive, owner, restore, or seed for text from before
    the first dream. `evidence` counts the crystals that it rests on. `superseded_by` is the text of what holds now,
    where all of these are superseded. `applied` is the number of the change that wrote it and can be undone,
    `waiting` of one that waits to change it. A pointer has its `keywords` and the id of its `crystal`.
    """

    id: str
    text: str
    cut: bool
    author: str
    trust: Trust
    importance: float
    pinned: bool
    version: int | None = None
    born_at: datetime | None = None
    age_days: float | None = None
    evidence: int = 0
    superseded_by: str = ""
    superseded_at: datetime | None = None
    applied: int | None = None
    waiting: int | None = None
    keywords: str = ""
    crystal: str = ""


@dataclass(frozen=True, slots=True)
class SectionLines:
    """A heading with its lines, in the order of the file. `name` is empty for what stands outside of the seven.

    `heading` is as it is written, empty for what stands above the first one.
    """

    name: str
    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class StandingLines:
    """MEMORY.md as it is in the file now. `version` is the last one, `budget` the characters that a reader takes.

    `digest` is the SHA-256 of the file, empty without one. `more` counts the headings and lines after these.
    `problems`: why this is not the file, if it is not.
    """

    version: int
    characters: int
    budget: int
    digest: str
    sections: tuple[SectionLines, ...]
    more: int
    problems: tuple[str, ...]


def standing_lines(store: Store, now: datetime, start: int = 0, limit: int = 1_000) -> StandingLines:
    """Return the headings and lines from this place on, at most so many of both together."""
    content = store.disk.read_optional(store.workspace.document)
    text, problems = read_document(store)
    parts = parse(text).parts
    blocks = [(part, block) for part in parts if part.name is not None for block in part.lines]
    known = match(
        store.lineage.current_lines(), [(part.name, block.text) for part, block in blocks if part.name is not None]
    )
    lines = {id(block): line for (_, block), line in zip(blocks, known, strict=True) if line is not None}
    gutter = _Gutter.of(store, [line for line in known if line is not None], text, now)
    places = [(part, block) for part in parts for block in _with_heading(part)]
    chosen = places[start : start + limit]
    sections = [
        (
            found[0][0],
            tuple(gutter.line(part, block, lines.get(id(block))) for part, block in found if block is not None),
        )
        for found in _by_part(chosen)
    ]
    return StandingLines(
        version=store.lineage.standing()[0],
        characters=len(text),
        budget=project_budget(store.workspace, store.config.dream.context_window, store.config.secrets.redaction),
        digest=hashlib.sha256(content).hexdigest() if content is not None else "",
        sections=tuple(
            SectionLines(part.name.value if part.name else "", shown(store, part.heading.strip())[0], found)
            for part, found in sections
        ),
        more=max(0, len(places) - start - len(chosen)),
        problems=problems,
    )


def shown(store: Store, text: str) -> tuple[str, bool]:
    """Return a text as it is shown, without secrets, and whether it was cut."""
    beginning = redacted(store, text[: _LOOKED_AT * SHOWN_CHARACTERS])
    return beginning[:SHOWN_CHARACTERS], len(text) > SHOWN_CHARACTERS


def _with_heading(part: Part) -> tuple[Block | None, ...]:
    """Return the lines of a part; its heading, which stands above them, is None."""
    return ((None,) if part.heading else ()) + part.lines


def _by_part(places: Sequence[tuple[Part, Block | None]]) -> list[list[tuple[Part, Block | None]]]:
    return [list(found) for _, found in groupby(places, key=lambda place: id(place[0]))]


@dataclass(frozen=True, slots=True)
class _Gutter:
    """What is known of the lines that stand, by their ids or their folded texts."""

    store: Store
    now: datetime
    grounds: Grounds
    authors: Mapping[str, Author]
    handwritten: frozenset[str]
    evidence: Mapping[str, tuple[str, ...]]
    applied: Mapping[str, int]
    waiting: Mapping[str, int]
    pointers: Mapping[str, str]
    old_text: frozenset[str]

    @classmethod
    def of(cls, store: Store, lines: Sequence[CurrentLine], text: str, now: datetime) -> "_Gutter":
        open_changes = store.changes.open()
        applied = {
            normalise(one.change.operation.text): one.number
            for one in open_changes
            if one.decision is Decision.APPLIED
        }
        found = (
            (line, one.number)
            for one in open_changes
            if one.decision is Decision.WAITING
            for old in one.change.lines
            if (line := stands(old, lines)) is not None
        )
        waiting = {line.id: number for line, number in found}
        seed = split_seed(text)
        old = parse(seed[0]).parts if seed is not None else ()
        return cls(
            store,
            now,
            grounds_of(store, lines),
            store.lineage.authors(),
            frozenset(store.lineage.handwritten()),
            store.lineage.evidence(),
            applied,
            waiting,
            {one.keywords: one.crystal for one in store.lineage.pointers(current=True)},
            frozenset(block.key for part in old for block in part.lines),
        )

    def line(self, part: Part, block: Block, known: CurrentLine | None) -> Line:
        """Return the line of a part as the ledger knows it, if it does."""
        text, cut = shown(self.store, block.text)
        if known is None:
            above = part.name is None and block.key in self.old_text
            line = Line("", text, cut, SEED if above else OWNER, Trust.OWNER, IMPORTANCE, block.pinned)
        else:
            line = self._known(Line(known.id, text, cut, "", known.trust, known.importance, block.pinned), known)
        if part.name is SectionName.POINTERS and (parsed := parse_pointer(block.text)) is not None:
            crystal = self.pointers.get(parsed[1], "")
            line = replace(line, keywords=shown(self.store, parsed[1])[0], crystal=crystal)
        return replace(line, applied=self.applied.get(block.key) if part.name else None)

    def _known(self, line: Line, known: CurrentLine) -> Line:
        author, newer = self.authors.get(known.id), self.grounds.newer.get(known.id)
        name = author.name if author else ""
        if author is not None and author.cause == RESTORE:
            name = RESTORE
        elif known.id in self.handwritten or not name:
            name = OWNER
        return replace(
            line,
            author=name,
            version=author.version if author else None,
            born_at=known.born_at,
            age_days=round(max(0.0, (self.now - known.born_at).total_seconds() / _DAY_SECONDS), 2),
            evidence=len(self.evidence.get(known.id, ())),
            superseded_by=shown(self.store, newer.text)[0] if newer else "",
            superseded_at=self.grounds.since[known.id] if newer else None,
            waiting=self.waiting.get(known.id),
        )
