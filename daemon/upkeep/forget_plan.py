"""Forget plan: the texts and spellings that a request means, and everything to be erased for it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from sqlite3 import Connection

from daemon.workspace.stores import Store
from state.document.document import parse
from state.document.pointer import parse_pointer
from state.errors import UsageError
from state.forgetting.cutting import Cut, sentences
from state.forgetting.folded import fold
from state.forgetting.known import Target, spans
from state.stores.erasing.plan import Erasure
from state.stores.erasing.tables import leading_nowhere, made_from

_CRYSTAL = re.compile(r"[0-9a-f]{32}")
_LINE = re.compile(r"[Ll]\d+")
_DERIVED_ROUNDS = 5
_SHOWN = 200
_FEWEST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A place of a text: a line, a note, a crystal or a session memory, by its id."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Said:
    """A text that is erased whole or in part, and every place with the same words.

    `derived`: it has other words, but was made from the text alone, or the text from it alone.
    """

    places: tuple[Place, ...]
    text: str
    derived: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """An erasure, other wordings of its targets, the texts that contain the targets, and the targets to block."""

    erasure: Erasure
    derived: tuple[Target, ...]
    surfaces: tuple[str, ...]
    unlearnt: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A request to forget a text, or a crystal, line or memory by its id; "" resumes an interrupted forgetting.

    Texts with the same words, or derived from it alone, are forgotten too, except those with an id in `kept`.
    """

    text: str
    cut: Cut = Cut.SENTENCES
    kept: tuple[str, ...] = ()


def plan_of(store: Store, request: ForgetRequest, begun: Erasure | None) -> Plan:
    """Return the plan of a request together with an interrupted forgetting.

    Raise UsageError if there is neither, and for a kept id that would not be erased.
    """
    if not request.text.strip() and begun is None:
        raise UsageError("what is to be forgotten? give a text, or the id of a crystal, a line or a memory")
    plan = _planned(store, request, begun)
    if not request.kept:
        return plan
    said, ids = said_in(store, plan), frozenset(request.kept)
    if unknown := ids - {place.id for one in said for place in one.places}:
        names = ", ".join(sorted(unknown))
        raise UsageError(f"{names}: no text of this id would go", "'dreamd forget --dry-run' lists them")
    is_kept = [any(place.id in ids for place in one.places) for one in said]
    kept = [one.text for one, keep in zip(said, is_kept, strict=True) if keep]
    return _planned(store, request, begun, kept, [one.text for one in said if one.text not in kept])


def said_in(store: Store, plan: Plan) -> tuple[Said, ...]:
    """Return the texts that the plan erases, lines first; texts with the same words are joined."""
    plain = tuple(target for target in plan.erasure.sought if target not in plan.derived)
    found: dict[tuple[str, ...], Said] = {}
    for place, text in _remembered(store):
        if plan.erasure.holds(text):
            derived = not spans(text, plain)
            said = found.setdefault(Target.of(text).words, Said((), text, derived))
            found[Target.of(text).words] = replace(said, places=(*said.places, place))
    return tuple(found.values())


def _planned(
    store: Store, request: ForgetRequest, begun: Erasure | None, kept: Sequence[str] = (), gone: Iterable[str] = ()
) -> Plan:
    """Return the plan; texts in `kept` stay, and those in `gone` are erased although they may contain kept ones."""
    connection = store.connection
    wanted = _texts_of(store, request.text) if request.text.strip() else ()
    cut = begun.cut if begun is not None and not wanted else request.cut
    unlearnt = tuple(map(Target.of, wanted))
    stay = [Target.of(text, kept=True) for text in kept]
    if begun is not None:  # a text kept then may be the one to forget now
        stay += [one for one in begun.targets if one.kept and not spans(" ".join(one.words), unlearnt)]
    plain = list(dict.fromkeys((*(begun.sought if begun else ()), *unlearnt)))
    targets, words = list(plain), {one.words for one in stay}
    for round_ in range(_DERIVED_ROUNDS if cut is Cut.SENTENCES else 0):
        found = made_from(connection, Erasure((*targets, *stay), cut))
        found += [] if round_ else [*_within(store, wanted), *_sources(store.connection, request.text)]
        new = [one for one in map(Target.of, found) if one.words not in words and one not in targets]
        if not new:
            break
        targets += dict.fromkeys(new)
    if stay and cut is Cut.SENTENCES:
        targets += [one for text in gone for one in _whole(text, targets, kept)]
    targets += map(Target.of, leading_nowhere(connection, Erasure((*targets, *stay), cut)))
    derived = tuple(dict.fromkeys(targets[len(plain) :]))
    erasure = Erasure(tuple(dict.fromkeys((*targets, *stay))), cut)
    blocked = (one for one in (*unlearnt, *derived) if not any(spans(text, (one,)) for text in kept))
    # The targets of an interrupted forgetting are blocked already.
    surfaces = (*wanted, *_spellings(store, tuple(targets)))
    return Plan(erasure, derived, surfaces, tuple(dict.fromkeys(blocked)))


