"""Extractive synthesis: a dream without a model. It keeps notes, and replaces nothing by itself.

Every note becomes a line in its own words, the newest first within a section; exact repeats become one line. A long
note becomes several lines, its bullets and sentences, as many as there is room for. If some are left out, the last
line ends with "…"; search has the whole note. A line is replaced only if a note names it. When room is short, a line
that names a last day stays longer than others until that day, and leaves before them afterwards. Turns of a
conversation become lines only in a dream without notes. What an agent wrote after it had read a page, or in a
tool's words, is left out, because nobody judges whose they are. The result consists of the same operations as a
model's answer and passes the same checks.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from graphs.checks import OF_CODE
from graphs.room import AROUND_A_LINE
from graphs.sheet import Sheet
from state.document.asking import Heard
from state.document.operations import Action, Operation
from state.document.sections import SectionName
from state.dream import Evidence, Kind, Snapshot
from state.search.dates import last_day_named
from state.text.line import LINE_CHARACTERS, as_line
from state.text.pieces import pieces
from state.text.words import content_terms, repeat_key
from state.trust import Trust
from state.zone import local

EXTRACTIVE = "extractive"
MAX_FROM_CRYSTALS = 12
LEAST_OF_CRYSTALS = 0.7
MAX_GAPS = 5

# The share of the budget that the further lines of long notes may take from other lines.
SHARE_OF_LONG = 0.1
# The characters that a piece leaves of its line: for `…`, and for what `as_line` inserts.
ROOM_TO_SIGN = 10
_OF_THE_BOND = frozenset(("preference", "relationship"))
# A mood, not a memory; the mood already weighs what was remembered with it.
_AUTOMATIC = "Hormonal event:"


def extract(sheet: Sheet) -> None:
    """Add a line for each input that no line says yet, unless nobody judges it. Every note is consumed."""
    snapshot, out = sheet.snapshot, unjudged(sheet.snapshot)
    sheet.heard |= out
    evidence = [piece for piece in snapshot.evidence if piece.id not in out]
    notes = [piece for piece in evidence if piece.kind is Kind.NOTE]
    turns = [piece for piece in evidence if piece.kind is Kind.CRYSTAL and piece.importance >= LEAST_OF_CRYSTALS]
    gaps = [piece for piece in evidence if piece.kind is Kind.GAP][:MAX_GAPS]
    chosen = notes or sorted(turns, key=lambda piece: -piece.importance)[:MAX_FROM_CRYSTALS]
    # Oldest first: each new line goes above the ones before it.
    complete(sheet, named_operations(sheet))
    complete(sheet, additions(sheet, sorted(chosen, key=_as_said)))
    complete(sheet, additions(sheet, gaps))  # the questions that no line asks, old or new
    sheet.heard.update(piece.id for piece in notes)
    sheet.take_in_repeats()


def finish(sheet: Sheet) -> None:
    """Add what the model left undone: replacements that notes name, and inputs it is no longer asked about."""
    complete(sheet, named_operations(sheet))
    left = [piece for piece in sheet.snapshot.evidence if piece.id in sheet.snapshot.unasked]
    failing, out = sheet.snapshot.failing, unjudged(sheet.snapshot)
    notes = [piece for piece in left if piece.kind is Kind.NOTE and piece.id not in out]
    important = [piece for piece in notes if piece.importance >= LEAST_OF_CRYSTALS or piece.id in failing]
    complete(sheet, additions(sheet, important))
    sheet.heard.update(piece.id for piece in left)
    sheet.take_in_repeats()


def unjudged(snapshot: Snapshot) -> frozenset[str]:
    """Return the ids of inputs that agents wrote after reading a page, or in a tool's words.

    The words may be a stranger's. Without a model nobody can tell, so only search has them, or the owner is asked.
    After a tool's answer an agent may well say something of its own: it notes nearly everything after some tool.
    """
    is_asked = snapshot.heard is Heard.ASK
    return frozenset(piece.id for piece in snapshot.evidence if piece.heard == Trust.WEB and not is_asked)


def complete(sheet: Sheet, operations: Iterable[Operation], *, asks: bool = True) -> None:
    """Apply the program's own operations, as far as the owner need not be asked; do not report them to the model."""
    told, refused = list(sheet.told), list(sheet.refused)
    sheet.play(operations, OF_CODE, asks=asks)
    applied = [one for one in sheet.told[len(told) :] if one.applied]
    sheet.told, sheet.refused = [*told, *applied], refused


def additions(sheet: Sheet, pieces: Sequence[Evidence]) -> tuple[Operation, ...]:
    """Return new lines for these inputs, without what a line or another of them says word for word.

    Inputs of equal texts count once. What several begin with is said once, above the rest of the newest.
    """
    said, new = {_key(line.text) for line in sheet.lines.values()}, dict[str, list[str]]()
    own = [piece for piece in pieces if not piece.replaces and not piece.text.startswith(_AUTOMATIC)]
    first = {repeat_key(piece.shown): piece.id for piece in reversed(own)}
    once = [piece for piece in own if first[repeat_key(piece.shown)] == piece.id]
    for piece in reversed(once):
        lines = [line for line in lines_of(piece.shown) if not _is_said(piece, _key(line), said)]
        said.update(map(_key, lines))
        new |= {piece.id: lines} if lines else {}
    kept = _with_room(sheet, {piece.id: new[piece.id] for piece in sorted(once, key=_by_weight) if piece.id in new})
    return tuple(one for piece in once if piece.id in kept for one in _added(sheet, piece, kept[piece.id]))


