"""A commit beside others: an owner who edits MEMORY.md meanwhile wins, and the other lines of the dream apply.

Whoever was stopped half-way and displaced changes nothing; a full database costs no note.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from daemon.workspace.stores import Store, utc_now
from state.document.operations import Action
from state.errors import FencedError
from state.scratch import Note
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_unmigrated
from state.stores.database.opening import open_database
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace, contained
from state.stores.history.inbox import NoteInbox
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from tests.support.committing import (
    BY_HAND,
    FURTHER,
    NEW_NOTES,
    OLD_NOTES,
    Prepared,
    added,
    cut_off,
    dreamt,
    is_committed,
    lines,
    no_waiting,  # noqa: F401 - a fixture
    opened,
    places,
    prepared,
    without,
    write,
)
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share
from tests.support.long_variants import is_whole

PORT, TEA, LEDGER = OLD_NOTES


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A dream that is to be committed."""
    return prepared(tmp_path_factory.mktemp("commit") / "agent")


@pytest.mark.full
def test_a_database_that_is_full_at_any_page_loses_no_note(waiting: Prepared, tmp_path: Path) -> None:
    notes = [f"Note {number}: {chr(97 + number) * 900}" for number in range(8)]  # state.db has to grow for them
    every = dict.fromkeys((*OLD_NOTES, *NEW_NOTES, *notes), 1)
    full, spare = True, 0
    while full:
        workspace = waiting.copy(tmp_path / str(spare))
        with opened(workspace) as store:
            connection = store.connection
            connection.execute("VACUUM")
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + spare}")
            try:
                dreamt(store, *notes)
                full = False
            except sqlite3.OperationalError as error:
                assert "full" in str(error)  # noqa: PT017 - the last run raises nothing
        with opened(workspace) as store:
            assert places(store) == every
            dreamt(store, FURTHER)
            if tuple(store.notes.each_pending()):  # the interrupted dream went on with what it had read
                dreamt(store)
            assert tuple(store.notes.each_pending()) == ()
            assert places(store) == {**every, FURTHER: 1}
        shutil.rmtree(workspace.root)
        spare += 1
    assert spare > 5


# --------------------------------------------------- the owner edits MEMORY.md at the worst moments

NEW_PORT, GOAL, FAILED = NEW_NOTES
TYPED = "Call the dentist on Friday"
LATER = "The red bicycle is in the cellar"
GREEN = "Ada prefers green tea over coffee in the morning"


@dataclass(frozen=True, slots=True)
class Edit:
    """What the owner does to the text, and what must be so ever after."""

    change: Callable[[str], str]
    stays: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


