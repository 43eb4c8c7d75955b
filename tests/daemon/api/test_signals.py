"""Open questions, skills, hormones over time and what stays forgotten, as tables."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.access import LocalAccess
from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import Config
from daemon.upkeep.forget import forget, unforget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Kind, Origin
from state.forgetting.cutting import Cut
from state.signals.curiosity import Cause
from state.signals.hormones import BASELINES, Feeling, resting
from state.stores.crystals.hormones import Feelings
from state.stores.database.connection import transaction
from state.stores.database.moments import to_text
from state.stores.database.opening import memory_database
from state.stores.vectors.embedder import Unavailable
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, tzinfo=UTC)
KEY = "sk-ant-api03-" + "Zk3vQ9xW" * 11 + "AA"


@pytest.fixture
def access(tmp_path: Path) -> Iterator[LocalAccess]:
    embedding = Embedding.given(Unavailable("no model in this test"))
    with LocalAccess(init_workspace(tmp_path), Config(), "a test", embedding=embedding) as access:
        yield access


@pytest.fixture
def store(access: LocalAccess) -> Iterator[Store]:
    with access.write() as store:
        yield store


def ask(access: LocalAccess, name: str, **fields: Any) -> Any:
    operation = OPERATIONS[name]
    return operation.answer(access, operation.bind(**fields))


@pytest.mark.parametrize("sort", ["times", "first_at", "last_at"])
def test_the_questions_are_listed_in_their_order(access: LocalAccess, store: Store, sort: str) -> None:
    questions = store.questions
    for number in range(10):
        for _ in range(1 + number % 3):
            questions.raise_(f"Why is it so, {number}?", Cause.MISS, NOW + timedelta(days=number // 2))
    whole = ask(access, "gaps", sort=sort)
    assert {row.question for row in whole.gaps} == {f"Why is it so, {number}?" for number in range(10)}
    values = [getattr(row, sort) for row in whole.gaps]
    assert values == sorted(values, reverse=True)
    few = ask(access, "gaps", sort=sort, limit=3)
    assert (few.gaps, few.total) == (whole.gaps[:3], 10)
    assert ask(access, "gaps", cause="explicit").total == 0


@given(
    felt=st.lists(st.tuples(st.integers(1, 300), st.sampled_from(Feeling)), max_size=30),
    minutes=st.lists(st.integers(0, 9_000), min_size=1, max_size=30).map(sorted),
)
@examples(60)
def test_the_curve_is_what_the_levels_were(felt: list[tuple[int, Feeling]], minutes: list[int]) -> None:
    connection = memory_database()
    feelings, at = Feelings(connection, BASELINES), NOW
    steps = []
    for after, feeling in felt:
        at += timedelta(minutes=after)
        steps.append((at, feeling))
    moments = [NOW + timedelta(minutes=minute, seconds=30) for minute in minutes]
    levels = []
    for moment in moments:
        while steps and steps[0][0] <= moment:
            then, feeling = steps.pop(0)
            feelings.feel([feeling], "", then)
        levels.append(feelings.levels(moment))
    for then, feeling in steps:
        feelings.feel([feeling], "", then)
    assert feelings.levels_at(moments) == levels
    connection.close()


@given(st.lists(st.tuples(st.integers(-180, 180), st.sampled_from(Feeling)), max_size=20))
@examples(40)
def test_whatever_is_told_late_the_curve_ends_where_the_levels_are(felt: list[tuple[int, Feeling]]) -> None:
    connection = memory_database()
    feelings = Feelings(connection, BASELINES)
    for minutes, feeling in felt:
        feelings.feel([feeling], "", NOW + timedelta(minutes=minutes))
    end = NOW + timedelta(hours=4)
    assert feelings.levels_at([NOW - timedelta(days=1), end]) == [
        resting(NOW - timedelta(days=1)),
        feelings.levels(end),
    ]
    connection.execute("DELETE FROM feelings")  # as a sweep does, of what is long past
    assert feelings.levels_at([end]) == [feelings.levels(end)]
    connection.close()


def test_hormones_tell_the_latest_events_and_how_many_more(access: LocalAccess, store: Store) -> None:
    now, feelings = utc_now(), store.feelings
    for number in range(103):
        cause = f"event {number}" if number else f"my key is {KEY}"
        feelings.feel([Feeling.REWARD], cause, now - timedelta(minutes=103 - number))
    feelings.feel([Feeling.ERROR], "long ago", now - timedelta(hours=30))
    told = ask(access, "mood", hours=2, samples=5)
    assert (len(told.events), told.more) == (100, 3)
    assert told.events[0].cause == "event 102"
    assert told.events[0].after.dopamine == 1.0
    assert [moment.at for moment in told.curve] == sorted(moment.at for moment in told.curve)
    assert told.curve[-1] == told.now
    assert (told.curve[-1].at - told.curve[0].at, len(told.curve)) == (timedelta(hours=2), 5)
    assert told.baselines.levels == BASELINES
    store.connection.execute("DELETE FROM feelings WHERE cause LIKE 'event%'")
    (last,) = ask(access, "mood", hours=2).events
    assert "[redacted" in last.cause
    assert KEY not in repr(last)


TEXTS = ("the falcon nests in the old tower", "Mallory", "the third lock opens with " + "seven turns " * 20)


def test_what_stays_forgotten_is_told_without_its_words(access: LocalAccess, store: Store) -> None:
    assert ask(access, "forgotten").total == 0
    receipts = []
    for days, text in enumerate(TEXTS):
        store.crystals.learn([Crystal(f"It is said that {text}.", Origin.SESSION, NOW)])
        cut = Cut.WORDS if days else Cut.SENTENCES
        receipts.append(forget(store, ForgetRequest(text, cut), NOW + timedelta(days=days)))
    store.crystals.forgotten.block_texts(["purged one", "purged two"], NOW + timedelta(days=9))
    store.connection.executemany(
        "INSERT INTO tombstones VALUES (?, ?)", [(f"line {at}, {KEY}", to_text(NOW)) for at in range(3)]
    )
    whole = ask(access, "forgotten", limit=200)
    assert [(one.whole, one.words, one.cut) for one in whole.forgotten] == [
        (True, None, ""),
        (True, None, ""),
        (False, 45, "words"),
        (False, 1, "words"),
        (False, 7, "sentences"),
    ]
    assert [one.digest for one in whole.forgotten[2:]] == [one.digest for one in reversed(receipts)]
    found = ask(access, "forgotten", limit=2)
    assert (found.forgotten, found.total, len(found.deleted_lines)) == (whole.forgotten[:2], 5, 2)
    assert whole.deleted_total == len(whole.deleted_lines) == 3
    said = repr((whole, found))
    for word in (KEY, "falcon", "Mallory", "seven turns", "purged"):
        assert word not in said, word
    unforget(store.connection, TEXTS[1], NOW)
    assert [one.words for one in ask(access, "forgotten").forgotten] == [None, None, 45, 7]


def test_a_forgotten_text_is_in_no_table(access: LocalAccess, store: Store) -> None:
    store.crystals.learn([Crystal("Which falcon nests in the old tower is known", Origin.SESSION, NOW)])
    task = Crystal("Count what the falcon laid in the old tower", Origin.SESSION, NOW, Kind.TASK_PATTERN)
    days = (NOW - timedelta(days=day) for day in range(3))
    store.crystals.learn(replace(task, created_at=at, session=str(at)) for at in days)
    store.questions.raise_("Where does the falcon nest in the old tower?", Cause.QUESTION, NOW)
    feelings = store.feelings
    feelings.feel([Feeling.REWARD], "the falcon nests in the old tower", utc_now())
    with transaction(store.connection) as connection:
        connection.execute("INSERT INTO tombstones VALUES ('the falcon nests in the old tower', ?)", (to_text(NOW),))
    tables: dict[str, dict[str, int]] = {
        "crystals": {},
        "gaps": {},
        "skills": {},
        "mood": {"hours": 1},
        "forgotten": {},
    }
    assert all("falcon" in repr(ask(access, table, **fields)) for table, fields in tables.items())
    forget(store, ForgetRequest("falcon"), utc_now())
    assert [table for table, fields in tables.items() if "falcon" in repr(ask(access, table, **fields))] == []
