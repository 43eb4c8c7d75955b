"""Ids and contents that somebody chose to do harm with are data: kept as they are, or refused in words."""

import json
from pathlib import Path

import pytest

from daemon import sessions
from daemon.workspace.stores import Store
from state.codec import plain
from state.errors import UsageError
from tests.support.cases import cases
from tests.support.working import AT, HOUR, SECOND, add, contents, written

NAMES: list[str] = cases(__file__)["NAMES"]
CONTENTS: list[str] = cases(__file__)["CONTENTS"]


def test_hostile_session_ids_are_data_and_no_two_are_one(store: Store, tmp_path: Path) -> None:
    files = sorted(str(path) for path in tmp_path.parent.rglob("*") if not path.name.startswith("state.db"))
    for number, name in enumerate(NAMES):
        add(store, f"content {number}", session=name)
    for number, name in enumerate(NAMES):
        assert contents(sessions.list_memories(store, name, AT)) == [f"content {number}"], name[:40]
        (memory,) = sessions.search(store, name, AT, "CONTENT").memories
        assert memory.session_id == name
        assert sessions.get(store, name, memory.id, AT).access_count == 2
        assert sessions.promote(store, name, memory.id, AT).metadata["working_memory_session"] == name
        assert sessions.stats(store, name, AT).total_count == 1
        json.dumps(plain(memory))
    listed = {one.session_id for one in sessions.session_list(store).items}
    assert listed == set(NAMES)
    assert store.crystals.count() == len(NAMES)
    for name in NAMES:
        assert sessions.clear_session(store, name, AT).archived == 1
        assert sessions.recall(store, name, "content", AT).count == 1
    assert sorted(str(path) for path in tmp_path.parent.rglob("*") if not path.name.startswith("state.db")) == files


@pytest.mark.parametrize("name", ["", "\ud800", "a\udfffb", "x" * 16_385, "🦓" * 4_097])
def test_a_session_id_that_cannot_be_kept_is_refused_everywhere(store: Store, name: str) -> None:
    add(store, "there")
    before = written(store)
    for call in (
        lambda: add(store, "c", session=name),
        lambda: sessions.memorize(store, name, sessions.Draft("c"), AT),
        lambda: sessions.session_open(store, name, AT),
        lambda: sessions.get(store, name, "x", AT),
        lambda: sessions.list_memories(store, name, AT),
        lambda: sessions.search(store, name, AT, "x"),
        lambda: sessions.stats(store, name, AT),
        lambda: sessions.clear_session(store, name, AT),
        lambda: sessions.close_session(store, name, AT),
        lambda: sessions.recall(store, name, "x", AT),
        lambda: sessions.forget(store, name, "oldest", AT),
        lambda: sessions.session_events(store, name),
    ):
        with pytest.raises(UsageError, match="session_id"):
            call()
    assert written(store) == before


def test_hostile_contents_come_back_as_they_were(store: Store) -> None:
    ids = [add(store, content, now=AT + n * SECOND, tags=[content[:50]]) for n, content in enumerate(CONTENTS)]
    assert len(set(ids)) == len(CONTENTS)
    for id_, content in zip(ids, CONTENTS, strict=True):
        assert sessions.get(store, "s", id_, AT).content == content
        found = sessions.search(store, "s", AT, content)
        assert content in contents(found)
        assert content in contents(sessions.search(store, "s", AT, tags=[content[:50]]))
        assert all(one.content.casefold().count(content.casefold()) for one in found.memories)
        assert 0 <= found.memories[0].relevance_score <= 1
    sessions.clear_session(store, "s", AT)
    for id_, content in zip(ids, CONTENTS, strict=True):
        sessions.recall(store, "s", content, AT)
        assert sessions.restore(store, "s", id_, AT).memory.content == content
    assert contents(sessions.export(store, "s")) == [*CONTENTS]
    assert store.crystals.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    store.crystals.connection.execute("INSERT INTO cold_words (cold_words, rank) VALUES ('integrity-check', 1)")


def test_tags_that_look_like_json_match_only_themselves(store: Store) -> None:
    tags = ['a","b', "a", "b", '"', "\\", "\\\\", '\\"', "[]", "\x00", "a\x00", "é", "e\u0301", "A"]
    for number, tag in enumerate(tags):
        add(store, f"with {number}", tags=[tag], now=AT + number * SECOND)
    for number, tag in enumerate(tags):
        assert contents(sessions.search(store, "s", AT, tags=[tag])) == [f"with {number}"], tag
    assert sessions.search(store, "s", AT, tags=[f"none {n}" for n in range(5_000)]).count == 0


@pytest.mark.parametrize(
    "query",
    ["", " ", "*", '"', "AND", "NOT x", "a OR", "content:x", "x" * 200_000, "the of and", "a " * 5_000, "\x00"],
)
def test_a_query_is_words_and_no_syntax(store: Store, query: str) -> None:
    add(store, "x marks the spot and more")
    sessions.clear_session(store, "s", AT)
    assert sessions.recall(store, "s", query, AT).count in (0, 1)
    assert sessions.remember(store, "s", AT, query).count == 0
    assert sessions.search(store, "s", AT, query).count == 0


def test_surrogates_are_refused_wherever_they_come(store: Store) -> None:
    half = "half \ud83d of it"
    id_ = add(store, "there")
    before = written(store)
    for call in (
        lambda: add(store, half),
        lambda: add(store, "c", tags=[half]),
        lambda: add(store, "c", metadata={half: "x"}),
        lambda: add(store, "c", metadata={"x": half}),
        lambda: add(store, "c", agent_id=half),
        lambda: add(store, "c", source=half),
        lambda: sessions.search(store, "s", AT, half),
        lambda: sessions.search(store, "s", AT, tags=[half]),
        lambda: sessions.recall(store, "s", half, AT),
        lambda: sessions.get(store, "s", half, AT),
        lambda: sessions.relation_add(store, "s", id_, half, "x", AT),
        lambda: sessions.relation_add(store, "s", id_, "x", half, AT),
    ):
        with pytest.raises(UsageError):
            call()
    assert written(store) == before


def test_times_at_the_ends_of_the_calendar_do_not_overflow(store: Store) -> None:
    late = AT.replace(year=9999, month=12, day=31)
    id_ = add(store, "late", priority="critical", now=late)
    assert sessions.extend_ttl(store, "s", id_, late).new_expires_at is not None
    assert sessions.maintain(store, late).sessions == 0
    early = AT.replace(year=1, month=1, day=1)
    add(store, "early", session="early", now=early)
    assert sessions.maintain(store, early + HOUR).sessions >= 1
