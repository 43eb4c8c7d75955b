"""Forgetting with a receipt: what was remembered of a text is erased everywhere, and then looked for in every byte.

The order survives a crash anywhere. What is to be erased is written down first (and buried, so that nothing learns it
meanwhile); MEMORY.md goes before the ledger of its lines, so that no line is ever taken for one that the owner wrote;
every step may be repeated, and the next call repeats them all. What was written down goes last.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from daemon.dream.progress import Step
from daemon.upkeep.forget_proof import changed_in, contents, lines_with, name_of, of_the_owner, searched
from daemon.workspace.adoption import unvouch, vouched
from daemon.workspace.stores import Store
from state.document.document import parse
from state.errors import UsageError
from state.forgetting.matching import Cut, Target, spans
from state.forgetting.placed_words import worded
from state.forgetting.respelt import RECOGNISED
from state.scratch import Note
from state.stores.database.connection import transaction
from state.stores.database.tombstones import TombstoneStore, tombstones_of
from state.stores.erasing import files
from state.stores.erasing.byte_search import Patterns, Residue
from state.stores.erasing.intent import digest, finish, intend, intended, keep_receipt, rows_intended
from state.stores.erasing.plan import Erasure
from state.stores.erasing.tables import Made, empty_log, erase, joined_erasures, made_from, planned, scrub, sound

_CRYSTAL = re.compile(r"[0-9a-f]{32}")
_LINE = re.compile(r"[Ll]\d+")
_DERIVED_ROUNDS = 5
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Where it was: a file, or a table of state.db, and in how many of its lines, notes, rows or records."""

    place: str
    count: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was forgotten, without the text of it.

    `words`: of all texts together. `traces`: where it was. `crystals` and `pointers` went or changed. `made_from`:
    what was made of it in other words, erased only where `derived` says so. `would_go`: of a dry run, what would go.
    `files`, `bytes`: what was searched afterwards. `left`: what was found all the same, and why. `clean`: nothing of
    that is dreamd's. `went_on`: an earlier call was interrupted, and is finished with this one. `recognised`: the
    forms in which it is known again.
    """

    at: datetime
    digest: str
    words: int
    cut: str
    dry_run: bool
    derived: bool
    traces: tuple[Occurrence, ...]
    crystals: int
    pointers: int
    made_from: tuple[Made, ...]
    would_go: tuple[str, ...]
    files: int
    bytes: int
    left: tuple[Residue, ...]
    clean: bool
    went_on: bool
    lifted: bool = False
    recognised: str = RECOGNISED


@dataclass(frozen=True, slots=True)
class _Plan:
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


def forget(
    store: Store, wish: ForgetRequest, now: datetime, told: Callable[[Step], None] = lambda _: None
) -> Receipt:
    """Forget it everywhere. Raises UsageError when there is nothing to forget, and what the disk fails with.

    Whatever it raises after the beginning: what was begun is written down, and the next call goes on with it.
    """
    connection = store.crystals.connection
    sound(connection)
    _settle(store, now)
    begun = intended(connection)
    for path in files.logs(store.workspace) if begun else ():
        files.write_rows(store.disk, path, rows_intended(connection))
    plan = _plan(store, wish, begun)
    erasure = plan.erasure
    told(Step("plan", f"{len(erasure.renamed)} crystals hold it"))
    with transaction(connection):
        store.check()
        intend(connection, erasure)
        for target in plan.unlearnt:
            TombstoneStore(connection).block(target, now)
    traces: Counter[str] = Counter()
    _files_first(store, erasure, traces, now)
    told(Step("files", "MEMORY.md and the log of notes"))
    with transaction(connection):
        store.check()  # a process that was stopped until now, and displaced, writes nothing more
        erasure = joined_erasures(erasure, planned(connection, erasure.targets, erasure.cut))
        intend(connection, erasure)
        counts = erase(connection, erasure, now)
    _places(counts, traces)
    _files_after(store, erasure, traces)
    told(Step("history", "state.db, the history, checkpoints, the vector index"))
    embedder = store.embedder() if counts["crystals"] else None
    while embedder and store.crystals.vectors.embed_pending(embedder):
        pass
    figures = {"crystals": len(erasure.renamed), "pointers": len(erasure.keywords), "places": len(traces)}
    store.check()
    keep_receipt(connection, now, digest(connection, erasure.targets), figures)
    scrub(connection)
    finish(connection)
    empty_log(connection)
    told(Step("verify", "every byte is searched"))
    proof = searched(store, erasure, plan.surfaces)
    _forget_cached(store)
    return Receipt(
        at=now,
        digest=digest(connection, erasure.targets),
        words=sum(len(target.words) for target in erasure.targets),
        cut=erasure.cut.value,
        dry_run=False,
        derived=wish.derived,
        traces=tuple(Occurrence(place, count) for place, count in sorted(traces.items()) if count),
        crystals=figures["crystals"],
        pointers=figures["pointers"],
        made_from=plan.made,
        would_go=(),
        files=proof.files,
        bytes=proof.bytes,
        left=proof.left,
        clean=all(one.owners for one in proof.left),
        went_on=begun is not None,
    )


def rehearse(store: Store, wish: ForgetRequest, now: datetime) -> Receipt:
    """What forgetting it would do; nothing is written."""
    connection = store.crystals.connection
    begun = intended(connection)
    plan = _plan(store, wish, begun)
    erasure = plan.erasure
    traces: Counter[str] = Counter()
    for path, content in contents(store):
        traces[_place(store, path)] += changed_in(store, path, content, erasure)
    connection.execute("BEGIN IMMEDIATE")
    try:
        _places(erase(connection, erasure, now), traces)
    finally:
        connection.execute("ROLLBACK")
    return Receipt(
        at=now,
        digest=digest(connection, erasure.targets),
        words=sum(len(target.words) for target in erasure.targets),
        cut=erasure.cut.value,
        dry_run=True,
        derived=wish.derived,
        traces=tuple(Occurrence(place, count) for place, count in sorted(traces.items()) if count),
        crystals=len(erasure.renamed),
        pointers=len(erasure.keywords),
        made_from=plan.made,
        would_go=_would_go(store, erasure),
        files=0,
        bytes=0,
        left=tuple(of_the_owner(store, Patterns(erasure.targets))),
        clean=True,
        went_on=False,
    )


def lift(store: Store, text: str, now: datetime) -> Receipt:
    """It may be learnt again from now on; what was erased does not come back. Raises UsageError without words."""
    target = Target.of(text)
    connection = store.crystals.connection
    done = TombstoneStore(connection).unblock(target)
    return Receipt(
        now, digest(connection, (target,)), len(target.words), "", dry_run=False, derived=False, traces=(),
        crystals=0, pointers=0, made_from=(), would_go=(), files=0, bytes=0, left=(), clean=True, went_on=False,
        lifted=done,
    )  # fmt: skip


def _settle(store: Store, now: datetime) -> None:
    """Nothing is under way: commits are finished, and a dream that was interrupted is over; its notes are pending."""
    store.journal.recover()
    while (run := store.ledger.unfinished()) is not None:
        store.ledger.end(run.id, "failed", "interrupted, and ended by a forgetting", now)


def _plan(store: Store, wish: ForgetRequest, begun: Erasure | None) -> _Plan:
    """What this wish, and one that was begun, come to."""
    connection = store.crystals.connection
    if not wish.text.strip() and begun is None:
        raise UsageError("what is to be forgotten? give a text, or the id of a crystal, a line or a memory")
    wanted = _meant(store, wish.text) if wish.text.strip() else ()
    cut = begun.cut if begun is not None and not wanted else wish.cut
    unlearnt = tuple(dict.fromkeys(map(Target.of, wanted)))
    targets = tuple(dict.fromkeys((*(begun.targets if begun else ()), *unlearnt)))
    erasure = planned(connection, targets, cut)
    made = made_from(connection, erasure)
    found = made
    for _ in range(_DERIVED_ROUNDS):
        if not (wish.derived and found):
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
    return _Plan(replace(erasure, targets=targets), made, surfaces, unlearnt)


def _other_spellings(store: Store, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """What says the same in other spellings where it is remembered, each as a text of its own."""
    known = tombstones_of(targets)
    found: dict[Target, None] = {}
    for text in _remembered(store):
        there = spans(text, targets)
        for start, end in known.found(text):
            if (start, end) not in there:
                around = [(at, stop) for _, at, stop in worded(text) if at < end and start < stop]
                found[Target.of(text[around[0][0] : around[-1][1]])] = None
        if len(found) > _SHOWN:
            break
    return tuple(found)


def _remembered(store: Store) -> Iterator[str]:
    """The texts of notes, crystals, lines and items, and the names of files that a hook has named."""
    for statement in ("SELECT text FROM crystals", "SELECT text FROM lines", "SELECT content FROM items"):
        yield from (row[0] for row in store.crystals.connection.execute(statement))
    yield from (note.text for note in store.segments.pending_notes())
    yield from (store.disk.read_if_there(store.workspace.document) or b"").decode(errors="replace").splitlines()
    yield from sorted(vouched(store.workspace))


def _meant(store: Store, text: str) -> tuple[str, ...]:
    """The texts that are meant: the text itself, or that of the crystal, line or memory with this id."""
    asked = text.strip()
    if _CRYSTAL.fullmatch(asked) and (crystals := store.crystals.get([asked])):
        return tuple(crystal.text for crystal in crystals)
    if _LINE.fullmatch(asked) and (life := store.lineage.life(asked.upper())) and life.text:
        return (life.text,)
    row = store.crystals.connection.execute("SELECT content FROM items WHERE id = ?", (asked,)).fetchone()
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


def _files_first(store: Store, erasure: Erasure, traces: Counter[str], now: datetime) -> None:
    """MEMORY.md, what it was before the first dream, and the log of notes."""
    workspace, disk = store.workspace, store.disk
    for path in (workspace.document, workspace.backup):
        if path.exists():
            lines = lines_with(disk.read_bytes(path), erasure)
            traces[path.name] += max(lines, int(files.erase_document(disk, path, erasure)))
    if erasure.cut is Cut.WORDS:
        _note_anew(store, erasure, now)
    logs = list(files.logs(workspace))
    rows = {path: files.log_rows(disk, path, erasure) for path in logs}
    intend(store.crystals.connection, erasure, [row for found in rows.values() for row in found])
    for path in logs:
        traces[name_of(store, path)] += bool(rows[path])
        files.write_rows(disk, path, rows[path])


def _note_anew(store: Store, erasure: Erasure, now: datetime) -> None:
    """What is left of a pending note is noted anew: a mark may be longer than the words in whose place it stands."""
    pending = store.segments.pending_notes()
    known = {note.text for note in pending}
    for note in pending:
        if erasure.holds(note.text):
            left = erasure.prose(note.text)
            if left and left not in known:
                known.add(left)
                fresh = Note(left, min(note.at, now), note.importance, note.auto)
                store.segments.append(fresh, store.config.secrets.redaction)


def _files_after(store: Store, erasure: Erasure, traces: Counter[str]) -> None:
    """The history, whatever else is in the state folder, checkpoints, and the vector index, which is built anew."""
    workspace, disk, connection = store.workspace, store.disk, store.crystals.connection
    for path in files.records(workspace):
        changed, committed = files.erase_record(disk, path, erasure)
        traces[_place(store, path)] += changed
        if committed is not None:
            connection.execute(
                "UPDATE versions SET digest = ?, characters = ? WHERE number = ? AND digest <> ?",
                (committed.digest, committed.characters, committed.number, committed.digest),
            )
    needles = Patterns(erasure.targets, ids=erasure.renamed)
    for path in files.others(workspace, disk):
        traces[_place(store, path)] += files.erase_other(disk, path, erasure, needles)
    traces["transcripts"] += unvouch(workspace, erasure.holds)
    traces["checkpoints"] += _held(workspace.checkpoints, needles)
    files.empty_folder(disk, workspace.checkpoints)
    if erasure.renamed:
        store.indexing.drop()


def _held(folder: Path, needles: Patterns) -> int:
    return sum(needles.count_file(path, most=1)[0] for path in folder.rglob("*") if path.is_file())


def _place(store: Store, path: Path) -> str:
    """How the receipt calls it."""
    for folder in (store.workspace.history, store.workspace.checkpoints):
        if path.is_relative_to(folder):
            return folder.name
    return name_of(store, path)


def _places(counts: Counter[str], traces: Counter[str]) -> None:
    for table, count in counts.items():
        traces[f"state.db: {table}"] += count


def _forget_cached(store: Store) -> None:
    """What this process remembers of texts that it has embedded."""
    store.embedding.forget_texts()


def _would_go(store: Store, erasure: Erasure) -> tuple[str, ...]:
    """Lines, notes and crystals that hold it, each once."""
    text = (store.disk.read_if_there(store.workspace.document) or b"").decode(errors="replace")
    lines = [block.text for part in parse(text).parts for block in part.lines]
    notes = [note.text for note in store.segments.pending_notes()]
    crystals = [crystal.text for crystal in store.crystals.get(erasure.renamed)]
    held = [one for one in (*lines, *notes, *crystals) if erasure.line(one) != one]
    return tuple(dict.fromkeys(held))[:_SHOWN]
