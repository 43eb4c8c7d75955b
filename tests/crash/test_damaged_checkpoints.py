"""Checkpoints that are damaged anywhere cost at most the dream that went on with them: each note is consumed once."""

import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from daemon.dream.memory import WorkspaceMemory
from state.errors import DreamdError
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.breaking import DAMAGE, Chance
from tests.support.committing import OLD_NOTES, dreamt, lines, opened, with_model

NOTES = ("The cat is called Miez", "The ferry to Oslo leaves at nine")
LATER = "The dog is called Rex"


@pytest.fixture(scope="module")
def thought(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A dream by a model that has been thought and not committed: the disk was full."""

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    workspace = init_workspace(contained(tmp_path_factory.mktemp("thought") / "agent"))
    with opened(workspace) as store:
        dreamt(store, *OLD_NOTES)
        with pytest.MonkeyPatch.context() as patch, with_model(store) as thinking:
            patch.setattr(WorkspaceMemory, "commit", full)
            with pytest.raises(sqlite3.OperationalError):
                dreamt(thinking, *NOTES)
    with closing(sqlite3.connect(workspace.checkpoints / "dreams.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return workspace


@pytest.fixture
def interrupted(thought: Workspace, tmp_path: Path) -> Workspace:
    return contained(Path(shutil.copytree(thought.root, tmp_path / "agent")).resolve())


def freelist(path: Path) -> None:
    """The first free page is one that there is none of: met when a page is wanted."""
    with path.open("r+b") as file:
        file.seek(32)
        file.write(struct.pack(">II", 10_389_768, 3))


def statement(text: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(text)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        freelist,
        statement("UPDATE checkpoints SET checkpoint = x'c1ff00'"),
        statement("UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 200)"),
        statement("UPDATE checkpoints SET type = 'nonsense'"),
        statement("UPDATE writes SET value = x'c1ff00'"),
        *(partial(damage, chance=Chance(number)) for number, damage in enumerate(DAMAGE)),
    ],
)
def test_whatever_is_damaged_the_second_dream_at_the_latest_has_every_note(
    interrupted: Workspace, damage: Callable[[Path], None]
) -> None:
    damage(interrupted.checkpoints / "dreams.db")
    with opened(interrupted) as store:
        try:
            dreamt(store)
        except DreamdError:
            pass  # it went on with what cannot be understood
        except sqlite3.Error as error:
            raise AssertionError("a damaged page was met after the checkpoints were opened") from error
        dreamt(store, LATER)
        assert tuple(store.notes.each_pending()) == ()
        assert store.ledger.unfinished() is None
        consumed = store.connection.execute("SELECT text FROM crystals WHERE dreamt_in IS NOT NULL")
        assert sorted(row["text"] for row in consumed) == sorted((*OLD_NOTES, *NOTES, LATER))
    assert LATER in lines(interrupted)
