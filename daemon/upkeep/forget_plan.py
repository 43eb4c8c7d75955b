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
    """What is to be erased, what was made from it, in which texts it was met, and what is not to be learnt again."""

    erasure: Erasure
    made: tuple[Made, ...]
    surfaces: tuple[str, ...]
    unlearnt: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What is to be forgotten: a text, or the id of a crystal, a line or a memory; "" goes on with what was begun."""

    text: str
    cut: Cut = Cut.SENTENCES
    derived: bool = False


def plan_of(store: Store, request: ForgetRequest, begun: Erasure | None) -> Plan:
    """The plan of this request together with a forgetting that was begun. Raises UsageError when there is neither."""
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
    # What was begun is buried already, and another spelling is found by what it spells.
    return Plan(replace(erasure, targets=targets), made, surfaces, unlearnt)


def _other_spellings(store: Store, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """What says the same in other spellings where it is remembered, each as a text of its own."""
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
    yield from (note.text for note in store.segments.pending_notes())
    yield from (store.disk.read_if_there(store.workspace.document) or b"").decode(errors="replace").splitlines()
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
    """How it is spelt where it stands: only a few, since most words are spelt in one way."""
    shown = 0
    for statement in ("SELECT text FROM crystals", "SELECT text FROM lines", "SELECT content FROM items"):
        for row in store.crystals.connection.execute(statement):
            for start, end in spans(row[0], targets):
                yield row[0][start:end]
                shown += 1
            if shown > _SHOWN:
                return


def would_go(store: Store, erasure: Erasure) -> tuple[str, ...]:
    """Lines, notes and crystals that hold it, each once."""
    text = (store.disk.read_if_there(store.workspace.document) or b"").decode(errors="replace")
    lines = [block.text for part in parse(text).parts for block in part.lines]
    notes = [note.text for note in store.segments.pending_notes()]
    crystals = [crystal.text for crystal in store.crystals.get(erasure.renamed)]
    held = [one for one in (*lines, *notes, *crystals) if erasure.line(one) != one]
    return tuple(dict.fromkeys(held))[:_SHOWN]
