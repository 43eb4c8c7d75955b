"""Extractive synthesis: what a dream does without a model. It keeps notes, and replaces nothing by itself.

Every note becomes a line in its own words, the newest first within a section; exact repeats become one. A line is
replaced only where a note names it. Where room is short, a line stays before others until the last day that its note
names, and leaves before them afterwards. Turns of a conversation become lines only in a dream without notes. The
answer is made of the same operations as a model's and passes the same checks.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from graphs.checks import OF_CODE
from graphs.sheet import Sheet
from state.document.operations import Action, Operation
from state.document.sections import SectionName
from state.dream import Evidence, Kind, Snapshot
from state.search.dates import last_day_named
from state.text.line import LINE_CHARACTERS, as_line
from state.text.words import content_terms, repeat_key

EXTRACTIVE = "extractive"
MAX_FROM_CRYSTALS = 12
LEAST_OF_CRYSTALS = 0.7
MAX_GAPS = 5

_AUTOMATIC = "Hormonal event:"
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")


def extract(sheet: Sheet) -> None:
    """Write a line for each input that is not said yet. Every note is taken in."""
    snapshot = sheet.snapshot
    notes = [piece for piece in snapshot.evidence if piece.kind is Kind.NOTE]
    turns = [
        piece for piece in snapshot.evidence if piece.kind is Kind.CRYSTAL and piece.importance >= LEAST_OF_CRYSTALS
    ]
    gaps = [piece for piece in snapshot.evidence if piece.kind is Kind.GAP][:MAX_GAPS]
    chosen = notes or sorted(turns, key=lambda piece: -piece.importance)[:MAX_FROM_CRYSTALS]
    # Oldest first: each new line goes above the ones before it.
    complete(sheet, named_operations(sheet))
    complete(sheet, additions(sheet, sorted(chosen, key=lambda piece: (piece.at, len(piece.id), piece.id))))
    complete(sheet, additions(sheet, gaps))  # those that no line of before, nor of now, asks
    sheet.heard.update(piece.id for piece in notes)
    sheet.take_in_repeats()


def finish(sheet: Sheet) -> None:
    """Do what the model has left undone: what notes name to be replaced, and what no model is asked of any more."""
    complete(sheet, named_operations(sheet))
    left = [piece for piece in sheet.snapshot.evidence if piece.id in sheet.snapshot.unasked]
    important = [piece for piece in left if piece.kind is Kind.NOTE and piece.importance >= LEAST_OF_CRYSTALS]
    complete(sheet, additions(sheet, important))
    sheet.heard.update(piece.id for piece in left)
    sheet.take_in_repeats()


def complete(sheet: Sheet, operations: Iterable[Operation], *, asks: bool = True) -> None:
    """Carry out what the program wants, as far as its owner lets it; no model asked for it, so none is told of it."""
    told, refused = list(sheet.told), list(sheet.refused)
    sheet.play(operations, OF_CODE, asks=asks)
    applied = [one for one in sheet.told[len(told) :] if one.applied]
    denied = [one for one in sheet.refused[len(refused) :] if one.guard == "approval"]
    sheet.told, sheet.refused = [*told, *applied], [*refused, *denied]


def additions(sheet: Sheet, pieces: Sequence[Evidence]) -> tuple[Operation, ...]:
    """Return a new line for each of these inputs that no line says word for word; the first of repeats counts."""
    snapshot, said = sheet.snapshot, {repeat_key(line.text) for line in sheet.lines.values()}
    made = list[Operation]()
    for piece in pieces:
        text = as_line(condensed(piece.text))
        key = repeat_key(text)
        if key in said or repeat_key(piece.text) in said or piece.replaces or _says_nothing(piece, text):
            continue
        if piece.kind is Kind.GAP and any(key in other for other in said):
            continue  # the question stands within a line
        said.add(key)
        section, until = section_for(piece, snapshot.notes_in), last_day_named(piece.text, piece.at)
        made.append(Operation(Action.ADD, section, text, (), (piece.id,), until=until))
    return tuple(made)


def named_operations(sheet: Sheet) -> Iterator[Operation]:
    """Yield the change that each note asks for by naming what it replaces, unless an operation cites the note.

    Of two notes that name the same line the newer one takes its place; a note that names no line (any more) becomes a
    line of its own.
    """
    snapshot = sheet.snapshot
    named = [piece for piece in snapshot.evidence if piece.replaces and piece.id not in sheet.heard]
    for piece in sorted(named, key=lambda piece: (piece.at, len(piece.id), piece.id), reverse=True):
        text = as_line(condensed(piece.text))
        lines = [line for line in sheet.standing if line.id in piece.replaces and not line.pinned]
        if lines:  # the line that says so already takes the others in
            lines += [one for one in sheet.standing if repeat_key(one.text) == repeat_key(text) and one not in lines]
        action = (Action.ADD, Action.REVISE, Action.MERGE)[min(len(lines), 2)]
        section = lines[0].section if lines else section_for(piece, snapshot.notes_in)
        until = last_day_named(piece.text, piece.at)
        yield Operation(action, section, text, tuple(line.id for line in lines), (piece.id,), until=until)
        sheet.heard.add(piece.id)


def section_for(piece: Evidence, notes_in: SectionName = SectionName.CONTEXT) -> SectionName:
    """Return the section of an input: Curiosity Gaps of questions, The Phenotype of skills, else that of notes.

    Filing by topic is the model's: told from words alone, two values of one fact came to stand in two sections.
    """
    if piece.kind is Kind.GAP or piece.text.rstrip().endswith(("?", "？", "؟")):
        return SectionName.GAPS
    return SectionName.PHENOTYPE if piece.about == "skill" else notes_in


def condensed(text: str, limit: int = LINE_CHARACTERS) -> str:
    """Return the first sentences of a text that fit the limit, at least one, cut at a word if it has to be."""
    flat = " ".join(text.split())
    kept = ""
    for sentence in _SENTENCE.split(flat):
        if kept and len(kept) + 1 + len(sentence) > limit:
            break
        kept = f"{kept} {sentence}".strip()
    if len(kept) <= limit:
        return kept
    cut = kept[: limit - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(",;: ") + "…"


def counted_operations(snapshot: Snapshot) -> Iterator[Operation]:
    """Yield the lines that code counts: The Niche from its feed, Emerging Skills from their occurrences.

    A counted line takes the place of the one that it counted before; it is known by the words before its colon
    or arrow.
    """
    for piece in snapshot.evidence:
        if piece.kind not in {Kind.SKILL, Kind.FEED}:
            continue
        section = SectionName.SKILLS if piece.kind is Kind.SKILL else SectionName.NICHE
        head = _head(piece.text)
        before = next((one for one in snapshot.lines if one.section is section and _head(one.text) == head), None)
        if before is None:
            yield Operation(Action.ADD, section, piece.text, (), (piece.id,))
        elif before.text != piece.text and not before.pinned:
            yield Operation(Action.REVISE, section, piece.text, (before.id,), (piece.id,))


def _head(text: str) -> str:
    return re.split(r"→|:", text.lstrip('"'), maxsplit=1)[0].strip().casefold()


def _says_nothing(piece: Evidence, text: str) -> bool:
    # An automatic note is a mood, not a memory: it coloured what was remembered with it.
    return piece.text.startswith(_AUTOMATIC) or (not content_terms(text) and len(text) < 3)
