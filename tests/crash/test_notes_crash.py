"""No acknowledged note is lost or doubled: killed before any step, the power lost at any call, processes killed."""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from daemon.ingest.notes import absorb_notes
from daemon.journal.restore import restore
from daemon.workspace.retention import copy_if_due
from daemon.workspace.stores import Store, utc_now
from state.document.document import parse
from state.errors import BusyError, NotFoundError
from state.scratch import Note
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.inbox import NoteInbox
from tests.support.committing import added, lines, opened, write
from tests.support.faults import Fault, FaultySystem, PowerCut, Unsynced, every_fault, images, share
from tests.support.long_variants import fewer
from tests.support.notes import EMPTY_MEMORY, consumed, pending_notes, shown_notes
from tests.support.stepping import killed

OLD = ("alpha is the first", "bravo waits\nwith a second line")
HAND = "By hand: the ladder leans on the shed"
LATE = "charlie came by a plain append"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated, and SIGKILL loses nothing: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first version that took in one note, another note that waits, and an older inbox."""
    workspace = init_workspace(contained(tmp_path_factory.mktemp("ready") / "agent"))
    workspace.document.write_text(EMPTY_MEMORY, encoding="utf-8")
    with opened(workspace) as store:
        noted(store, OLD[0])
        absorb_notes(store, utc_now())
        consumed(store)
        copy_if_due(store, utc_now(), timedelta())
        noted(store, OLD[1])
    return workspace.root


def copied(ready: Path, folder: Path) -> Workspace:
    return contained(Path(shutil.copytree(ready, folder)))


def noted(store: Store, text: str) -> str:
    store.notes.inbox.append(Note(text, utc_now()))
    return text


def steps(store: Store) -> Iterator[str]:
    """Append, take in, commit, render, rotate and copy, restore; yield each note once it is acknowledged."""
    yield noted(store, "echo is new")
    absorb_notes(store, utc_now(), most=None)
    consumed(store, 2)
    yield noted(store, "foxtrot is newer")
    copy_if_due(store, utc_now(), timedelta())
    store.memory.show_notes(anew=True)
    absorb_notes(store, utc_now(), most=None)
    copy_if_due(store, utc_now(), timedelta())
    restore(store, 1)
    yield noted(store, "golf is the newest")


def assert_sound(workspace: Workspace, acknowledged: list[str], *, saved: bool = False) -> None:
    """Every note is in one row; all are pending or consumed; MEMORY.md is whole, and a person's save a version."""
    for _ in range(2):
        with opened(workspace) as store:
            for path in store.notes.inbox.files():
                os.utime(path, (1_700_000_000, 1_700_000_000))
            absorb_notes(store, utc_now(), most=None)
            rows = store.connection.execute(
                "SELECT text, consumed_in FROM notes JOIN crystals ON crystals.key = notes.crystal"
            ).fetchall()
            found = Counter(row["text"] for row in rows)
            assert {text: found[text] for text in acknowledged} == dict.fromkeys(acknowledged, 1)
            assert [text for text in found if found[text] > 1] == []
            pending = [one.note.text for one in store.notes.pending()]
            assert len(pending) == sum(row["consumed_in"] is None for row in rows)
            assert tuple(store.notes.each_unread()) == ()
            assert set(pending) <= set(shown_notes(workspace))
            assert parse(workspace.document.read_text(encoding="utf-8")).lines()
            assert list(workspace.root.glob(".MEMORY.md.*displaced")) == []
            texts = [store.memory.text(one.number) for one in store.lineage.versions(50)]
            assert not saved or any(HAND in text for text in (*texts, *lines(workspace)))
            consumed(store)
            assert store.notes.pending() == []
            assert shown_notes(workspace) == []
    assert pending_notes(workspace) == ()


# ------------------------------------------------------------------------------- killed before each step


