"""Extractive synthesis: a dream without a model. It keeps notes, and replaces nothing by itself.

Every note becomes a line in its own words, the newest first within a section; exact repeats become one line. A line
is replaced only if a note names it. When room is short, a line whose note names a last day stays longer than others
until that day, and leaves before them afterwards. Turns of a conversation become lines only in a dream without notes.
The result consists of the same operations as a model's answer and passes the same checks.
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
from state.zone import local

EXTRACTIVE = "extractive"
MAX_FROM_CRYSTALS = 12
LEAST_OF_CRYSTALS = 0.7
MAX_GAPS = 5

_AUTOMATIC = "Hormonal event:"
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")


def extract(sheet: Sheet) -> None:
    """Add a line for each input that no line says yet. Every note is consumed."""
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
    complete(sheet, additions(sheet, gaps))  # the questions that no line asks, old or new
    sheet.heard.update(piece.id for piece in notes)
    sheet.take_in_repeats()


def finish(sheet: Sheet) -> None:
    """Add what the model left undone: replacements that notes name, and inputs it is no longer asked about."""
    complete(sheet, named_operations(sheet))
    left = [piece for piece in sheet.snapshot.evidence if piece.id in sheet.snapshot.unasked]
    important = [piece for piece in left if piece.kind is Kind.NOTE and piece.importance >= LEAST_OF_CRYSTALS]
    complete(sheet, additions(sheet, important))
    sheet.heard.update(piece.id for piece in left)
    sheet.take_in_repeats()


def complete(sheet: Sheet, operations: Iterable[Operation], *, asks: bool = True) -> None:
    """Apply the program's own operations, as far as the owner's rules allow; do not report them to the model."""
    told, refused = list(sheet.told), list(sheet.refused)
    sheet.play(operations, OF_CODE, asks=asks)
    applied = [one for one in sheet.told[len(told) :] if one.applied]
    denied = [one for one in sheet.refused[len(refused) :] if one.guard == "approval"]
    sheet.told, sheet.refused = [*told, *applied], [*refused, *denied]


def additions(sheet: Sheet, pieces: Sequence[Evidence]) -> tuple[Operation, ...]:
    """Return a new line for each of these inputs that no line repeats word for word; equal inputs get one line."""
    snapshot, said = sheet.snapshot, {repeat_key(line.text) for line in sheet.lines.values()}
    made = list[Operation]()
    for piece in pieces:
        text = as_line(condensed(piece.text))
        key = repeat_key(text)
        if key in said or repeat_key(piece.text) in said or piece.replaces or _says_nothing(piece, text):
            continue
        if piece.kind is Kind.GAP and any(key in other for other in said):
            continue  # a line already contains the question
        said.add(key)
        section, until = (
            section_for(piece, snapshot.notes_in),
            last_day_named(piece.text, local(piece.at, snapshot.zone)),
        )
        made.append(Operation(Action.ADD, section, text, (), (piece.id,), until=until))
    return tuple(made)


def named_operations(sheet: Sheet) -> Iterator[Operation]:
    """Yield the change that each note asks for by naming what it replaces, unless an operation cites the note.

    If two notes name the same line, the newer one replaces it; a note whose named line is not (or no longer) there
    becomes a line of its own.
    """
    snapshot = sheet.snapshot
    named = [piece for piece in snapshot.evidence if piece.replaces and piece.id not in sheet.heard]
    for piece in sorted(named, key=lambda piece: (piece.at, len(piece.id), piece.id), reverse=True):
        text = as_line(condensed(piece.text))
        lines = [line for line in sheet.standing if line.id in piece.replaces]
        lines = [line for line in lines if line.pinned][:1] or lines  # its owner is asked about a pinned one
        if lines:  # a line that already says the same is merged with the others
            lines += [one for one in sheet.standing if repeat_key(one.text) == repeat_key(text) and one not in lines]
        action = (Action.ADD, Action.REVISE, Action.MERGE)[min(len(lines), 2)]
        section = lines[0].section if lines else section_for(piece, snapshot.notes_in)
        until = last_day_named(piece.text, local(piece.at, snapshot.zone))
        yield Operation(action, section, text, tuple(line.id for line in lines), (piece.id,), until=until)
        sheet.heard.add(piece.id)


def section_for(piece: Evidence, notes_in: SectionName = SectionName.CONTEXT) -> SectionName:
    """Return the section of an input: Curiosity Gaps for questions, The Phenotype for skills, else that of notes.

    Filing by topic is left to a model: by words alone, two values of one fact ended up in two sections.
    """
    if piece.kind is Kind.GAP or piece.text.rstrip().endswith(("?", "？", "؟")):
        return SectionName.GAPS
    return SectionName.PHENOTYPE if piece.about == "skill" else notes_in


def condensed(text: str, limit: int = LINE_CHARACTERS) -> str:
    """Return the first sentences of a text that fit into the limit, at least one, cut at a word if necessary."""
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

    A counted line replaces its previous version, which has the same words before its colon or arrow.
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
    # An automatic note records a mood, not a memory; the mood already weighs what was remembered with it.
    return piece.text.startswith(_AUTOMATIC) or (not content_terms(text) and len(text) < 3)
