"""The tables of working memory: numbers, events that stay, an archive of words, a purge that leaves nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from daemon import sessions as working_memory
from state.sessions.item import Item, Related, State
from state.stores.database.opening import open_database
from state.stores.sessions.sessions import Session, Sessions
from tests.state.sessions.items import DAY, START, item
from tests.support.working import AT, HOUR, contents, everything, working
from tests.support.working import add as add_said


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    with closing(open_database(tmp_path / "state.db")) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        yield Sessions(connection)


def add(sessions: Sessions, session: Session, **fields: Any) -> Item:
    """An item of this session, whose id nobody else has."""
    return sessions.add(session, item(id=f"{session.id} {fields['content']}", **fields))


def test_what_is_stored_is_read_as_it_was_and_as_policies_see_it(sessions: Sessions) -> None:
    session = sessions.open("s", START)
    relations = (Related("about", "東京", {"k": "v"}), Related("after", "x", {}))
    given = {"tags": ("a", "ü"), "metadata": {"k": "ü"}, "relations": relations, "expires_at": START + DAY}
    made = add(sessions, session, content="x" * 30, agent_id="ada", source="chat", importance=0.7, **given)
    assert sessions.item(session, made.id) == made
    assert list(sessions.view(session, START).items) == [made]
    changed = sessions.change(session, made, priority="low", promoted_to_id="p", promoted_at=START, tags=())
    assert sessions.items(session) == [changed]


def test_events_can_neither_be_changed_nor_deleted(sessions: Sessions) -> None:
    session = sessions.open("s", START)
    add(sessions, session, content="c")
    for statement in ("UPDATE item_events SET reason = 'another'", "DELETE FROM item_events"):
        with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
            sessions.connection.execute(statement)
    actions = [event.action for event in sessions.events(session, limit=10)]
    assert actions == ["added", "opened"]
    assert [event.action for event in sessions.events(session, limit=10, after=2)] == ["opened"]


def test_what_was_purged_stands_nowhere_in_the_tables(sessions: Sessions) -> None:
    session = sessions.open("s", START)
    words = "xylophone quartz vermilion zeppelin fjordland obsidian"
    content, tag, key, value, agent, source = words.split()
    for cold in (False, True):
        made = sessions.add(
            session,
            item(
                id=f"working_memory_s-{content}{cold}",
                content=content,
                tags=(tag,),
                metadata={key: value},
                agent_id=agent,
                source=source,
                relations=(Related("about", f"the {content}", {"why": value}),),
            ),
        )
        if cold:
            sessions.leave(session, made, "old", START)
            (made,) = sessions.archived([content], session)
        sessions.purge(session, [made], "asked", START)
        assert list(sessions.archived([content], session)) == []
        assert sessions.fill(session) == (0, 0)
    read = sessions.connection.execute
    tables = [row["name"] for row in read("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    dump = [f"{table} {tuple(row)}" for table in tables for row in read(f"SELECT * FROM {table}").fetchall()]  # noqa: S608
    for word in words.split():
        assert [row for row in dump if word in row or word[:4] in row] == [], word
    assert [one.state for one in sessions.items(session)] == [State.PURGED] * 2


def test_what_was_hidden_is_remembered_again_as_it_was(tmp_path: Path) -> None:
    with working(tmp_path / "w") as store:
        hidden, _ = (add_said(store, text) for text in ("one", "two"))
        before, _ = everything(store)
        working_memory.forget(store, "s", f"id:{hidden}", AT)
        assert contents(working_memory.remember(store.connection, "s", AT)) == ["two"]
        back = working_memory.restore(store, "s", hidden, AT + HOUR)
        assert (back.restored, back.evicted, everything(store)[0]) == (True, (), before)
        assert contents(working_memory.remember(store.connection, "s", AT)) == ["two", "one"]
