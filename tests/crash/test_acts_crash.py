"""An act that is cut off anywhere is done or not, whatever cut it off; and then everything goes on.

What a workspace holds after each step of an act is known from a run that nothing befalls. Whatever befalls another
run, it holds one of the two states around the step that was under way, and what was acknowledged stays.
"""

import os
import random
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from daemon.dream.standing import standing_lines
from daemon.ingest.notes import absorb_notes
from daemon.journal.correct import put_right
from daemon.journal.lines import change
from daemon.journal.mentions import subject_of
from daemon.journal.restore import restore
from daemon.journal.undo import undo
from daemon.workspace.retention import copy_if_due, sweep
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction, Wish
from state.document.document import parse
from state.document.sections import SectionName
from state.dream import Dream
from state.errors import BusyError, NotFoundError, StorageError
from state.scratch import Note
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace, contained
from state.stores.history.inbox import NoteInbox
from tests.support import lived
from tests.support.committing import (
    FURTHER,
    OLD_NOTES,
    Prepared,
    added,
    dreamt,
    no_waiting,  # noqa: F401 - a fixture
    opened,
    places,
    prepared,
    write,
)
from tests.support.faults import Fault, FaultySystem, PowerCut, Unsynced, every_fault, images, share
from tests.support.long_variants import fewer
from tests.support.stepping import killed
from tests.support.working import noted

PORT, TEA, LEDGER = OLD_NOTES
MINE, NEW = "Ada prefers cocoa in the morning", "Ada answers in one line"
State = dict[str, Any]
# What is done to a workspace; each step is acknowledged when it is yielded.
Act = Callable[[Store, Dream], Iterator[object]]


def commits(store: Store, dream: Dream) -> Iterator[object]:
    yield store.memory.commit(dream)


def undoes(store: Store, _: Dream) -> Iterator[object]:
    yield undo(store, ["2"])


def changes_lines(store: Store, _: Dream) -> Iterator[object]:
    known = {line.text: line.id for section in standing_lines(store, utc_now()).sections for line in section.lines}
    wishes = [
        Wish(LineAction.EDIT, known[TEA], expected=TEA, text=MINE),
        Wish(LineAction.DELETE, known[PORT], expected=PORT),
        Wish(LineAction.PIN, known[LEDGER], expected=LEDGER),
        Wish(LineAction.ADD, section=SectionName.PHENOTYPE, text=NEW),
    ]
    yield change(store, wishes)


def corrects(store: Store, _: Dream) -> Iterator[object]:
    yield put_right(store, subject_of(store, TEA), MINE, ())


def lives(store: Store, _: Dream) -> Iterator[object]:
    """Notes are appended, taken in, dreamt of, shown, copied and given back."""
    noted(store, "echo is new")
    yield "acknowledged"
    yield absorb_notes(store, utc_now(), most=None)
    yield dreamt(store)
    noted(store, "foxtrot is newer")
    yield "acknowledged"
    copy_if_due(store, utc_now(), timedelta())
    store.memory.show_notes(anew=True)
    yield absorb_notes(store, utc_now(), most=None)
    yield restore(store, 1)
    noted(store, "golf waits\nwith a second line")
    yield "acknowledged"