ADDS = Edit(lambda text: added(text, TYPED), stays=(TYPED, LEDGER))
DELETES = Edit(lambda text: without(text, LEDGER), gone=(LEDGER,))
REWRITES = Edit(lambda text: text.replace(TEA, GREEN), stays=(GREEN,), gone=(TEA,))
EDITS = {"adds": ADDS, "deletes": DELETES, "rewrites": REWRITES}
FOLLOWS = Edit(lambda text: added(text, LATER), stays=(LATER, LEDGER))


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A dream that is to be committed, where the note about the port names the line that it replaces."""
    root = prepared(tmp_path_factory.mktemp("edits") / "agent").root
    with opened(contained(root)) as store:
        store.notes.inbox.append(Note(NEW_PORT, utc_now(), 0.8, replaces=PORT))
        store.ledger.end(store.ledger.runs(1)[0].id, "failed", "cut off", utc_now())
        dream = cut_off(store)
    assert any(operation.action is Action.REVISE for operation in dream.operations)
    return Prepared(root, dream)


Saves = list[Callable[[str], str]]


@dataclass
class FaultyInterrupting(FaultySystem):
    """The same, and a fault at one of the calls."""

    saves: Saves = field(default_factory=list)

    def exchange(self, one: Path, other: Path, /) -> None:
        if other.name == "MEMORY.md" and self.saves:
            write(contained(self.root), self.saves.pop(0))
        super().exchange(one, other)


def assert_wins(store: Store, *edits: Edit, dreams: int = 1) -> None:
    """Now and after a further dream: the owner's lines as they were left, the dream's other lines beside them."""
    gone = {one for edit in edits for one in edit.gone}
    stays = {BY_HAND, GOAL, FAILED, *(one for edit in edits for one in edit.stays)} - gone
    for turn in range(dreams + 1):
        found = lines(store.workspace)
        assert stays <= set(found)
        assert not gone & set(found)
        assert len(found) == len(set(found))
        if turn < dreams:
            dreamt(store, FURTHER if turn == 0 else f"{FURTHER} for the {turn + 1}th time")
    assert tuple(store.notes.each_pending()) == ()
    assert {note: places(store)[note] for note in (*OLD_NOTES, *NEW_NOTES)} == dict.fromkeys(
        (*OLD_NOTES, *NEW_NOTES), 1
    )


def test_a_line_that_is_deleted_while_the_dream_revises_it_stays_deleted(edited: Prepared, tmp_path: Path) -> None:
    workspace = edited.copy(tmp_path / "agent")
    write(workspace, lambda text: without(text, PORT))
    with opened(workspace) as store:
        store.memory.commit(edited.dream)
        assert {GOAL, FAILED} <= set(lines(workspace))
        dreamt(store, FURTHER)
        assert store.lineage.tombstones() == [PORT]
        dreamt(store, f"{PORT}!")
        assert not any(line.startswith("The staging server") for line in lines(workspace))


@pytest.mark.full
@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("saved", EDITS)
@pytest.mark.parametrize("before_the_swap", [False, True])
def test_edits_before_the_swap_and_between_a_crash_and_its_recovery_win(
    edited: Prepared, saved: str, *, before_the_swap: bool
) -> None:
    """Before the swap one, and then another that follows it."""
    edit, last = EDITS[saved], FOLLOWS if before_the_swap else EDITS[saved]

    def scenario(system: FaultyInterrupting) -> None:
        workspace = contained(system.root)
        system.saves = [edit.change] if before_the_swap else []
        with suppress(PowerCut), opened(workspace, system) as store:
            store.memory.commit(edited.dream)
        decided, was_saved = is_committed(workspace, edited.dream), before_the_swap and not system.saves
        write(workspace, last.change)
        with opened(workspace) as store:
            if decided:
                assert_wins(store, last, *([edit] if was_saved else []))
            else:
                assert workspace.document.read_text(encoding="utf-8") == last.change(edited.dream.before)

    runs = every_fault((Fault.TORN_CRASH, Fault.CRASH), edited.copied, scenario, FaultyInterrupting)
    assert runs > share(30)


@pytest.mark.full
def test_a_second_crash_while_recovering_an_edit_loses_nothing(edited: Prepared, tmp_path: Path) -> None:
    """The owner's save is taken out by the swap, the power goes; during recovery it goes again, at every call."""

    def until_taken_out(workspace: Workspace) -> None:
        for fail_at in range(100):
            shutil.rmtree(workspace.root, ignore_errors=True)
            edited.copy(workspace.root)
            write(workspace, DELETES.change)
            system = FaultyInterrupting(workspace.root, fail_at, Fault.TORN_CRASH, saves=[ADDS.change])
            with suppress(PowerCut), opened(workspace, system) as store:
                store.memory.commit(edited.dream)
            if not system.saves:
                return

    until_taken_out(contained((tmp_path / "once").resolve()))

    def scenario(system: FaultySystem) -> None:
        workspace = contained(system.root)
        with suppress(PowerCut), closing(open_database(workspace.database)) as connection:
            disk = Disk(workspace.root, system)
            stores = Crystals(connection), Lineage(connection), Notes(NoteInbox(workspace, disk), connection)
            Memory(workspace, disk, *stores, check=lambda: None).recover()
        with opened(workspace) as store:
            assert_wins(store, Edit(str, stays=(TYPED,)), DELETES)

    once = partial(shutil.copytree, tmp_path / "once")
    assert every_fault((Fault.CRASH, Fault.TORN_CRASH), once, scenario) > share(20)


# --------------------------------------------------- two owners: the stopped one was displaced

LAST = "The cat is called Miez"


