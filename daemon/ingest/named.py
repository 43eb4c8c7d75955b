"""Named: finds the line or memory that a note's `replaces` means: an id, or words that only one of them has."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from sqlite3 import Connection

from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from state.changes.change import STAYS_ITSELF, CurrentLine
from state.crystals.crystal import Crystal, Origin, crystal_digest
from state.document.document import parse
from state.document.operations import Why
from state.stores.crystals.crystals import Crystals
from state.stores.history.lineage import Lineage, LineLife
from state.text.words import normalise

# A shorter prefix of a crystal's id could be a word.
_ID_DIGITS = 8
_DERIVED = frozenset((Origin.DREAM, Origin.LINE))
# A dream takes in at most this many pending notes.
_MOST_NOTES = 250


def named(store: Store, lines: Sequence[CurrentLine], value: str, note: str = "") -> tuple[str, ...]:
    """Return the ids that a note names: current lines or, if no line says exactly the same, crystals.

    Empty if it names nothing, or several things. `note` is the id of the note's own crystal, which cannot be meant.
    """
    value, key = value.strip(), normalise(value)
    texts = {line.id: line.key for line in lines}
    if value.upper() in texts:
        return (value.upper(),)
    life = store.lineage.life(value.upper())
    crystals = [] if life else [one for one in _with_id(store.crystals, value) if one.id != note]
    if life is None and not crystals and key:
        exact = [line for line, text in texts.items() if text == key]
        within = [line for line, text in texts.items() if _has_words(text, key)]
        if exact or within:
            return tuple(exact or within) if exact or len(within) == 1 else ()
        past = [one for one in store.lineage.lives(value) if _has_words(normalise(one.text), key)]
        past = [one for one in past if normalise(one.text) == key][:1] or past
        life = past[0] if len(past) == 1 else None
        crystals = _with_words(store.connection, store.crystals, value, note) if not past else []
    if life is not None:
        life, crystals = _latest(store.crystals, store.lineage, life)
        if life.id in texts:
            return (life.id,)
    return _standing(store.lineage, store.crystals, lines, crystals) or tuple(one.id for one in crystals)


def named_by_notes(store: Store, lines: Sequence[CurrentLine]) -> dict[str, tuple[str, ...]]:
    """Return what the pending notes name, by the ids of their crystals. No note names a later one."""
    notes = list(islice(store.notes.each_pending(), _MOST_NOTES))
    if not any(note.replaces for note in notes):
        return {}
    digests = [crystal_digest(Origin.SCRATCH, store.config.redaction.of(note.text)) for note in notes]
    known = store.crystals.ids_of(digests)
    ids = [known.get(one, one) for one in digests]
    found: dict[str, tuple[str, ...]] = {}
    for place, (id_, note) in enumerate(zip(ids, notes, strict=True)):
        if note.replaces:
            meant = (*found.get(id_, ()), *named(store, lines, note.replaces, id_))
            later = set(ids[place:]) - set(ids[:place])
            found[id_] = tuple(one for one in dict.fromkeys(meant) if one not in later)
    return found


def doubt(store: Store, value: str) -> str:
    """Return a warning if the value names nothing, or several things; empty otherwise.

    Lines written into MEMORY.md by hand, and notes that have not been processed yet, count as well.
    """
    key, lines = normalise(value), store.lineage.current_lines()
    known = {line.key for line in lines}
    new = {
        block.key for part in parse(read_document(store.workspace, store.connection)[0]).parts for block in part.lines
    } - known
    new |= {normalise(note.text) for note in store.notes.newest().notes if note.replaces != value}
    if named(store, lines, value) or any(_has_words(text, key) for text in new):
        return ""
    return f"{value!r:.80} names no line and no memory, or several: the note is kept, and replaces nothing"


def _with_id(crystals: Crystals, value: str) -> list[Crystal]:
    if len(value) < _ID_DIGITS or value.strip("0123456789abcdef"):
        return []
    found = [one for one in crystals.named(value) if one.id.startswith(value)]
    return found if len(found) == 1 else []


def _with_words(connection: Connection, crystals: Crystals, value: str, note: str) -> list[Crystal]:
    """Return the crystals with exactly this text, else the only note or session item with these words."""
    same = crystals.ids_of(crystal_digest(origin, value) for origin in Origin)
    if exact := crystals.get({*same.values()} - {note}):
        return exact
    rows = connection.execute(
        "SELECT id, text FROM crystals WHERE origin IN (?, ?) AND merged_into IS NULL AND id <> ?"
        " AND instr(lower(text), ?)",
        # SQLite's lower() folds only ASCII.
        (Origin.SCRATCH, Origin.WORKING, note, "".join(one.lower() if one.isascii() else one for one in value)),
    )
    found = [row["id"] for row in rows if _has_words(normalise(row["text"]), normalise(value))]
    return crystals.get(found) if len(found) == 1 else []


def _has_words(text: str, words: str) -> bool:
    """Return whether a text contains these words as whole words: "tea" is not in "steak"."""
    return re.search(rf"(?<![a-z0-9]){re.escape(words)}(?![a-z0-9])", text) is not None


def _latest(crystals: Crystals, lineage: Lineage, life: LineLife) -> tuple[LineLife, list[Crystal]]:
    """Return the line as last revised, and the crystals that say exactly what it says."""
    while life.fate in {Why.REVISED, *STAYS_ITSELF} and (successor := lineage.life(life.successor)):
        life = successor
    return life, _saying_the_same(life.text, crystals.get((*life.evidence, life.crystal)))


def _standing(
    lineage: Lineage, known: Crystals, lines: Sequence[CurrentLine], crystals: Sequence[Crystal]
) -> tuple[str, ...]:
    """Return the lines that say exactly what one of these crystals says."""
    ids, evidence = {one.id for one in crystals}, lineage.evidence() if crystals else {}
    return tuple(
        line.id
        for line in lines
        if not ids.isdisjoint(evidence.get(line.id, ()))
        and any(one.id in ids for one in _saying_the_same(line.text, known.get(evidence[line.id])))
    )


def _saying_the_same(text: str, crystals: Iterable[Crystal]) -> list[Crystal]:
    """Return the crystals that say exactly what a line says: the same words, or its only evidence.

    A line merged from several crystals says more than each of them.
    """
    every = {one.id: one for one in crystals}.values()
    same = [one for one in every if normalise(one.text) == normalise(text)]
    others = [one for one in every if one not in same]
    return same + (others if len(others) == 1 and all(one.origin in _DERIVED for one in same) else [])
