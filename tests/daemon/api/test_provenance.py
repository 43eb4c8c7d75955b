"""Every line can say where it comes from, and every line that left where it went."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.explain.why import why
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive
from state.changes.change import Change
from state.crystals.crystal import Crystal, Origin
from state.document.document import SectionName
from state.document.operations import Action, Operation, Why
from state.dream import Dream, Reason
from state.errors import NotFoundError
from state.scratch import Note
from state.stores.database.connection import memory_database, to_text
from state.stores.history.lineage import Lineage
from state.text.words import normalise
from state.trust import Trust
from tests.support.running import Caller
from tests.support.versions import added, line, pointer

AT = datetime(2026, 3, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_exclusive(init_workspace(tmp_path / "here"), Config(), "test") as store:
        yield store


def dreamt(store: Store, *notes: str) -> None:
    for text in notes:
        store.notes.inbox.append(Note(text, datetime.now(UTC)))
    dream_now(store, Reason.MANUAL, Mode.AUTO)


def test_a_line_names_its_dream_its_operation_and_its_note(store: Store) -> None:
    dreamt(store, "Ben drinks coffee", "Ada prefers tea over coffee in the morning")
    (story,) = why(store, "ada PREFERS  tea")
    assert (story.section, story.ending) == ("Active Context", None)
    assert story.writing is not None
    assert (story.writing.version, story.writing.reason, story.writing.model) == (1, "manual", "extractive")
    assert story.writing.operation.startswith("add, citing N")
    (witness,) = story.evidence
    assert witness.text == "Ada prefers tea over coffee in the morning"
    assert witness.trust == "agent"
    assert any(source.startswith("notes:2@") for source in witness.sources)
    assert why(store, story.id) == (story,)
    assert why(store, story.id.lower()) == (story,)


def test_a_line_that_no_dream_has_met_was_written_by_hand(store: Store) -> None:
    dreamt(store, "Ada prefers tea")
    document = store.workspace.document
    document.write_text(document.read_text().replace("## The Niche", "- Ada has a parrot\n\n## The Niche"))
    (story,) = why(store, "parrot")
    assert (story.id, story.section, story.trust, story.writing) == ("", "The Bond", "owner", None)


def test_words_that_never_stood_there_are_not_found(store: Store) -> None:
    with pytest.raises(NotFoundError, match="'parrot'"):
        why(store, "parrot")
    with pytest.raises(NotFoundError):
        why(store, " ")


def version(number: int, **changes: Any) -> Dream:
    values = {"before": "", "after": f"# Working Memory State\n\nversion {number}\n"} | changes
    return Dream(number=number, id=f"d{number}", at=AT, cause="dream", reason="manual", mood="calm", **values)


@pytest.fixture
def lived(store: Store) -> Store:
    """L1 is revised into L2, which leaves to a pointer; its evidence is an insight made of two turns."""
    turns = [
        Crystal(f"turn {number}", Origin.SESSION, AT, trust=Trust.WEB, session="s1", position=number)
        for number in range(2)
    ]
    insight = Crystal("Ada likes hot drinks", Origin.DREAM, AT, parents=tuple(turn.id for turn in turns))
    kept = Crystal("Ada drinks tea daily", Origin.EVICTED, AT, id="1" * 32)
    section = SectionName.BOND
    store.crystals.upsert(turns)
    drinks, daily = line("L1", section, "Ada drinks tea"), line("L2", section, "Ada drinks tea daily", Trust.WEB)
    first = version(
        1,
        operations=(Operation(Action.ADD, section, "Ada drinks tea", cites=("N1",)),),
        changes=added(line("L1", section, "Ada drinks tea"), evidence=("0" * 32,)),
    )
    second = version(
        2,
        before=first.after,
        crystals=(insight,),
        operations=(Operation(Action.REVISE, section, "Ada drinks tea daily", ("L1",), ("I1",)),),
        changes=(Change(Why.REVISED, (drinks,), (daily,), (insight.id,)),),
    )
    left = replace(daily, crystal=kept.id)
    third = version(
        3,
        before=second.after,
        crystals=(kept,),
        changes=(Change(Why.EVICTED, (left,), (pointer("L3", "tea", "ada tea daily", kept.id),), (kept.id,)),),
    )
    for dream in (first, second, third):
        store.memory.commit(dream)
    return store


def test_a_line_that_was_revised_names_its_successor(lived: Store) -> None:
    (story,) = why(lived, "L1")
    assert story.ending is not None
    assert (story.ending.version, story.ending.fate) == (2, "revised")
    assert story.ending.successor == "Ada drinks tea daily"
    assert story.ending.keywords == ""


def test_a_crystal_that_was_forgotten_is_still_named(lived: Store) -> None:
    (witness,) = why(lived, "L1")[0].evidence
    assert (witness.crystal, witness.text, witness.at) == ("0" * 32, "", None)


def test_a_line_that_left_names_pointer_and_crystal_and_what_it_had_replaced(lived: Store) -> None:
    (story,) = why(lived, "L2")
    assert story.ending is not None
    assert (story.ending.fate, story.ending.keywords) == ("evicted", "ada tea daily")
    assert story.ending.crystal == "1" * 32
    assert story.writing is not None
    assert story.writing.operation == "revise of L1, citing I1"
    (old,) = story.replaced
    assert (old.id, old.fate, old.gone_in) == ("L1", "revised", 2)


def test_an_insight_leads_on_to_what_it_was_made_from(lived: Store) -> None:
    insight, *turns = why(lived, "L2")[0].evidence
    assert insight.text == "Ada likes hot drinks"
    assert insight.parents == tuple(turn.crystal for turn in turns)
    assert [(turn.text, turn.trust, turn.sources) for turn in turns] == [
        ("turn 0", "web", ("session s1",)),
        ("turn 1", "web", ("session s1",)),
    ]


def test_a_pointer_has_a_story_too(lived: Store) -> None:
    (story,) = why(lived, "L3")
    assert story.writing is not None
    assert story.writing.operation == "pointer to a line that left"
    assert story.evidence[0].text == "Ada drinks tea daily"


def test_standing_lines_come_before_those_that_left(lived: Store) -> None:
    assert [story.id for story in why(lived, "tea")] == ["L3", "L2", "L1"]


def test_a_history_that_was_deleted_leaves_the_ledger(lived: Store) -> None:
    lived.crystals.connection.execute("UPDATE versions SET text = x'', record = x'' WHERE number = 2")
    (story,) = why(lived, "L2")
    assert story.writing is not None
    assert (story.writing.version, story.writing.dream) == (2, "")


def test_the_command_prints_the_whole_story(lived: Store, capsys: pytest.CaptureFixture[str]) -> None:
    ended = Caller(capsys)("why", "Ada drinks tea daily", "-w", lived.workspace.root)
    assert ended.status == 0
    assert "L2  The Bond: Ada drinks tea daily" in ended.out
    assert "in version 2, dream d2 (manual), revise of L1, citing I1" in ended.out
    assert "session s1): turn 0" in ended.out
    assert "replaced L1 (revised in version 2): Ada drinks tea" in ended.out
    assert "left in version 3: evicted, search: ada tea daily, kept as crystal" in ended.out
    gone = Caller(capsys)("why", "L1", "-w", lived.workspace.root).out
    assert "crystal 000000000000, which was forgotten" in gone
    assert "now: Ada drinks tea daily" in gone


@given(
    st.lists(st.text("aAbB éÉſßK\u200b\t\0京", min_size=1, max_size=8), min_size=1, max_size=6),
    st.text("aAbB éſsßkK京", min_size=1, max_size=3),
)
def test_a_line_is_found_by_whatever_part_of_it(texts: list[str], part: str) -> None:
    connection = memory_database()
    row = (
        "INSERT INTO lines (id, section, text, crystal, importance, trust, born_in, born_at)"
        " VALUES (?, ?, ?, '', 0.5, ?, ?, ?)"
    )
    for number, text in enumerate(texts):
        connection.execute(row, (f"L{number}", "The Bond", text, "agent", number, to_text(AT)))
    wanted = normalise(part)
    found = [life.text for life in Lineage(connection).lives(part)]
    connection.close()
    assert found == [text for text in reversed(texts) if wanted in normalise(text)]
