"""Standing lines: the lines of MEMORY.md as it is now, with what the ledger knows of each, in a few queries."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from daemon.dream.snapshot import grounds_of, proposed_today
from daemon.workspace.document import read_document
from daemon.workspace.session_start import project_budget
from daemon.workspace.stores import Store
from graphs.review import AUTHOR as OWNER
from state.changes.change import CurrentLine
from state.changes.owner import IMPORTANCE, match
from state.changes.support import Said, unsupported
from state.changes.values import LETTERS, Span, names_in
from state.crystals.crystal import Crystal, Origin
from state.document.document import Block, Part, parse
from state.document.pointer import parse_pointer
from state.document.redaction import redacted_line
from state.document.sections import SectionName
from state.document.seed import split_seed
from state.reading import length_given
from state.trust import Trust
from state.zone import local

# How much of a line is shown; no dream writes a longer one. Secrets are looked for in this many times as much.
SHOWN_CHARACTERS = 1_000
_LOOKED_AT = 4
SEED = "seed"
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of MEMORY.md. `id` is empty if no version has it yet, because it was written by hand.

    `cut`: only its beginning is shown. `author`: a model, extractive, owner, restore, or seed for text from before
    the first dream. `evidence`: how many crystals support it. `superseded_by`: the text that supersedes all of them.
    `proposed`: the number of a proposal to change it. `until`: the last day on which it holds (ISO 8601).
    A pointer has its `keywords` and the id of its `crystal`.
    `unsupported` are the numbers, dates and names in `text` that no evidence of it has.
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
    proposed: int | None = None
    until: str = ""
    keywords: str = ""
    crystal: str = ""
    unsupported: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class SectionLines:
    """A heading with its lines, in file order. `name` is empty outside the seven sections.

    `heading` is as written, and empty for text above the first heading.
    """

    name: str
    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class StandingLines:
    """MEMORY.md as it is now. `version` is the last one; an agent is given `characters` of it, `budget` at most.

    `digest` is the SHA-256 of the file, empty without one. `more` counts the headings and lines after these, `count`
    the lines of the seven sections. `problems`: why these lines are not those of the file, if they are not.
    """

    version: int
    characters: int
    budget: int
    digest: str
    sections: tuple[SectionLines, ...]
    more: int
    problems: tuple[str, ...]
    count: int = 0


def standing_lines(
    store: Store, now: datetime, start: int = 0, limit: int = 1_000, section: SectionName | None = None
) -> StandingLines:
    """Return at most `limit` headings and lines, from place `start` on; or those of one section alone."""
    content = store.memory.disk.read_optional(store.workspace.document)
    text, problems = read_document(store.workspace, store.connection)
    parts = parse(text).parts
    blocks = [(part.name, block) for part in parts if part.name is not None for block in part.lines]
    known = match(store.lineage.current_lines(), [(name, block.text) for name, block in blocks])
    lines = {id(block): line for (_, block), line in zip(blocks, known, strict=True) if line is not None}
    # None stands for the heading of a part, above its lines.
    wanted = [part for part in parts if section is None or part.name is section]
    places = [(part, block) for part in wanted for block in ((None,) if part.heading else ()) + part.lines]
    chosen = places[start : start + limit]
    here = [line for _, block in chosen if block is not None and (line := lines.get(id(block))) is not None]
    line_of = _reader(store, here, text, now)
    sections = list[SectionLines]()
    for _, group in groupby(chosen, key=lambda place: id(place[0])):
        found = list(group)
        part = found[0][0]
        read = tuple(line_of(part, block, lines.get(id(block))) for _, block in found if block is not None)
        name = part.name.value if part.name else ""
        sections.append(SectionLines(name, shown(store, part.heading.strip())[0], read))
    return StandingLines(
        version=store.lineage.standing()[0],
        characters=length_given(text),
        budget=project_budget(store.workspace, store.config.dream.context_window, store.config.redaction),
        digest=hashlib.sha256(content).hexdigest() if content is not None else "",
        sections=_marked(store, sections, text),
        more=max(0, len(places) - start - len(chosen)),
        problems=problems,
        count=len(blocks),
    )


def unsupported_in(store: Store, texts: Mapping[str, str], memory: str) -> dict[str, tuple[Span, ...]]:
    """Return by id what none of its evidence has of each of these lines of a memory.

    Nothing is said of a line whose evidence is not all there: what is forgotten may have said it.
    """
    rests, names, zone = store.lineage.evidence_through(texts), names_in(memory), store.config.zone
    known, wanted = dict[str, Crystal](), {one for ids in rests.values() for one in ids}
    while wanted:
        found = {one.id: one for one in store.crystals.get(sorted(wanted))}
        known |= found
        wanted = {parent for one in found.values() for parent in one.parents} - known.keys()

    def said(ids: Iterable[str]) -> tuple[Said, ...]:
        seen, left = dict[str, Crystal](), list(ids)
        while left:
            if (one := known.get(left.pop())) is not None and one.id not in seen:
                seen[one.id] = one
                left += one.parents
        # What a line once said is no evidence of it.
        texts = (one for one in seen.values() if one.origin is not Origin.LINE)
        return tuple(Said(f"{one.speaker} {one.text}", local(one.created_at, zone).date()) for one in texts)

    whole = {line: said(ids) for line, ids in rests.items() if known.keys() >= set(ids)}
    # With the names in it alone, what is known of a line holds until it changes itself.
    own = {line: names.intersection(LETTERS.findall(texts[line])) for line, evidence in whole.items() if evidence}
    return {line: unsupported(texts[line], whole[line], own[line]) for line in own}


def _marked(store: Store, sections: Sequence[SectionLines], memory: str) -> tuple[SectionLines, ...]:
    """Add to each line what no evidence of it has."""
    said = {line.id: line.text for one in sections for line in one.lines if line.id and not line.keywords}
    marks = unsupported_in(store, said, memory)
    return tuple(
        replace(one, lines=tuple(replace(line, unsupported=marks.get(line.id, ())) for line in one.lines))
        for one in sections
    )


def shown(store: Store, text: str) -> tuple[str, bool]:
    """Return the text redacted and cut to `SHOWN_CHARACTERS`, and whether it was cut."""
    beginning = redacted_line(text[: _LOOKED_AT * SHOWN_CHARACTERS], store.config.redaction, store.grounds)
    return beginning[:SHOWN_CHARACTERS], len(text) > SHOWN_CHARACTERS


def _reader(
    store: Store, lines: Sequence[CurrentLine], text: str, now: datetime
) -> Callable[[Part, Block, CurrentLine | None], Line]:
    """Return a function that makes the `Line` of a block; the ledger is queried once for all lines."""
    grounds = grounds_of(store.lineage, store.crystals, lines)
    authors, evidence = store.lineage.authors(), store.lineage.evidence()
    handwritten = frozenset(store.lineage.handwritten())
    pointers = {one.keywords: one.crystal for one in store.lineage.pointers(current=True)}
    proposed = {name: number for number, one in proposed_today(store, lines).items() for name in one.lines}
    seed = split_seed(text)
    old_text = {block.key for part in (parse(seed[0]).parts if seed else ()) for block in part.lines}

    def read(part: Part, block: Block, known: CurrentLine | None) -> Line:
        said, cut = shown(store, block.text)
        if known is None:
            author = SEED if part.name is None and block.key in old_text else OWNER
            line = Line("", said, cut, author, Trust.OWNER, IMPORTANCE, block.pinned)
        else:
            author_of, newer = authors.get(known.id), grounds.newer.get(known.id)
            is_owners = known.id in handwritten or author_of is None or not author_of.name
            line = Line(
                known.id,
                said,
                cut,
                OWNER if author_of is None or is_owners else author_of.name,
                known.trust,
                known.importance,
                block.pinned,
                version=author_of.version if author_of else None,
                born_at=known.born_at,
                age_days=round(max(0.0, (now - known.born_at).total_seconds() / _DAY_SECONDS), 2),
                evidence=len(evidence.get(known.id, ())),
                superseded_by=shown(store, newer.text)[0] if newer else "",
                superseded_at=grounds.since[known.id] if newer else None,
                proposed=proposed.get(known.id),
                until=known.until,
            )
        if part.name is SectionName.POINTERS and (parsed := parse_pointer(said)) is not None:
            line = replace(line, keywords=parsed[1], crystal=pointers.get(parsed[1], ""))
        return line

    return read
