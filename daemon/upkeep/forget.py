"""Forget: erases a text everywhere, then searches every byte of state for it, and returns a receipt.

The order of steps survives a crash anywhere. The plan is stored first, and blocks the text from being learned again.
MEMORY.md is erased before the ledger of its lines, so that no line is mistaken for one that the owner wrote. Every
step may be repeated, and the next call repeats them all. The plan is deleted last.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from sqlite3 import Connection

from daemon.dream.progress import Step
from daemon.ingest.notes import absorb_notes
from daemon.upkeep.forget_plan import ForgetRequest, Plan, Said, plan_of, said_in
from daemon.upkeep.forget_proof import left_in_file, name_of, notes_with, of_the_owner, searched
from daemon.workspace.adoption import unvouch
from daemon.workspace.document import settle_document
from daemon.workspace.retention import copy_if_due
from daemon.workspace.searching import embedder_of
from daemon.workspace.stores import Store
from state.errors import StorageError
from state.forgetting.known import RECOGNISED, Target
from state.stores.database.connection import transaction
from state.stores.database.copies import broken_page
from state.stores.database.tombstones import TombstoneStore
from state.stores.disk.disk import LONGEST_LOG
from state.stores.erasing import files
from state.stores.erasing.byte_search import Needles, Residue
from state.stores.erasing.intent import digest, finish, intend, intended, keep_receipt
from state.stores.erasing.plan import Erasure
from state.stores.erasing.tables import empty_log, erase, scrub
from state.stores.history.ledger import Ledger
from state.stores.history.memory import Memory
from state.stores.history.originals import Originals
from state.text.words import counted


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place of the text: a file or table of state.db, and how many of its lines, notes, rows or records have it."""

    place: str
    count: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was forgotten, without its text.

    `words`: how many words all texts have together. `traces`: where they were. `crystals`, `pointers`: how many were
    deleted or changed. `texts`: what a dry run would delete. `kept`: how many texts with it stay. `files`, `bytes`:
    how much was searched afterwards. `left`: what was found all the same, and why; `clean`: none of that is dreamd's.
    `went_on`: this call also finished an interrupted one. `recognised`: the spellings that will be recognised.
    """

    at: datetime
    digest: str
    words: int
    cut: str = ""
    dry_run: bool = False
    traces: tuple[Occurrence, ...] = ()
    crystals: int = 0
    pointers: int = 0
    texts: tuple[Said, ...] = ()
    kept: int = 0
    files: int = 0
    bytes: int = 0
    left: tuple[Residue, ...] = ()
    clean: bool = True
    went_on: bool = False
    lifted: bool = False
    recognised: str = RECOGNISED


def forget(
    store: Store, request: ForgetRequest, now: datetime, on_step: Callable[[Step], None] = lambda _: None
) -> Receipt:
    """Erase a text everywhere, search every byte for it, and return the receipt.

    Raise UsageError if there is nothing to forget, and errors of the disk. Once the plan is stored, an error leaves
    the forgetting unfinished, and the next call continues it.
    """
    connection = store.connection
    if wrong := broken_page(connection):  # a damaged database must not be rewritten
        raise StorageError(f"state.db is damaged ({wrong})", "run 'dreamd doctor'")
    _end_interrupted(store.memory, store.ledger, now)
    settle_document(store)
    store.notes.wipe()  # finish a wipe that was cut off
    absorb_notes(store, now, most=None)  # so that every note is a row
    begun = intended(connection)
    plan = plan_of(store, request, begun)
    on_step(Step("plan", counted(len(plan.erasure.sought), "text")))
    with transaction(connection):
        store.memory.check()
        intend(connection, plan.erasure)
        for target in plan.unlearnt:
            TombstoneStore(connection).block(target, now)
    traces = _in_files(store, plan, now)
    for path in (store.workspace.document, store.workspace.backup):
        if path.exists():
            files.erase_document(store.memory.disk, path, plan.erasure)
    on_step(Step("files", "MEMORY.md"))
    traces += _erase_database(store, plan.erasure, now)
    if store.notes.wipe():
        absorb_notes(store, now, most=None)  # notes that were filed again must be rows before state.db is copied
        store.memory.show_notes(anew=True)
    _erase_others(store, plan)
    on_step(Step("history", "state.db, checkpoints, the vector index"))
    receipt = _receipt(store.connection, plan, traces, now)
    _finish(store, receipt, embeds=bool(traces["state.db: crystals"]))
    on_step(Step("verify", "every byte is searched"))
    proof = searched(store, plan.erasure, plan.surfaces)
    return replace(
        receipt,
        files=proof.files,
        bytes=proof.bytes,
        left=proof.left,
        clean=all(one.owners for one in proof.left),
        went_on=begun is not None,
    )


def preview_forget(store: Store, request: ForgetRequest, now: datetime) -> Receipt:
    """Return the receipt that a forgetting would have, without writing. Raise UsageError without a text."""
    connection = store.connection
    plan = plan_of(store, request, intended(connection))
    erasure = plan.erasure
    traces = _in_files(store, plan, now)
    connection.execute("BEGIN IMMEDIATE")
    try:
        traces += erase(connection, erasure, now)
    finally:
        connection.execute("ROLLBACK")
    waiting = {one.text for one in store.notes.each_unread() if erasure.holds(one.text)}
    waiting -= {row["text"] for row in connection.execute("SELECT text FROM crystals WHERE origin = 'scratch'")}
    receipt = _receipt(store.connection, plan, traces, now)
    return replace(
        receipt,
        dry_run=True,
        crystals=receipt.crystals + len(waiting),
        texts=said_in(store, plan),
        left=tuple(of_the_owner(store, Needles(erasure.sought, plan.surfaces))),
    )


def _receipt(connection: Connection, plan: Plan, traces: Counter[str], now: datetime) -> Receipt:
    """Return the receipt of this plan, before the search for what is left."""
    erasure = plan.erasure
    return Receipt(
        at=now,
        digest=digest(connection, erasure.sought),
        words=sum(len(target.words) for target in erasure.sought),
        cut=erasure.cut.value,
        traces=tuple(Occurrence(place, count) for place, count in sorted(traces.items()) if count),
        crystals=traces["state.db: crystals"],
        pointers=traces["state.db: pointers"],
        kept=len(erasure.targets) - len(erasure.sought),
    )


def unforget(connection: Connection, text: str, now: datetime) -> Receipt:
    """Allow a text to be learned again; erased texts do not come back. Raise UsageError without words."""
    target = Target.of(text)
    done = TombstoneStore(connection).unblock(text)
    return Receipt(now, digest(connection, (target,)), len(target.words), lifted=done)


def _end_interrupted(memory: Memory, ledger: Ledger, now: datetime) -> None:
    """Finish interrupted commits, and end an interrupted dream as failed, with its notes pending."""
    memory.recover()
    while (run := ledger.unfinished()) is not None:
        ledger.end(run.id, "failed", "interrupted, and ended by a forgetting", now)


def _in_files(store: Store, plan: Plan, now: datetime) -> Counter[str]:
    """Count lines, notes and files with a target, except in state.db and the index."""
    workspace, erasure, traces = store.workspace, plan.erasure, Counter[str]()
    stored, needles = files.database_files(workspace), Needles(erasure.sought, plan.surfaces)
    for path in files.all_files(workspace, store.notes.inbox):
        if path.parent in (workspace.checkpoints, workspace.copies):
            traces[path.parent.name] += needles.count_file(path)[0] > 0
        elif path not in stored and not path.is_relative_to(workspace.index):
            traces[name_of(store.workspace, path)] += left_in_file(store, path, erasure, needles)
    traces["originals"] += sum(erasure.holds(one.text) for one in Originals(workspace).all(now))
    return +traces


def _erase_database(store: Store, erasure: Erasure, now: datetime) -> Counter[str]:
    """Erase the targets in state.db, and plan to wipe the files of notes; return how many rows held one."""
    connection = store.connection
    logs = [store.memory.disk.read_bytes(path, LONGEST_LOG) for path in store.notes.inbox.files()]
    with transaction(connection):
        store.memory.check()  # a displaced process must not write
        store.notes.plan_wipe() if any(notes_with(log, erasure) for log in logs) else store.notes.forget_marks()
        return erase(connection, erasure, now)


def _erase_others(store: Store, plan: Plan) -> None:
    """Delete the other files that hold a target; drop checkpoints, copies and index."""
    workspace, disk, erasure = store.workspace, store.memory.disk, plan.erasure
    unvouch(workspace, erasure.holds)
    files.erase_others(workspace, disk, erasure, Needles(erasure.sought, plan.surfaces))
    Originals(workspace).erase(lambda one: erasure.holds(one.text))
    files.empty_folder(disk, workspace.checkpoints)
    files.empty_folder(disk, workspace.copies)  # copied again once the text and the plan are gone
    store.index.drop(store.crystals)  # ChromaDB's own deletes leave the text in its files


def _finish(store: Store, receipt: Receipt, *, embeds: bool) -> None:
    """Embed changed crystals, store the receipt's figures, empty free pages, and end the forgetting."""
    connection = store.connection
    embedder = embedder_of(store) if embeds else None
    while embedder and store.crystals.vectors.embed_pending(embedder):
        pass
    store.memory.check()
    keep_receipt(connection, receipt.at, receipt.digest, receipt.words, receipt.cut)
    scrub(connection)
    finish(connection)
    empty_log(connection)
    copy_if_due(store, receipt.at, timedelta())
