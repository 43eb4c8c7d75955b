"""The tables of working memory: orders out of indexes, events that stay, a purge that leaves nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.sessions.item import Item, State
from state.sessions.policies.policy import EVERYTHING, HIDDEN, LIVE, Order, Range
from state.stores.database.connection import open_database, transaction
from state.stores.sessions.events import EventKind
from state.stores.sessions.relations import Relation
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions
from tests.state.sessions.shelves import START, ListShelf, item
from tests.support.folders import PLACE
from tests.support.long_variants import examples


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    with closing(open_database(tmp_path / "state.db")) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        yield Sessions(connection)


def add(sessions: Sessions, session: Session, **fields: Any) -> Item:
    """An item of this session, whose id nobody else has."""
    new = item(session=session.id, **fields)
    return sessions.items.add(session, new, lambda _: f"{session.id} {sessions.view(session).count} {new.content}")


def now_so(sessions: Sessions, session: Session) -> Session:
    found = sessions.find(session.id)
    assert found is not None
    return found


bounds = st.none() | st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
moments = st.none() | st.integers(0, 4).map(lambda hours: START + timedelta(hours=hours))
steps = st.none() | st.integers(0, 5)
ranges = st.builds(
    Range,
    state=st.none() | st.sampled_from([State.LIVE, State.HIDDEN]),
    importance_from=bounds,
    importance_below=bounds,
    created_from=moments,
    created_before=moments,
    step_from=steps,
    step_before=steps,
)
drafts = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]),
        st.integers(0, 4),
        st.none() | st.integers(0, 3),
        st.integers(0, 5),
        st.sampled_from(["live", "hidden", "archived"]),
    ),
    max_size=40,
)


@examples(60)
@given(drafts, ranges)
def test_the_shelf_hands_out_what_a_sorted_list_would(given_: list[tuple[Any, ...]], only: Range) -> None:
    with (
        TemporaryDirectory(dir=PLACE) as folder,
        closing(open_database(Path(folder, "state.db"))) as connection,
    ):
        sessions = Sessions(connection)
        session, other = sessions.open("s", "ttl", {}, START), sessions.open("other", "ttl", {}, START)
        kept = []
        for number, (importance, hours, expires, step, state) in enumerate(given_):
            made = add(
                sessions,
                session,
                content=f"note {number}",
                importance=importance,
                created_at=START + timedelta(hours=hours),
                expires_at=None if expires is None else START + timedelta(hours=expires),
                step_index=step,
            )
            add(sessions, other, content=f"not asked for {number}", importance=importance)
            if state == "archived":
                sessions.items.leave(session, [(made, "why", False)], START)
            elif state == "hidden":
                sessions.items.hide(session, [made], "why", START)
            if state != "archived":
                kept.append(sessions.items.find(session, made.id))
        wanted = ListShelf([one for one in kept if one is not None])
        shelf = sessions.view(session)
        assert (shelf.count, shelf.tokens) == (wanted.count, wanted.tokens)
        assert shelf.step == max((draft[3] for draft in given_), default=0)
        for order in Order:
            for asked in (only, EVERYTHING, LIVE, HIDDEN):
                assert list(shelf.items(order, asked)) == list(wanted.items(order, asked)), order


def test_a_shelf_of_many_is_handed_out_whole_and_read_no_further_than_needed(sessions: Sessions) -> None:
    session = sessions.open("s", "ttl", {}, START)
    with transaction(sessions.connection):
        for number in range(2_500):
            add(sessions, session, content=f"n{number}", created_at=START + timedelta(seconds=number % 7))
    shelf = sessions.view(session)
    for order in (Order.OLDEST, Order.NEWEST, Order.LEAST_IMPORTANT, Order.MOST_IMPORTANT, Order.FIRST_IN):
        assert len({one.seq for one in shelf.items(order)}) == 2_500
    said: list[str] = []
    sessions.connection.set_trace_callback(said.append)
    assert len(list(islice(shelf.items(Order.LEAST_IMPORTANT), 10))) == 10
    sessions.connection.set_trace_callback(None)
    assert [statement.partition(" LIMIT ")[2] for statement in said] == ["16"]


def test_four_times_the_items_are_handed_out_for_about_four_times_the_work(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state.stores.sessions.view._LONGEST_LOOK", 16)
    session, steps = sessions.open("s", "ttl", {}, START), [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def work(count: int) -> int:
        with transaction(sessions.connection):
            for number in range(now_so(sessions, session).held, count):
                add(sessions, session, content=f"n{number}", created_at=START + timedelta(seconds=number % 7))
        shelf = sessions.view(now_so(sessions, session))
        steps[0] = 0
        sessions.connection.set_progress_handler(step, 100)
        for order in (Order.OLDEST, Order.MOST_IMPORTANT, Order.FIRST_IN):
            assert sum(1 for _ in shelf.items(order)) == count
        sessions.connection.set_progress_handler(None, 0)
        return steps[0]

    few = work(400)
    assert work(1_600) < 6 * few


@pytest.mark.parametrize("order", Order)
def test_every_order_comes_out_of_an_index_and_is_never_sorted(sessions: Sessions, order: Order) -> None:
    session = sessions.open("s", "ttl", {}, START)
    for number in range(20):
        add(sessions, session, content=f"n{number}", expires_at=START)
    said: list[str] = []
    sessions.connection.set_trace_callback(said.append)
    list(sessions.view(session).items(order, LIVE))
    sessions.connection.set_trace_callback(None)
    statements = [one for one in said if "FROM items" in one]
    assert len(statements) == 2  # the first look, and the one that goes on behind it
    for statement in statements:
        plan = [row["detail"] for row in sessions.connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
        assert any("USING INDEX items_by_" in step for step in plan), plan
        assert not any("TEMP B-TREE" in step for step in plan), plan


def test_numbers_and_counts_are_each_sessions_own(sessions: Sessions) -> None:
    one, other = sessions.open("one", "ttl", {}, START), sessions.open("other", "ttl", {}, START)
    first = [add(sessions, one, content=f"n{n}", token_count=3, step_index=n) for n in range(3)]
    add(sessions, other, content="m")
    assert [each.seq for each in first] == [0, 1, 2]
    found = now_so(sessions, one)
    assert (found.held, found.tokens, found.step) == (3, 9, 2)
    sessions.items.leave(one, [(first[0], "old", True)], START)
    sessions.items.hide(one, [first[1]], "asked", START)
    found = now_so(sessions, one)
    assert (found.held, found.tokens) == (2, 6)
    assert [each.seq for each in sessions.items.held(one)] == [1, 2]
    assert now_so(sessions, other).held == 1
    assert add(sessions, one, content="next").seq == 3


def test_events_can_neither_be_changed_nor_deleted(sessions: Sessions) -> None:
    session = sessions.open("s", "ttl", {}, START)
    add(sessions, session, content="c")
    for statement in ("UPDATE item_events SET reason = 'another'", "DELETE FROM item_events"):
        with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
            sessions.connection.execute(statement)
    actions = [event.action for event in sessions.events.of_session(session, 10)]
    assert actions == ["added", "opened"]
    assert [event.action for event in sessions.events.of_session(session, 10, before=2)] == ["opened"]


def test_what_was_purged_stands_nowhere_in_the_tables(sessions: Sessions) -> None:
    session = sessions.open("s", "ttl", {}, START)
    words = "xylophone quartz vermilion zeppelin fjordland obsidian"
    content, tag, key, value, agent, source = words.split()
    for cold in (False, True):
        made = sessions.items.add(
            session,
            item(session="s", content=content, tags=(tag,), metadata={key: value}, agent=agent, source=source),
            lambda taken, cold=cold: f"working_memory_s-{content}{taken('x')}{cold}",  # type: ignore[misc]
        )
        sessions.relations.add(session, made, Relation("about", f"the {content}", {"why": value}, START))
        if cold:
            sessions.items.leave(session, [(made, "old", False)], START)
            assert len(list(sessions.archive.search(content, session))) == 1
        found = sessions.items.find(session, made.id)
        assert found is not None
        sessions.items.purge(session, [found], "asked", START)
        assert sessions.forgotten.holds(f" {content}\n")
        assert list(sessions.archive.search(content, session)) == []
        assert now_so(sessions, session).held == 0
    read = sessions.connection.execute
    tables = [row["name"] for row in read("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    dump = [f"{table} {tuple(row)}" for table in tables for row in read(f"SELECT * FROM {table}").fetchall()]  # noqa: S608
    for word in words.split():
        assert [row for row in dump if word in row or word[:4] in row] == [], word
    assert [one.state for one in sessions.items.all(session)] == [State.PURGED] * 2


def test_the_salt_of_tombstones_is_the_databases_own(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "other"):
        with closing(open_database(tmp_path / name)) as connection:
            forgotten = Sessions(connection).forgotten
            assert not forgotten.holds("the text")
            forgotten.block_texts(["the text"], START)
            forgotten.block_texts(["the text"], START)
            assert forgotten.holds("the text")
            assert not forgotten.holds("another text")
            digests += [row["digest"] for row in connection.execute("SELECT digest FROM forgotten")]
    assert len(set(digests)) == 2


def test_reading_sees_one_moment(sessions: Sessions, tmp_path: Path) -> None:
    session = sessions.open("s", "ttl", {}, START)
    add(sessions, session, content="there")
    with closing(open_database(tmp_path / "state.db")) as connection:
        writer = Sessions(connection)
        with sessions.steady():
            assert len(sessions.items.held(session)) == 1
            add(writer, session, content="meanwhile")
            assert len(sessions.items.held(session)) == 1
            assert now_so(sessions, session).held == 1
        assert len(sessions.items.held(session)) == 2


def test_a_look_that_was_broken_off_does_not_keep_others_from_writing(sessions: Sessions, tmp_path: Path) -> None:
    session = sessions.open("s", "ttl", {}, START)
    for number in range(40):
        add(sessions, session, content=f"n{number}")
    with closing(open_database(tmp_path / "state.db")) as connection:
        other = Sessions(connection)
        look = sessions.view(session).items(Order.OLDEST)
        next(look)
        add(other, session, content="by another process")
        add(sessions, session, content="and by this one")
        assert now_so(other, session).held == 42
        assert len(list(look)) == 41


def test_the_archive_finds_words_of_any_script_and_quotes_nothing(sessions: Sessions) -> None:
    session, other = sessions.open("s", "ttl", {}, START), sessions.open("other", "ttl", {}, START)
    texts = ["Deployments happen on Fridays", "東京都に行きました", "ünïcödé Straße", "a NEAR b AND c"]
    for text in texts:
        made = add(sessions, session, content=text)
        sessions.items.leave(session, [(made, "old", False)], START)
    found = {
        query: [one.content for one in list(sessions.archive.search(query, session))]
        for query in ("deployment friday", "東京", "UNICODE", "NEAR(", '"', "c*", "the", "")
    }
    assert found["deployment friday"] == texts[:1]
    assert found["東京"] == texts[1:2]
    assert found["UNICODE"] == texts[2:3]
    assert found["NEAR("] == texts[3:]
    assert found['"'] == found["the"] == []
    assert found["c*"] == texts[3:]
    assert found[""] == texts[::-1]
    assert list(sessions.archive.search("friday", other)) == []
    assert len(list(sessions.archive.search("friday"))) == 1


def test_a_withdrawn_promotion_can_be_made_anew(sessions: Sessions) -> None:
    from state.stores.sessions.outbox import Promotion

    session = sessions.open("s", "ttl", {}, START)
    made = add(sessions, session, content="c")
    promotion = Promotion("memory_promoted_x", "00", {"k": "v"}, "auto", START)
    for _ in range(2):
        sessions.outbox.put(session, made, promotion)
        assert sessions.outbox.of(session, made) == promotion
        ((key, waiting),) = sessions.outbox.waiting(5)
        assert waiting == promotion
        assert sessions.in_row(key) == (now_so(sessions, session), made)
        sessions.outbox.withdraw([key])
        assert sessions.outbox.waiting(5) == []
    sessions.outbox.put(session, made, promotion)
    assert sessions.outbox.delivered(key, START)
    assert not sessions.outbox.delivered(key, START)
    assert sessions.outbox.counts() == (0, 1)
    sessions.events.add(session, EventKind.DELIVERED, START, [(made.seq, "", {})])
    assert [event.action for event in sessions.events.of_item(session, made.seq)] == ["added", "delivered"]