@dataclass(frozen=True, slots=True)
class Life:
    """A workspace in which somebody may be killed, and the file in which all say what they have written."""

    workspace: Workspace
    said: Path

    def say(self, text: str) -> None:
        with self.said.open("a", encoding="utf-8") as file:
            file.write(json.dumps(text) + "\n")

    def heard(self) -> set[str]:
        return {json.loads(line) for line in self.said.read_text(encoding="utf-8").splitlines()}

    def work(self) -> None:
        # Its folder may go while scratch.md is written anew: that ends a dream, and loses nothing.
        with suppress(NotFoundError), opened(self.workspace, System()) as store:
            for text in steps(store):
                self.say(text)

    def recover(self) -> None:
        with opened(self.workspace, System()) as store:
            absorb_notes(store, utc_now(), most=None)

    def append(self) -> None:
        self.workspace.scratch.parent.mkdir(exist_ok=True)
        with self.workspace.scratch.open("a", encoding="utf-8") as file:
            file.write(f"\n- {LATE}\n")
        self.say(LATE)

    def note(self) -> None:
        disk = self.workspace.disk(Unsynced())
        with suppress(BusyError):  # in the middle of another append: it would have to wait
            for path in (self.workspace.inbox, self.workspace.scratch):
                if path.exists():
                    with disk.locked(path, b"", 0):
                        pass
            text = f"delta {os.urandom(4).hex()} was noted beside it"
            NoteInbox(self.workspace, disk).append(Note(text, utc_now()))
            self.say(text)

    def save(self) -> None:
        write(self.workspace, lambda text: text if HAND in text else added(text, HAND))
        self.say(HAND)

    def clean(self) -> None:
        """`rm -rf memory`, or `git clean -fdx`."""
        shutil.rmtree(self.workspace.scratch.parent, ignore_errors=True)


@pytest.mark.usefixtures("platform")
def test_killed_before_any_step_no_note_is_lost_or_doubled(ready: Path, tmp_path: Path) -> None:
    chance = random.Random(24)
    whole = killed(Life(copied(ready, tmp_path / "whole"), tmp_path / "all").work, -1, {})
    assert whole is not None
    assert whole > 60
    for kill_at in chance.sample(range(whole), fewer(8, whole)) * fewer(1, 4):
        life = Life(copied(ready, tmp_path / "agent"), tmp_path / "said")
        life.said.touch()
        acts = chance.sample([life.append, life.note, life.save, life.clean], chance.randrange(4))
        killed(life.work, kill_at, {chance.randrange(kill_at + 1): act for act in acts})
        for _ in range(chance.randrange(3)):  # its recovery, too
            killed(life.recover, chance.randrange(25), {chance.randrange(9): chance.choice([life.save, life.note])})
        heard = life.heard()
        loose = {LATE} if life.clean in acts else set[str]()
        assert_sound(life.workspace, [*OLD, *(heard - {HAND} - loose)], saved=HAND in heard)
        shutil.rmtree(life.workspace.root)
        life.said.unlink()


# ------------------------------------------------------------------------------- the power lost, calls that fail


@pytest.mark.full
def test_a_loss_of_power_at_any_call_loses_nothing_that_was_acknowledged(ready: Path) -> None:
    worlds = 0

    def scenario(system: FaultySystem) -> None:
        nonlocal worlds
        workspace, acknowledged = contained(system.root), [*OLD]
        try:
            with opened(workspace, system) as store:
                acknowledged += steps(store)
        except PowerCut:
            assert system.off
        for image in images(system):
            # SQLite synced what it committed; the rest of the folder is what the disk kept.
            for path in (workspace.database, *workspace.copies.glob("*.db")):
                shutil.copyfile(path, image / path.relative_to(workspace.root))
            assert_sound(contained(image), acknowledged)
            worlds += 1

    every_fault((Fault.CRASH, Fault.TORN_CRASH), partial(shutil.copytree, ready), scenario)
    assert worlds > share(400)