ACTS: list[Act] = [commits, undoes, changes_lines, corrects, lives]
acts = pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A dream that is to be committed."""
    return prepared(tmp_path_factory.mktemp("commit") / "agent")


@dataclass(frozen=True, slots=True)
class Scene:
    """An act, what it is done to, and the states before it and after each of its steps."""

    act: Act
    ready: Prepared
    states: list[State]

    def play(self, workspace: Workspace, system: System | None = None) -> None:
        """Do it; a byte is told for each step that is acknowledged."""
        # The folder of scratch.md may go while it is written anew: that ends a dream, and loses nothing.
        with (
            suppress(NotFoundError),
            opened(workspace, system) as store,
            told(workspace).open("ab", buffering=0) as file,
        ):
            for _ in self.act(store, self.ready.dream):
                file.write(b".")

    def assert_around(self, workspace: Workspace, acknowledged: int, *, dreams: bool = True) -> bool:
        """The workspace is in a state that may be, now and after its recovery; return whether all is done."""
        allowed = self.states[acknowledged : acknowledged + 2]
        assert in_file(workspace) in [one["file"] for one in allowed]
        decided = versions(workspace)
        with opened(workspace) as store:
            found = standing(store)
            assert without_pieces(found, self.states[-1]["notes"]) in allowed
        with opened(workspace) as store:  # the second recovery has nothing left to do
            assert (store.notices, standing(store)) == ([], found)
        assert versions(workspace) == decided
        lived.assert_valid(workspace)
        if dreams:
            assert_goes_on(workspace, found)
        return bool(found["file"] == self.states[-1]["file"])


def told(workspace: Workspace) -> Path:
    return workspace.root.with_suffix(".told")


def acknowledged(workspace: Workspace) -> int:
    return told(workspace).stat().st_size if told(workspace).exists() else 0


def versions(workspace: Workspace) -> int:
    return int(lived.rows(workspace, "SELECT max(number) FROM versions")[0][0])


def in_file(workspace: Workspace) -> list[tuple[str, bool]]:
    return [(block.text, block.pinned) for _, block in parse(lived.document(workspace)).lines()]


def standing(store: Store) -> State:
    """What its owner has: the file, and the lines, notes and decisions behind it."""
    replaced = (
        "SELECT older.text, newer.text, cause FROM supersessions"
        " JOIN crystals older ON older.key = supersessions.older"
        " JOIN crystals newer ON newer.key = supersessions.newer ORDER BY 1, 2, 3"
    )
    return {
        "file": in_file(store.workspace),
        "lines": sorted(line.text for line in store.lineage.current_lines()),
        "deleted": store.lineage.tombstones(),
        "replaced": [tuple(row) for row in store.connection.execute(replaced)],
        "notes": places(store),
        "pending": sorted(note.text for note in store.notes.each_pending()),
    }


def without_pieces(found: State, notes: Collection[str]) -> State:
    """The same without the piece of a note that was cut off while it was appended."""
    pieces = [text for text in found["notes"] if text not in notes]
    assert all(any(text in f"[20 (importance: 0.8) {note}" for note in notes) or text[:3] == "[20" for text in pieces)
    return found | {
        "notes": {text: times for text, times in found["notes"].items() if text not in pieces},
        "pending": [text for text in found["pending"] if text not in pieces],
    }


def assert_goes_on(workspace: Workspace, found: State) -> None:
    """Further dreams take in whatever is left, each note once, and the ledger agrees with the history."""
    with opened(workspace) as store:
        for path in store.notes.inbox.files():  # nobody is in the middle of a line any more
            os.utime(path, (1_700_000_000, 1_700_000_000))
        dreamt(store, FURTHER)
        if tuple(store.notes.each_pending()):  # an interrupted dream went on with what it had read
            dreamt(store)
        assert tuple(store.notes.each_pending()) == ()
        assert places(store) == {**found["notes"], FURTHER: 1}
        assert FURTHER in lived.lines(workspace)
        assert store.ledger.unfinished() is None
        runs = {run.id: (run.outcome, run.version) for run in store.ledger.runs(50)}
        made = {one.dream: ("committed", one.number) for one in store.lineage.versions(50) if one.dream}
        assert made == {name: run for name, run in runs.items() if run[0] == "committed"}
    assert list(lived.contradictions(workspace)) == []


@pytest.fixture
def scene(act: Act, waiting: Prepared, tmp_path: Path) -> Scene:
    with opened(waiting.copy(tmp_path / "whole")) as store:
        states = [standing(store), *(standing(store) for _ in act(store, waiting.dream))]
    assert all(set(state["notes"].values()) == {1} for state in states)
    assert states[0] != states[-1]
    return Scene(act, waiting, states)


def assert_nothing_is_left(workspace: Workspace) -> None:
    """What killed writers leave behind is cleared away, wherever it is."""
    with opened(workspace) as store:
        sweep(store, utc_now() + timedelta(hours=2))
    # What is left of a copy, the next copy clears away.
    assert [one for one in workspace.root.rglob("*.dreamd-tmp") if one.parent != workspace.copies] == []
    assert list(workspace.root.glob(".*.displaced")) == []


@pytest.mark.full
@acts
def test_a_call_that_fails_leaves_the_state_before_it_or_after_it(scene: Scene) -> None:
    done = 0

    def scenario(system: FaultySystem) -> None:
        nonlocal done
        workspace = contained(system.root)
        with suppress(StorageError):
            scene.play(workspace, system)
            # Of a life some steps may fail and say so in a notice.
            assert not system.met or system.fault is Fault.ERROR or scene.act is lives
        done += scene.assert_around(workspace, acknowledged(workspace))

    assert every_fault((Fault.ERROR, Fault.ERROR_ONWARDS), scene.ready.copied, scenario) > share(15)
    assert done > share(10)  # nearly all that is done in files is done after the commit


@pytest.mark.full
@acts
def test_a_loss_of_power_leaves_the_state_before_it_or_after_it(scene: Scene) -> None:
    worlds, left = 0, set[str]()

    def scenario(system: FaultySystem) -> None:
        nonlocal worlds
        workspace = contained(system.root)
        with suppress(PowerCut):
            scene.play(workspace, system)
        for image in images(system):
            # SQLite synced what it committed; the rest of the folder is what the disk kept.
            for path in (workspace.database, *workspace.copies.glob("*.db")):
                shutil.copyfile(path, image / path.relative_to(workspace.root))
            scene.assert_around(contained(image), acknowledged(workspace), dreams=worlds % 3 == 0)
            worlds += 1
        left.update(path.name.split(".")[1] for path in workspace.root.rglob("*.dreamd-tmp"))
        assert_nothing_is_left(workspace)

    every_fault((Fault.CRASH, Fault.TORN_CRASH), scene.ready.copied, scenario)
    assert worlds > share(30)
    assert "MEMORY" in left


@pytest.mark.full
@pytest.mark.usefixtures("platform")
@acts
def test_a_kill_before_any_step_leaves_the_state_before_it_or_after_it(scene: Scene, tmp_path: Path) -> None:
    steps = killed(partial(scene.play, scene.ready.copy(tmp_path / "counted"), System()))
    assert steps is not None
    ends = {True: 0, False: 0}
    for kill_at in range(0, steps, fewer(3, 1)):
        workspace = scene.ready.copy(tmp_path / str(kill_at))
        assert killed(partial(scene.play, workspace, System()), kill_at) is None
        ends[scene.assert_around(workspace, acknowledged(workspace))] += 1
        assert_nothing_is_left(workspace)
        shutil.rmtree(workspace.root)
    assert all(ends.values())


# ------------------------------------------------------------------------------- others write meanwhile

HAND = "By hand: the ladder leans on the shed"
APPENDED, BESIDE = "charlie came by a plain append", "delta was noted beside it"


def appends(workspace: Workspace) -> None:
    workspace.scratch.parent.mkdir(exist_ok=True)
    with workspace.scratch.open("a", encoding="utf-8") as file:
        file.write(f"\n- {APPENDED}\n")


def notes_beside(workspace: Workspace) -> None:
    disk = workspace.disk(Unsynced())
    for path in (workspace.inbox, workspace.scratch):
        if path.exists():  # busy in the middle of another append: it would have to wait
            with disk.locked(path, b"", 0):
                pass
    NoteInbox(workspace, disk).append(Note(BESIDE, utc_now()))


def saves(workspace: Workspace) -> None:
    write(workspace, lambda text: added(text, HAND))


def cleans(workspace: Workspace) -> None:
    """`rm -rf memory`, or `git clean -fdx`."""
    shutil.rmtree(workspace.scratch.parent, ignore_errors=True)


OTHERS: dict[Callable[[Workspace], None], str] = {appends: APPENDED, notes_beside: BESIDE, saves: HAND, cleans: ""}


def meets(workspace: Workspace, other: Callable[[Workspace], None]) -> None:
    """Have somebody else act, and tell what they have written."""
    with suppress(BusyError):
        other(workspace)
        with workspace.root.with_suffix(".said").open("a", encoding="utf-8") as file:
            file.write(f"{OTHERS[other]}\n")


def recovers(workspace: Workspace) -> None:
    with opened(workspace, System()) as store:
        absorb_notes(store, utc_now(), most=None)


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("act", [lives], ids=["lives"])
def test_killed_while_others_write_no_note_is_lost_or_doubled(scene: Scene, tmp_path: Path) -> None:
    chance = random.Random(24)
    steps = killed(partial(scene.play, scene.ready.copy(tmp_path / "counted"), System()))
    assert steps is not None
    for kill_at in chance.sample(range(steps), fewer(4, steps)):
        workspace = scene.ready.copy(tmp_path / str(kill_at))
        others = chance.sample(list(OTHERS), chance.randrange(4))
        hooks = {chance.randrange(kill_at + 1): partial(meets, workspace, other) for other in others}
        killed(partial(scene.play, workspace, System()), kill_at, hooks)
        for _ in range(chance.randrange(3)):  # its recovery, too
            hook = {chance.randrange(9): partial(meets, workspace, saves)}
            killed(partial(recovers, workspace), chance.randrange(25), hook)
        said = workspace.root.with_suffix(".said")
        heard = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
        with opened(workspace) as store:
            absorb_notes(store, utc_now(), most=None)
            found = standing(store)
            texts = [store.memory.text(one.number) for one in store.lineage.versions(50)]
        # What was appended by hand is gone with its file, if nobody had read it.
        noted_by_others = {APPENDED, BESIDE} if cleans not in others else {BESIDE}
        known = {*scene.states[acknowledged(workspace)]["notes"], *noted_by_others.intersection(heard)}
        assert set(found["notes"].values()) == {1}
        assert known <= set(found["notes"])
        assert HAND not in heard or any(HAND in text for text in (*texts, lived.document(workspace)))
        assert_goes_on(workspace, found)
        shutil.rmtree(workspace.root)
