"""A destroyed state.db is replaced by its last sound copy; no note and no line of MEMORY.md is lost or doubled."""

import os
import random
import sqlite3
import stat
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.journal.restore import restore
from daemon.workspace.adoption import init_workspace
from daemon.workspace.retention import copy_if_due
from daemon.workspace.status import status
from daemon.workspace.stores import Store, open_exclusive, utc_now
from state.document.document import parse
from state.dream import Reason
from state.errors import NothingToDoError
from state.scratch import Note
from state.stores.database.copies import KEPT, copies_of, found_damaged, is_copy_due
from state.stores.disk.workspace import Workspace
from tests.support import breaking
from tests.support.breaking import DAMAGE, WORDS_ONLY, Chance, assert_works, content
from tests.support.faults import Unsynced
from tests.support.forgettable import SECRET, little
from tests.support.long_variants import variants
from tests.support.notes import pending_notes
from tests.support.running import Caller

_PLACES = "harbour bakery library museum orchard quarry railway stadium temple vineyard airport brewery".split()


# ------------------------------------------------------------------------- the law


def overwritten(path: Path, chance: Chance) -> None:
    """Write noise of any length over any three places."""
    content = bytearray(path.read_bytes())
    for _ in range(3):
        start = chance.randrange(len(content))
        end = min(len(content), start + chance.choice((16, 512, 3_000, 40_000)))
        content[start:end] = chance.randbytes(end - start)
    path.write_bytes(content)


RUINS = (overwritten, overwritten, overwritten, *DAMAGE)


@dataclass
class Life:
    """A workspace that lives at random: what was noted, written into MEMORY.md by hand, and deleted there."""

    workspace: Workspace
    chance: Chance
    noted: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def live(self) -> None:
        """Note, dream, edit and copy; the stores are closed now and then."""
        for _ in range(self.chance.randrange(1, 4)):
            with open_exclusive(self.workspace, Config(), "a test", embedding=WORDS_ONLY) as store:
                store.memory.disk.system = Unsynced()
                store.connection.execute("PRAGMA synchronous = OFF")
                for _ in range(self.chance.randrange(3, 12)):
                    self.act(store)

    def act(self, store: Store) -> None:
        kind, number = self.chance.random(), len(self.noted) + len(self.written)
        text = f"{self.chance.choice(_PLACES)} {number} was seen by {self.chance.choice(_PLACES)} {number * 7}"
        if kind < 0.5:
            self.noted.append(text)
            if self.chance.random() < 0.5:
                store.notes.inbox.append(Note(text, utc_now()))
            else:
                with self.workspace.scratch.open("a") as log:
                    log.write(f"- {text}\n")
        elif kind < 0.75:
            dream(store)
        elif kind < 0.85 and store.lineage.last_version():
            self.written.append(text)
            self.edit("## The Bond\n", f"## The Bond\n- {text}\n")
        elif kind < 0.9 and (lines := sorted(set(self.lines()) & {*self.noted, *self.written})):
            self.delete(store, self.chance.choice(lines))
        elif kind < 0.93 and store.lineage.last_version():
            restore(store, self.chance.randint(1, store.lineage.last_version()))
            # What was written or deleted since that version is as it was then.
            self.written, self.deleted = [one for one in self.written if one in self.lines()], []
        else:
            copy_if_due(store, utc_now(), timedelta())

    def delete(self, store: Store, line: str) -> None:
        """Delete a line as the owner does; not where that is the text of an earlier version, which is no edit.

        Dreams of one second have one stamp; in life they are further apart.
        """
        memory = self.workspace.document.read_text().replace(f"- {line}\n", "", 1)
        if not store.lineage.has_text(memory):
            self.deleted.append(line)
            self.workspace.document.write_text(memory)

    def edit(self, old: str, new: str) -> None:
        """Save MEMORY.md as its owner does."""
        memory = self.workspace.document.read_text()
        self.workspace.document.write_text(memory.replace(old, new, 1))

    def lines(self) -> list[str]:
        """Return the lines of MEMORY.md."""
        path = self.workspace.document
        return [block.text for _, block in parse(path.read_text()).lines()] if path.exists() else []

    def ruin(self, *, keeps_copies: bool) -> None:
        """Destroy state.db, and perhaps copies of it too, or certainly all."""
        self.chance.choice(RUINS)(self.workspace.database, self.chance)
        for copy in copies_of(self.workspace.database):
            if not keeps_copies:
                copy.unlink()
            elif self.chance.random() < 0.25:
                self.chance.choice(RUINS)(copy, self.chance)


def dream(store: Store) -> None:
    with suppress(NothingToDoError):
        dream_now(store, Reason.MANUAL, Mode.AUTO)