def _whole(text: str, targets: Sequence[Target], kept: Sequence[str]) -> Iterator[Target]:
    """Yield the sentences of a text that contain a target; the whole text if a kept text has that sentence too."""
    for start, end in sentences(text):
        if spans(text[start:end], targets):
            sentence = Target.of(text[start:end])
            yield Target.of(text) if any(spans(one, (sentence,)) for one in kept) else sentence


def _within(store: Store, wanted: Sequence[str]) -> Iterator[str]:
    """Yield remembered texts that make up at least half of one of these, word by word."""
    whole = [Target.of(text).words for text in wanted]
    for _, text in _remembered(store):
        words = fold(text).words
        if len(words) >= _FEWEST_WORDS and any(
            len(one) <= 2 * len(words) < 2 * len(one) and f" {' '.join(words)} " in f" {' '.join(one)} "
            for one in whole
        ):
            yield text


def _sources(connection: Connection, name: str) -> Iterator[str]:
    """Yield the crystals that are evidence of this line alone."""
    if _LINE.fullmatch(name.strip()):
        rows = connection.execute(
            "SELECT text FROM evidence JOIN crystals ON crystals.id = crystal WHERE line = ?1"
            " AND NOT EXISTS (SELECT 1 FROM evidence other JOIN lines ON lines.id = other.line"
            " WHERE other.crystal = evidence.crystal AND other.line <> ?1 AND died_in IS NULL)",
            (name.strip().upper(),),
        )
        yield from (row["text"] for row in rows)


def _remembered(store: Store) -> Iterator[tuple[Place, str]]:
    """Yield every line except pointers, pending note, crystal and session memory, with its text."""
    known = {line.text: line.id for line in store.lineage.current_lines()}
    document = (store.memory.disk.read_optional(store.workspace.document) or b"").decode(errors="replace")
    for block in (block for part in parse(document).parts for block in part.lines):
        if fold(block.text).words and parse_pointer(block.text) is None:
            yield Place("line", known.get(block.text) or named(block.text)), block.text
    for note in store.notes.each_pending():
        if fold(note.text).words:
            yield Place("note", named(note.text)), note.text
    for kind, statement in (
        ("crystal", "SELECT id, text FROM crystals"),
        ("memory", "SELECT id, content FROM items"),
    ):
        rows = store.connection.execute(statement)
        yield from ((Place(kind, id_), text) for id_, text in rows if fold(text).words)


def named(text: str) -> str:
    """Return a stable id for a text without one."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _texts_of(store: Store, text: str) -> tuple[str, ...]:
    """Return the text, or if it is an id, the text of that crystal, line or memory."""
    name = text.strip()
    if _CRYSTAL.fullmatch(name) and (crystals := store.crystals.get([name])):
        return tuple(crystal.text for crystal in crystals)
    if _LINE.fullmatch(name) and (life := store.lineage.life(name.upper())) and life.text:
        return (life.text,)
    row = store.connection.execute("SELECT content FROM items WHERE id = ?", (name,)).fetchone()
    if row is not None and row["content"]:
        return (row["content"],)
    return (text,)


def _spellings(store: Store, targets: tuple[Target, ...]) -> Iterator[str]:
    """Yield the spellings of the targets in remembered texts; few, since most words have one spelling."""
    found = (text[start:end] for _, text in _remembered(store) for start, end in spans(text, targets))
    return islice(found, _SHOWN)
