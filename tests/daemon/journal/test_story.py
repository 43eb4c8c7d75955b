"""Every line can say where it comes from, and every line that left where it went."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.journal.story import LineStory, latest_entries, story_of_line
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store
from state.changes.change import Change
from state.crystals.crystal import Crystal, Origin
from state.document.operations import Action, Operation, Why
from state.document.sections import SectionName
from state.dream import Dream
from state.errors import NotFoundError
from state.stores.database.moments import to_text
from state.stores.database.opening import memory_database
from state.stores.history.lineage import Lineage
from state.text.words import normalise
from state.trust import Trust
from tests.support.committing import dreamt
from tests.support.running import Caller
from tests.support.versions import added, line, pointer

AT, BOND = datetime(2026, 3, 12, tzinfo=UTC), SectionName.BOND
TURNS = [
    Crystal(f"turn {number}", Origin.SESSION, AT, trust=Trust.WEB, session="s1", position=number) for number in (0, 1)
]
INSIGHT = Crystal("Ada likes hot drinks", Origin.DREAM, AT, parents=tuple(turn.id for turn in TURNS))
KEPT = Crystal("Ada drinks tea daily", Origin.LINE, AT, id="1" * 32)


@pytest.fixture
def lived(store: Store) -> Store:
    """L1 is revised into L2, which leaves to the pointer L3; its evidence is an insight made of two turns."""
    store.crystals.learn(TURNS)
    drinks, daily = line("L1", BOND, "Ada drinks tea"), line("L2", BOND, KEPT.text, Trust.WEB)
    left = Change(
        Why.EVICTED,
        (replace(daily, crystal=KEPT.id),),
        (pointer("L3", "tea", "ada tea daily", KEPT.id),),
        (KEPT.id,),
    )
    dreams = (
        ((), (Operation(Action.ADD, BOND, "Ada drinks tea", cites=("N1",)),), added(drinks, evidence=("0" * 32,))),
        (
            (INSIGHT,),
            (Operation(Action.REVISE, BOND, KEPT.text, ("L1",), ("I1",)),),
            (Change(Why.REVISED, (drinks,), (daily,), (INSIGHT.id,)),),
        ),
        ((KEPT,), (), (left,)),
    )
    before = ""
    for number, (crystals, operations, changes) in enumerate(dreams, 1):
        after = f"# Working Memory State\n\nversion {number}\n"
        store.memory.commit(
            Dream(
                number=number, id=f"d{number}", at=AT, cause="dream", reason="manual", mood="calm", before=before,
                after=after, crystals=crystals, operations=operations, changes=changes,
            )
        )  # fmt: skip
        before = after
    return store


def test_a_line_names_its_dream_its_operation_and_its_note(store: Store) -> None:
    dreamt(store, "Ben drinks coffee", "Ada prefers tea over coffee in the morning")
    (story,) = story_of_line(store, "ada PREFERS  tea")
    assert (story.section, story.ending) == ("Active Context", None)
    (writing,) = story.entries
    assert writing == story.writing
    assert (writing.name, writing.reason, writing.author, writing.why) == ("1.2", "manual", "extractive", "added")
    assert writing.undoable
    (witness,) = writing.evidence
    assert (witness.text, witness.trust) == ("Ada prefers tea over coffee in the morning", "agent")
    assert any(source.startswith("notes:2@") for source in witness.sources)
    assert story_of_line(store, story.id) == story_of_line(store, story.id.lower()) == (story,)
    document = store.workspace.document
    document.write_text(document.read_text().replace("## The Niche", "- Ada has a parrot\n\n## The Niche"))
    assert story_of_line(store, "parrot") == (
        LineStory("", "The Bond", "Ada has a parrot"),
    )  # by hand: no dream has met it
    for unheard in ("zeppelin", " "):
        with pytest.raises(NotFoundError):
            story_of_line(store, unheard)


def test_a_line_that_its_owner_typed_says_so_and_when(dreamd: Caller, tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    workspace.document.write_text("# Notes\n\n- Ada has a parrot\n")
    words = ("-w", workspace.root)

    def told(line: str) -> str:
        return dreamd("why", line, *words).out

    assert "written by hand; no dream has met it yet" in told("parrot")
    for text in ("Ada prefers tea", "Ada likes short answers"):
        assert dreamd("note", text, *words).status == dreamd("dream", *words).status == 0
        typed = workspace.document.read_text().replace("- Ada prefers tea", "- Ada prefers tea\n- The desk is oak")
        workspace.document.write_text(typed if text == "Ada prefers tea" else workspace.document.read_text())
    assert f"  2.1 added {datetime.now(UTC):%Y-%m-%d} " in told("The desk is oak")
    assert "your edit\n" in told("The desk is oak")
    assert "your edit" not in told("Ada prefers tea")
    # The record of a version may be swept; the line is its owner's all the same.
    with closing(sqlite3.connect(workspace.database)) as connection, connection:
        connection.execute("UPDATE versions SET text = '', record = '' WHERE number = 2")
    assert f"  version 2 added {datetime.now(UTC):%Y-%m-%d} " in told("The desk is oak")
    assert "your edit\n" in told("The desk is oak")


def test_a_line_that_left_for_a_pointer_is_a_change_of_the_section_where_it_was(lived: Store) -> None:
    (left, *_) = latest_entries(lived, 3)
    assert (left.name, left.why, left.section) == ("3.1", "evicted", BOND)
    assert [one.id for one in (*left.old, *left.new)] == ["L2", "L3"]


def test_standing_lines_come_first_and_a_history_that_was_deleted_leaves_the_ledger(lived: Store) -> None:
    assert [story.id for story in story_of_line(lived, "tea")] == ["L3", "L2", "L1"]
    lived.crystals.connection.execute("UPDATE versions SET text = '', record = '' WHERE number = 2")
    (story,) = story_of_line(lived, "L2")
    assert story.writing is not None
    assert (story.writing.version, story.writing.name) == (2, "")


STORIES = {
    "L1": (
        "1.1 added 2026-03-12 00:00 UTC, a dream (on request)",
        "2.1 changed 2026-03-12 00:00 UTC, a dream (on request)",
        "it has left, now: Ada drinks tea daily",
        "rests on crystal 000000000000, which was forgotten",
    ),
    KEPT.text: (
        "L2  The Bond: Ada drinks tea daily",
        "2.1 changed 2026-03-12 00:00 UTC, a dream (on request)",
        INSIGHT.text,
        "session s1): turn 0",
        "trust web, 2026-03-12, session s1): turn 1",
        "    replaced L1: Ada drinks tea",
        "3.1 put away 2026-03-12 00:00 UTC, a dream (on request)",
        "it has left, search: ada tea daily, kept as crystal",
    ),
    "L3": ("3.1 put away 2026-03-12 00:00 UTC, a dream (on request)", KEPT.text),
}


@pytest.mark.parametrize(("words", "told"), STORIES.items())
def test_a_line_tells_who_wrote_it_what_it_rests_on_and_where_it_went(
    lived: Store, capsys: pytest.CaptureFixture[str], words: str, told: tuple[str, ...]
) -> None:
    said = Caller(capsys)("why", words, "-w", lived.workspace.root).out
    assert [part for part in told if part not in said] == []
    assert ("it has left" in said) is (words != "L3")


@given(
    st.lists(st.text("aAbB éÉſßK\u200b\t\0京", min_size=1, max_size=8), min_size=1, max_size=6),
    st.text("aAbB éſsßkK京", min_size=1, max_size=3),
)
def test_a_line_is_found_by_whatever_part_of_it(texts: list[str], part: str) -> None:
    row = "INSERT INTO lines (id, section, text, crystal, importance, trust, born_in, born_at)"
    with closing(memory_database()) as connection:
        for number, text in enumerate(texts):
            values = (f"L{number}", BOND.value, text, "", 0.5, "agent", number, to_text(AT))
            connection.execute(f"{row} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        found = [life.text for life in Lineage(connection).lives(part)]
    assert found == [text for text in reversed(texts) if normalise(part) in normalise(text)]
