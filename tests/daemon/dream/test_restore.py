"""A restore over records that are gone or damaged."""

from datetime import timedelta
from pathlib import Path

import pytest

from daemon.dream.restore import restore
from daemon.dream.run import Mode, dream_now
from daemon.workspace.stores import Store
from state.dream import Reason
from state.errors import NotFoundError
from state.scratch import Note
from tests.support.working import AT, working

NOTES = ("Ada prefers tea over coffee", "The deployment runs on port 8443", "The harbour wall is of granite")


def lived(store: Store) -> None:
    """Three versions, each of a note."""
    for number, note in enumerate(NOTES):
        store.segments.append(Note(note, AT + timedelta(minutes=number)))
        dream_now(store, Reason.MANUAL, Mode.AUTO)


def record(store: Store, number: int) -> Path:
    return store.workspace.history / f"{number:06d}.json"


@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_a_version_is_restored_although_the_record_of_a_later_one_is_lost(tmp_path: Path, damage: str) -> None:
    with working(tmp_path / "agent") as store:
        lived(store)
        first = store.journal.text(1)
        if damage == "gone":
            record(store, 2).unlink()
        else:
            record(store, 2).write_text("{")
        done = restore(store, 1)
        assert store.workspace.document.read_text() == first
        assert [problem for problem in done.problems if problem.startswith("version 2 has no record")]
        assert [note.text for note in store.segments.pending_notes()] == [NOTES[2]]
        assert NOTES[1] in {crystal.text for crystal in store.crystals.undreamt()}
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        text = store.workspace.document.read_text()
        assert all(note in text for note in NOTES)


def test_the_version_whose_own_record_is_lost_cannot_be_restored(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        lived(store)
        record(store, 2).unlink()
        with pytest.raises(NotFoundError, match="no version 2"):
            restore(store, 2)