def _added(sheet: Sheet, piece: Evidence, lines: Sequence[str]) -> Iterator[Operation]:
    """Yield the additions of an input's lines, from the last: each goes above the ones before it."""
    section = section_for(replace(piece, text=lines[0]) if len(lines) > 1 else piece, sheet.snapshot.notes_in)
    said_at = local(piece.at, sheet.snapshot.zone)
    for line in reversed(lines):
        yield Operation(Action.ADD, section, line, (), (piece.id,), until=last_day_named(line, said_at))


def _with_room(sheet: Sheet, lines: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the first line of each input, and as many further ones as there is room for, in turns.

    In a full file they may push out others up to a tenth of it.
    """
    budget = sheet.snapshot.budget
    room = max(budget - sheet.length, SHARE_OF_LONG * budget) - sum(map(_length, (own[0] for own in lines.values())))
    count, growing = dict.fromkeys(lines, 1), [name for name, own in lines.items() if len(own) > 1]
    while growing:
        name = growing.pop(0)
        room -= _length(lines[name][count[name]])
        if room >= 0:
            count[name] += 1
            growing += [name] if count[name] < len(lines[name]) else []
    return {name: _signed(own, count[name]) for name, own in lines.items()}


def _signed(lines: Sequence[str], count: int) -> list[str]:
    """Return the first lines; the last ends with "…" if there are more."""
    kept = list(lines[:count])
    if count < len(lines) and not kept[-1].endswith("…"):
        kept[-1] += " …"
    return kept


def named_operations(sheet: Sheet) -> Iterator[Operation]:
    """Yield the change that each note asks for by naming what it replaces, unless an operation cites the note.

    If two notes name the same line, the newer one replaces it; a note whose named line is not (or no longer) there
    becomes a line of its own.
    """
    snapshot = sheet.snapshot
    named = [piece for piece in snapshot.evidence if piece.replaces and piece.id not in sheet.heard]
    for piece in sorted(named, key=_as_said, reverse=True):
        parts = _with_room(sheet, {piece.id: lines_of(piece.shown) or ("",)})[piece.id]
        lines = [line for line in sheet.standing if line.id in piece.replaces]
        pinned = [line for line in lines if line.pinned][:1]  # its owner is asked about it
        if not lines:
            yield from _added(sheet, piece, parts)
        else:  # a line that already says the same is merged with the others
            same = [one for one in sheet.standing if _key(one.text) == _key(parts[0]) and one not in lines]
            lines = pinned or [*lines, *same]
            action = Action.REVISE if len(lines) == 1 else Action.MERGE
            named_lines = tuple(line.id for line in lines)
            until = last_day_named(parts[0], local(piece.at, snapshot.zone))
            first = Operation(action, lines[0].section, parts[0], named_lines, (piece.id,), until=until)
            asks = bool(sheet.must_ask(first))
            yield replace(first, text=_signed(parts, 1)[0]) if asks else first
            if parts[1:] and not asks:
                yield from _added(sheet, piece, parts[1:])
        sheet.heard.add(piece.id)


def section_for(piece: Evidence, notes_in: SectionName = SectionName.CONTEXT) -> SectionName:
    """Return the section of an input: Curiosity Gaps for questions, The Phenotype for skills, else that of notes.

    What the owner says of their wishes and of people goes to The Bond. Filing by topic is left to a model: by words
    alone, two values of one fact ended up in two sections.
    """
    if piece.kind is Kind.GAP or piece.text.rstrip().endswith(("?", "？", "؟")):
        return SectionName.GAPS
    if piece.trust is Trust.OWNER and piece.about in _OF_THE_BOND:
        return SectionName.BOND
    return SectionName.PHENOTYPE if piece.about == "skill" else notes_in


def lines_of(text: str) -> tuple[str, ...]:
    """Return a text as lines of MEMORY.md: as one if it is not too long, else its bullets and sentences.

    A text that says nothing has none.
    """
    whole = as_line(" ".join(text.split()), 2 * len(text) + LINE_CHARACTERS)
    is_long = len(whole) > LINE_CHARACTERS
    lines = [as_line(piece) for piece in pieces(text, LINE_CHARACTERS - ROOM_TO_SIGN)] if is_long else [whole]
    return tuple(dict.fromkeys(line for line in lines if content_terms(line) or len(line) >= 3))


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


def _key(text: str) -> str:
    return repeat_key(text.removesuffix("…"))


def _is_said(piece: Evidence, key: str, said: AbstractSet[str]) -> bool:
    return key in said or (piece.kind is Kind.GAP and any(key in other for other in said))


def _length(line: str) -> int:
    return len(line) + AROUND_A_LINE


def _as_said(piece: Evidence) -> tuple[datetime, int, str]:
    return piece.at, len(piece.id), piece.id


def _by_weight(piece: Evidence) -> tuple[float, float, int]:
    """Sort the important inputs first, the newest of those first."""
    return -piece.importance, -piece.at.timestamp(), -int(piece.id[1:])
