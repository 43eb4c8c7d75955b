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
        store.notes.inbox.append(Note(note, AT + timedelta(minutes=number)))
        dream_now(store, Reason.MANUAL, Mode.AUTO)


def lost(store: Store, number: int) -> None:
    """Lose the text and the record of a version."""
    store.crystals.connection.execute("UPDATE versions SET text = x'', record = x'' WHERE number = ?", (number,))


def test_a_version_is_restored_although_a_later_one_is_lost(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        lived(store)
        first = store.memory.text(1)
        lost(store, 2)
        done = restore(store, 1)
        assert store.workspace.document.read_text() == first
        assert [problem for problem in done.problems if problem.startswith("version 2 has no record")]
        assert [note.text for note in tuple(store.notes.each_pending())] == list(NOTES[1:])
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        text = store.workspace.document.read_text()
        assert all(note in text for note in NOTES)


def test_a_version_that_is_lost_cannot_be_restored(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        lived(store)
        lost(store, 2)
        with pytest.raises(NotFoundError, match="no version 2"):
            restore(store, 2)
