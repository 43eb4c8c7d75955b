"""Notes and transcripts become crystals: once each, cheaply, and what they make felt is not lost."""

import json
import os
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.ingest.feelings import feel
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import absorb_transcripts
from daemon.workspace.stores import Store, open_owned, utc_now
from state.errors import StorageError
from state.scratch import Note
from state.secrets.policy import DEFAULT
from state.signals.hormones import Feeling, Hormone
from state.stores.crystals.hormones import Questions
from state.stores.history.inbox import NoteInbox
from state.stores.history.notes import Notes
from tests.support.faults import Fault, FaultySystem
from tests.support.working import SECRET, texts_of

BAD = "The deploy failed again and everything is broken"
ERRORS = ("The deploy failed with an error", "The build is broken, it crashed", "Tests failed, another error")


def _note(store: Store, text: str) -> None:
    store.notes.inbox.append(Note(text, utc_now()))


def _auto(store: Store) -> list[str]:
    return [note.text for note in tuple(store.notes.each_pending()) if note.auto]


def test_a_note_that_two_absorb_is_asked_and_felt_once(store: Store) -> None:
    _note(store, "Which region holds the backups?")
    # A second set of stores over the same workspace, as the daemon has one for what takes long.
    with closing(open_owned(store.index, store.config)) as other:
        _note(store, BAD)
        assert absorb_notes(store, utc_now()) == 2
        # As if it had looked at the files before the other one wrote.
        other.crystals.connection.execute("DELETE FROM marks")
        assert absorb_notes(other, utc_now()) == 0
        assert [gap.times for gap in Questions(other.connection).open(5)] == [1]
        felt = other.crystals.connection.execute("SELECT count(*) FROM feelings WHERE cause = ?", (BAD,)).fetchone()[
            0
        ]
    assert felt == 1


def test_a_full_disk_on_the_way_loses_neither_question_nor_feeling(store: Store) -> None:
    _note(store, "Which region holds the backups?")
    for line in ERRORS:
        _note(store, line)
    full = FaultySystem(store.workspace.root, fail_at=0, fault=Fault.ERROR_ONWARDS)
    notes = Notes(NoteInbox(store.workspace, store.workspace.disk(full)), store.connection)
    with pytest.raises(StorageError, match="disk is full"):
        absorb_notes(replace(store, notes=notes), utc_now())
    assert (texts_of(store), store.questions.open(5), full.met) == ([], [], True)
    assert absorb_notes(store, utc_now()) == 5  # a spike wrote the last one
    assert len(store.questions.open(5)) == 1
    assert len(set(_auto(store))) == 1  # one that failed may stand there as well: rather twice than never


@pytest.mark.parametrize("way", ["notes", "transcript", "by hand"])
def test_a_level_that_rises_high_writes_one_note_at_that_moment(store: Store, way: str, tmp_path: Path) -> None:
    now = utc_now()
    if way == "notes":
        for line in ERRORS:
            _note(store, line)
        absorb_notes(store, now)
    elif way == "transcript":
        path = tmp_path / "chat.jsonl"
        turns = [{"role": "user", "content": line, "timestamp": now.isoformat()} for line in ERRORS]
        path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
        absorb_transcripts(store, [path], now)
    else:
        for line in ERRORS:
            feel(store, [Feeling.ERROR], line, now, now)
    assert store.feelings.levels(now).level(Hormone.CORTISOL) > 0.7
    (auto,) = _auto(store)
    assert "cortisol spike" in auto
    assert ERRORS[2] in auto
    absorb_notes(store, now)
    assert len(_auto(store)) == 1  # its own words raise nothing
    feel(store, [Feeling.ERROR], "once more", now, now)
    assert len(_auto(store)) == 1  # it has not fallen below .7 since
    later = now + timedelta(hours=3)
    feel(store, [Feeling.ERROR] * 3, "much later", later, later)
    assert len(_auto(store)) == 2


@pytest.mark.parametrize("said", ["the staging token is due in May", f"the staging token is {SECRET}"])
@pytest.mark.parametrize(
    "entry", ["- {}\n", "- [2026-03-12T09:00:00Z] (importance: 0.9) {}\n"], ids=["bare", "stamped"]
)
@pytest.mark.parametrize("again", ["twice in the file", "saved again by an editor", "noted too"])
def test_a_note_appended_by_hand_is_one_note_also_with_a_secret(
    store: Store, said: str, entry: str, again: str
) -> None:
    row, scratch = entry.format(said), store.workspace.scratch
    scratch.parent.mkdir(exist_ok=True)
    with scratch.open("a", encoding="utf-8") as file:
        file.write(row * (2 if again == "twice in the file" else 1))
    age = utc_now() - timedelta(hours=1)
    os.utime(scratch, (age.timestamp(), age.timestamp()))
    absorb_notes(store, utc_now())
    if again == "saved again by an editor":
        scratch.write_text(f"- another\n{row}", encoding="utf-8")
    elif again == "noted too":
        (one,) = store.notes.each_pending()
        store.notes.inbox.append(one._replace(text=said))
    absorb_notes(store, utc_now(), most=None)
    store.memory.show_notes(anew=True)
    texts = [note.text for note in store.notes.each_pending() if note.text != "another"]
    assert texts == [DEFAULT.of(said)]
    assert len(set(texts_of(store))) == len(texts_of(store))
    assert SECRET not in scratch.read_text(encoding="utf-8") + store.workspace.inbox.read_text(encoding="utf-8")