def displace(workspace: Workspace) -> None:
    """What a new owner does to the lock of a stopped one: another file takes its name."""
    fresh = workspace.lock.with_name("lock.new")
    fresh.touch(mode=0o600)
    fresh.replace(workspace.lock)


@dataclass
class Overtaken(FaultySystem):
    """At the chosen call this process is stopped for a while: what `meanwhile` does happens before the call."""

    meanwhile: Callable[[], None] = field(default=lambda: None)

    def _meet(self, name: str, _torn: Callable[[], None]) -> None:
        chosen = self._is_next()
        self.calls.append(name)
        if chosen:
            self.meanwhile()


def assert_consistent(workspace: Workspace, *notes: str) -> None:
    """The file is the last version's text, no line was taken for deleted, each note was consumed once."""
    with opened(workspace) as store:
        assert workspace.document.read_text(encoding="utf-8") == store.memory.text(store.lineage.last_version())
        dreamt(store, LAST)
        assert {FURTHER, LAST, *NEW_NOTES} <= set(lines(workspace))
        assert store.lineage.tombstones() == []
        assert tuple(store.notes.each_pending()) == ()
        assert places(store) == dict.fromkeys((*OLD_NOTES, *NEW_NOTES, *notes, LAST), 1)
        assert all(run.outcome == "committed" for run in store.ledger.runs(10))


@pytest.mark.full
def test_an_owner_that_is_displaced_before_any_call_of_its_commit_changes_nothing(waiting: Prepared) -> None:
    fenced = 0

    def scenario(system: Overtaken) -> None:
        nonlocal fenced
        workspace = contained(system.root)

        def meanwhile() -> None:
            displace(workspace)
            with opened(workspace) as new_owner:
                # Finishes what was decided, or goes on with the dream that was under way; then dreams again.
                with suppress(FencedError):
                    new_owner.memory.commit(waiting.dream)
                dreamt(new_owner, FURTHER)

        system.meanwhile = meanwhile
        with opened(workspace, system) as store:
            try:
                store.memory.commit(waiting.dream)
            except FencedError:
                fenced += 1
        if not system.met:
            with opened(workspace) as store:
                dreamt(store, FURTHER)
        assert_consistent(workspace, FURTHER)

    runs = every_fault((Fault.CRASH,), waiting.copied, scenario, Overtaken)
    assert runs > share(15)
    assert fenced > (runs / 2 if is_whole() else share(15))


def test_an_owner_that_is_displaced_before_any_transaction_of_its_commit_changes_nothing(
    edited: Prepared, tmp_path: Path
) -> None:
    """Nobody does anything meanwhile: what is in its way is that it asks whether it is the owner."""

    def found(workspace: Workspace) -> list[object]:
        with open_unmigrated(workspace.database) as connection:
            rows = [tuple(row) for row in connection.execute("SELECT * FROM versions")]
            return [*rows, *map(tuple, connection.execute("SELECT * FROM document")), workspace.document.read_text()]

    for nth in count():
        workspace, begun, before = edited.copy(tmp_path / str(nth)), count(), list[list[object]]()
        write(workspace, ADDS.change)

        def begins(statement: str, workspace: Workspace = workspace, nth: int = nth) -> None:
            if statement.startswith("BEGIN") and next(begun) == nth:  # noqa: B023
                displace(workspace)
                before.append(found(workspace))  # noqa: B023

        with opened(workspace) as store:
            store.crystals.connection.set_trace_callback(begins)
            with suppress(FencedError):
                store.memory.commit(edited.dream)
            store.crystals.connection.set_trace_callback(None)
        if not before:
            break
        assert [found(workspace)] == before
    assert nth > 2


def test_a_version_that_was_made_in_the_meantime_is_not_overwritten_and_the_next_dream_works(
    waiting: Prepared, tmp_path: Path
) -> None:
    workspace = waiting.copy(tmp_path / "agent")
    with opened(workspace) as store:
        store.memory.commit(waiting.dream)
        with pytest.raises(FencedError, match="version 3 was committed by another process"):
            store.memory.commit(replace(waiting.dream, id="another"))
        dreamt(store, FURTHER)
    assert_consistent(workspace, FURTHER)