@pytest.mark.parametrize(
    "lives", [(4, True), pytest.param((240, True), marks=pytest.mark.full), *variants((5, False), (100, False))]
)
def test_no_note_and_no_line_is_lost_or_doubled_by_a_destroyed_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lives: tuple[int, bool]
) -> None:
    """Whether copies of it are left or not."""
    (seeds, keeps_copies), dreamd, destroyed = lives, Caller(capsys), 0
    for seed in range(seeds):
        life = Life(init_workspace(tmp_path / str(seed)), random.Random(f"{keeps_copies} {seed}"))
        life.live()
        if not life.workspace.database.exists():
            continue
        pending = [note.text for note in pending_notes(life.workspace)]
        memory = life.workspace.document.read_bytes() if life.workspace.document.exists() else None
        life.ruin(keeps_copies=keeps_copies)
        repaired = dreamd("doctor", life.workspace.root, "--repair")
        assert repaired.status in (0, 3), (seed, repaired)
        destroyed += "mended   state.db" in repaired.out
        # Nothing but state.db is changed; what was consumed is not pending again, and the other way round.
        assert [note.text for note in pending_notes(life.workspace)] == pending, seed
        assert (life.workspace.document.read_bytes() if memory is not None else None) == memory, seed
        assert dreamd("doctor", life.workspace.root).status == 0, (seed, dreamd("doctor", life.workspace.root))
        assert dreamd("doctor", life.workspace.root, "--repair").status == 3, seed
        with open_exclusive(life.workspace, Config(), "a test", embedding=WORDS_ONLY) as store:
            dream(store)
            crystals = {row[0] for row in store.connection.execute("SELECT text FROM crystals")}
        lines = Counter(life.lines())
        known = crystals | lines.keys()
        assert [text for text in life.noted if text not in known] == [], seed
        written = set(life.written) - set(life.deleted)
        assert [text for text in written if text not in lines] == [], seed
        assert [text for text in life.deleted if text in lines] == [], seed
        assert [text for text in (*life.noted, *life.written) if lines[text] > 1] == [], seed
    # The others hit pages that nothing was in.
    assert destroyed >= seeds * (0.65 if keeps_copies else 0.6)


# ------------------------------------------------------------------------- when copies are made


def copied_now(workspace: Workspace) -> tuple[str, ...]:
    """Have the next dream's copy due, dream, and return what it noticed."""
    for copy in copies_of(workspace.database):
        os.utime(copy, (0, 0))
    with open_exclusive(workspace, Config(), "a test", embedding=WORDS_ONLY) as store:
        store.notes.inbox.append(Note(f"A sail was sewn at {utc_now()}", utc_now()))
        store.notices.clear()
        dream(store)
        return tuple(one for one in store.notices if "state.db" in one)


def test_a_dream_copies_when_the_last_copy_is_six_hours_old_and_two_are_kept(here: Workspace) -> None:
    first = copies_of(here.database)
    assert_works(here)
    assert copies_of(here.database) == first
    assert copied_now(here) == ()
    second = copies_of(here.database)
    assert [copy.stem for copy in second] == ["000003", "000002"]
    assert len(second) == KEPT
    for copy in second:
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert sorted(path.name for path in here.copies.iterdir()) == ["000002.db", "000003.db"]


@pytest.mark.parametrize(("hours_ago", "is_due"), [(0, False), (5, False), (6, True), (900, True), (-1, True)])
def test_a_copy_of_the_future_counts_as_none(here: Workspace, hours_ago: int, *, is_due: bool) -> None:
    now, (copy, *_) = utc_now(), copies_of(here.database)
    os.utime(copy, ((now - timedelta(hours=hours_ago)).timestamp(),) * 2)
    assert is_copy_due(here.database, now, timedelta(hours=6)) is is_due


def test_a_damaged_database_is_told_of_and_replaces_no_copy(
    here: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name: found for name, found in content(here).items() if "/copies/" in name}
    breaking.unnoticed(here)
    (notice,) = copied_now(here)
    assert "state.db was not copied" in notice
    assert "is damaged" in notice
    assert "run 'dreamd doctor --repair'" in notice
    told = [one for one in status(here, Config(), utc_now()).problems if "state.db was not copied" in one.what]
    assert [one.deed for one in told] == ["doctor"]
    now = {name: found for name, found in content(here).items() if "/copies/" in name}
    assert {name: found for name, found in now.items() if name.endswith(".db")} == before
    assert Caller(capsys)("doctor", here.root, "--repair").status == 0
    assert copied_now(here) == ()
    assert not found_damaged(here.database)
    assert [one for one in status(here, Config(), utc_now()).problems if "copied" in one.what] == []


def test_after_a_forgetting_no_copy_holds_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = little(tmp_path / "w", SECRET)
    with open_exclusive(workspace, Config(), "a test", embedding=WORDS_ONLY) as store:
        for _ in range(2):
            copy_if_due(store, utc_now(), timedelta())
    words = [word.encode().lower() for word in SECRET.split() if len(word) > 6]
    assert words
    assert all(word in copies_of(workspace.database)[0].read_bytes().lower() for word in words)
    receipt = Caller(capsys)("forget", SECRET, "--yes", "-w", workspace.root)
    assert receipt.status == 0, receipt
    assert "copies" in receipt.out
    (copy,) = copies_of(workspace.database)
    assert not any(SECRET.encode() in path.read_bytes() for path in workspace.copies.iterdir())
    assert not any(word in copy.read_bytes().lower() for word in words if word.isalpha())
    breaking.emptied(workspace.database, random.Random(1))
    assert Caller(capsys)("doctor", workspace.root, "--repair").status == 0
    assert SECRET.lower() not in Caller(capsys)("search", SECRET, "-w", workspace.root).out.lower()
