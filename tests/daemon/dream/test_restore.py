"""Restores are neutral, whatever was dreamt and decided; and over records that are gone or damaged."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.config.settings import Config, DreamSection
from daemon.dream.proposals import open_proposals, settle
from daemon.dream.run import Mode, dream_now
from daemon.journal.lines import change
from daemon.journal.restore import restore
from daemon.journal.undo import undo
from daemon.workspace.document import page_of
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction, Wish
from state.document.asking import Ask
from state.dream import Reason
from state.errors import NotFoundError, NothingToDoError
from state.scratch import Note
from tests.support.long_variants import examples
from tests.support.working import AT, working

NOTES = ("Ada prefers tea over coffee", "The deployment runs on port 8443", "The harbour wall is of granite")


def lived(store: Store) -> None:
    """Three versions, each of a note."""
    for number, note in enumerate(NOTES):
        store.notes.inbox.append(Note(note, AT + timedelta(minutes=number)))
        dream_now(store, Reason.MANUAL, Mode.AUTO)


def lost(store: Store, number: int) -> None:
    """Lose the text and the record of a version."""
    store.connection.execute("UPDATE versions SET text = x'', record = x'' WHERE number = ?", (number,))


def test_a_version_is_restored_although_a_later_one_is_lost(store: Store) -> None:
    lived(store)
    first = store.memory.text(1)
    lost(store, 2)
    with pytest.raises(NotFoundError, match="no version 2"):
        restore(store, 2)
    done = restore(store, 1)
    assert store.workspace.document.read_text() == first
    assert [problem for problem in done.problems if problem.startswith("version 2 has no record")]
    assert [note.text for note in tuple(store.notes.each_pending())] == list(NOTES[1:])
    dream_now(store, Reason.MANUAL, Mode.AUTO)
    text = store.workspace.document.read_text()
    assert all(note in text for note in NOTES)


# A dream of one of these asks its owner; one of several applies.
SAID = (
    "Ada prefers tea in the morning",
    "The staging server listens on port 8080",
    "Ada likes short answers of one line",
    "The harbour wall is of granite",
    "Ada is allergic to hazelnuts",
    "Releases are built on Thursdays",
)

DEEDS = st.one_of(
    st.tuples(st.just("dream"), st.sets(st.integers(0, len(SAID) - 1), min_size=1, max_size=3)),
    st.tuples(
        st.sampled_from(("accept", "decline", "restore", "undo", "undo a restore", "edit", "pin", "delete")),
        st.integers(0, 9),
    ),
)


def do(store: Store, deed: str, what: Any) -> None:
    last = store.lineage.last_version()
    if deed == "dream":
        for note in sorted(what):
            store.notes.inbox.append(Note(SAID[note], utc_now(), 0.8))
        asks = Config(dream=DreamSection(ask=Ask.ALL if len(what) == 1 else Ask.OWN))
        with suppress(NothingToDoError):
            dream_now(replace(store, config=asks), Reason.MANUAL, Mode.AUTO)
    elif deed in ("accept", "decline"):
        waiting = [one.number for one, _ in open_proposals(store)][: what % 3 + 1]
        settle(store, *((waiting, ()) if deed == "accept" else ((), waiting)))
    elif deed in ("edit", "pin", "delete"):
        lines = [line for line in page_of(store).lines.values() if not line.pinned]
        for line in lines[what % 5 :][:1]:
            text = f"{line.text}, she says" if deed == "edit" else ""
            change(store, [Wish(LineAction(deed), line.id, expected=line.text, text=text)])
    elif deed == "undo":
        with suppress(NotFoundError):  # it changed no line
            undo(store, [str(what % last + 1)])
    else:
        restore(store, what % last + 1 if deed == "restore" else max(1, last - 1))


def standing(store: Store) -> dict[str, object]:
    read = store.connection.execute
    authors, evidence = store.lineage.authors(), store.lineage.evidence()
    return {
        "lines": sorted(
            (
                line.text,
                line.section,
                line.importance,
                line.trust,
                line.born_at,
                line.until,
                line.pinned,
                authors[line.id],
                evidence.get(line.id, ()),
            )
            for line in page_of(store).lines.values()
        ),
        "document": store.workspace.document.read_text(encoding="utf-8"),
        "pending": [note.text for note in tuple(store.notes.each_pending())],
        "dreamt": {row["id"] for row in read("SELECT id FROM crystals WHERE dreamt_in IS NOT NULL")},
        "deleted": sorted(store.lineage.tombstones()),
    }


@example([("dream", {0, 3}), ("undo", 9), ("restore", 0), ("dream", {0})], [2])
@given(st.lists(DEEDS, min_size=1, max_size=6), st.lists(st.integers(0, 9), min_size=1, max_size=3))
@examples(60, deadline=None)
def test_an_undone_restore_leaves_everything_as_it_was(deeds: list[tuple[str, Any]], versions: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, working(Path(folder)) as store:
        do(store, "dream", {0, 1})
        for deed, what in deeds:
            do(store, deed, what)
        before, last = standing(store), store.lineage.last_version()
        for version in versions:
            restore(store, version % last + 1)
        restore(store, last)
        assert standing(store) == before
