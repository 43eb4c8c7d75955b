"""Forget plan: the texts and spellings that a request means, and everything of the workspace to be erased for it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from daemon.workspace.adoption import vouched
from daemon.workspace.stores import Store
from state.document.document import parse
from state.errors import UsageError
from state.forgetting.matching import Cut, Target, spans
from state.forgetting.placed_words import placed_words
from state.stores.database.tombstones import tombstones_of
from state.stores.erasing.plan import Erasure
from state.stores.erasing.tables import Made, joined_erasures, made_from, planned

_CRYSTAL = re.compile(r"[0-9a-f]{32}")
_LINE = re.compile(r"[Ll]\d+")
_DERIVED_ROUNDS = 5
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Plan:
    """An erasure, what was derived from it, the texts that hold the targets, and the targets to block."""

    erasure: Erasure
    made: tuple[Made, ...]
    surfaces: tuple[str, ...]
    unlearnt: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A request to forget a text, or a crystal, line or memory by its id; "" resumes an interrupted forgetting."""

    text: str
    cut: Cut = Cut.SENTENCES
    derived: bool = False


def plan_of(store: Store, request: ForgetRequest, begun: Erasure | None) -> Plan:
    """The plan of a request together with an interrupted forgetting. Raises UsageError when there is neither."""
    connection = store.crystals.connection
    if not request.text.strip() and begun is None:
        raise UsageError("what is to be forgotten? give a text, or the id of a crystal, a line or a memory")
    wanted = _texts_of(store, request.text) if request.text.strip() else ()
    cut = begun.cut if begun is not None and not wanted else request.cut
    unlearnt = tuple(dict.fromkeys(map(Target.of, wanted)))
    targets = tuple(dict.fromkeys((*(begun.targets if begun else ()), *unlearnt)))
    erasure = planned(connection, targets, cut)
    made = made_from(connection, erasure)
    found = made
    for _ in range(_DERIVED_ROUNDS):
        if not (request.derived and found):
            break
        unlearnt = tuple(dict.fromkeys((*unlearnt, *(Target.of(one.text) for one in found))))
        targets = tuple(dict.fromkeys((*targets, *unlearnt)))
        erasure = planned(connection, targets, cut)
        found = tuple(one for one in made_from(connection, erasure) if one not in made)
        made = (*made, *found)
    if other := _other_spellings(store, targets):
        targets = tuple(dict.fromkeys((*targets, *other)))
        erasure = planned(connection, targets, cut)
    if begun is not None:
        erasure = joined_erasures(begun, erasure)
    surfaces = (*wanted, *_spellings(store, targets))
    # The targets of an interrupted forgetting are blocked already, and other spellings are found by their text.
    return Plan(replace(erasure, targets=targets), made, surfaces, unlearnt)


def _other_spellings(store: Store, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """The targets in other spellings, where they are remembered, each as a target of its own."""
    known = tombstones_of(targets)
    found: dict[Target, None] = {}
    for text in _remembered_texts(store):
        exact = spans(text, targets)
        for start, end in known.found(text):
            if (start, end) not in exact:
                around = [(at, stop) for _, at, stop in placed_words(text) if at < end and start < stop]
                found[Target.of(text[around[0][0] : around[-1][1]])] = None
        if len(found) > _SHOWN:
            break
    return tuple(found)


def _remembered_texts(store: Store) -> Iterator[str]:
    """The texts of notes, crystals, lines and items, and the names of files that a hook has named."""
    for statement in ("SELECT text FROM crystals", "SELECT text FROM lines", "SELECT content FROM items"):
        yield from (row[0] for row in store.crystals.connection.execute(statement))
    yield from (text for note in store.segments.pending_notes() for text in note.texts)
    yield from (store.disk.read_optional(store.workspace.document) or b"").decode(errors="replace").splitlines()
    yield from sorted(vouched(store.workspace))


def _texts_of(store: Store, text: str) -> tuple[str, ...]:
    """The request itself, or the text of the crystal, line or memory whose id it is."""
    name = text.strip()
    if _CRYSTAL.fullmatch(name) and (crystals := store.crystals.get([name])):
        return tuple(crystal.text for crystal in crystals)
    if _LINE.fullmatch(name) and (life := store.lineage.life(name.upper())) and life.text:
        return (life.text,)
    row = store.crystals.connection.execute("SELECT content FROM items WHERE id = ?", (name,)).fetchone()
    if row is not None and row["content"]:
        return (row["content"],)
    return (text,)


def _spellings(store: Store, targets: tuple[Target, ...]) -> Iterator[str]:
    """The spellings of the targets in remembered texts: only a few, since most words are spelt in one way."""
    shown = 0
    for statement in ("SELECT text FROM crystals", "SELECT text FROM lines", "SELECT content FROM items"):
        for row in store.crystals.connection.execute(statement):
            for start, end in spans(row[0], targets):
                yield row[0][start:end]
                shown += 1
            if shown > _SHOWN:
                return


def would_go(store: Store, erasure: Erasure) -> tuple[str, ...]:
    """The lines, notes and crystals that erasing changes, each once."""
    text = (store.disk.read_optional(store.workspace.document) or b"").decode(errors="replace")
    lines = [block.text for part in parse(text).parts for block in part.lines]
    notes = [text for note in store.segments.pending_notes() for text in note.texts]
    crystals = [crystal.text for crystal in store.crystals.get(erasure.renamed)]
    matching = [one for one in (*lines, *notes, *crystals) if erasure.line(one) != one]
    return tuple(dict.fromkeys(matching))[:_SHOWN]
