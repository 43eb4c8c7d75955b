"""Ids and contents that somebody chose to do harm with are data: kept as they are, or refused in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from daemon import sessions
from daemon.api.operations import sessions as operations
from daemon.api.operations.operation import AnyOperation
from daemon.workspace.stores import Store
from state.codec import plain
from state.errors import UsageError
from tests.support.cases import cases
from tests.support.working import AT, HOUR, SECOND, add, contents

NAMES: list[str] = cases(__file__)["NAMES"]
CONTENTS: list[str] = cases(__file__)["CONTENTS"]


def test_hostile_session_ids_are_data_and_no_two_are_one(store: Store, tmp_path: Path) -> None:
    files = sorted(str(path) for path in tmp_path.parent.rglob("*") if not path.name.startswith("state.db"))
    for number, name in enumerate(NAMES):
        add(store, f"content {number}", session=name)
    for number, name in enumerate(NAMES):
        assert contents(sessions.list_memories(store.connection, name, AT)) == [f"content {number}"], name[:40]
        (memory,) = sessions.search(store.connection, name, AT, "CONTENT").memories
        assert memory.session_id == name
        assert sessions.get(store, name, memory.id, AT).access_count == 2
        assert sessions.promote(store, name, memory.id, AT).metadata["working_memory_session"] == name
        assert sessions.stats(store.connection, name, AT).total_count == 1
        json.dumps(plain(memory))
    listed = {one.session_id for one in sessions.session_list(store.connection).sessions}
    assert listed == set(NAMES)
    assert store.crystals.count() == len(NAMES)
    for name in NAMES:
        assert sessions.clear_session(store.connection, name, AT).archived == 1
        assert sessions.recall(store, name, "content", AT).count == 1
    assert sorted(str(path) for path in tmp_path.parent.rglob("*") if not path.name.startswith("state.db")) == files


def test_hostile_contents_come_back_as_they_were(store: Store) -> None:
    ids = [add(store, content, now=AT + n * SECOND, tags=[content[:50]]) for n, content in enumerate(CONTENTS)]
    assert len(set(ids)) == len(CONTENTS)
    for id_, content in zip(ids, CONTENTS, strict=True):
        assert sessions.get(store, "s", id_, AT).content == content
        found = sessions.search(store.connection, "s", AT, content)
        assert content in contents(found)
        assert content in contents(sessions.search(store.connection, "s", AT, tags=[content[:50]]))
        assert all(one.content.casefold().count(content.casefold()) for one in found.memories)
        assert 0 <= found.memories[0].relevance_score <= 1
    sessions.clear_session(store.connection, "s", AT)
    for id_, content in zip(ids, CONTENTS, strict=True):
        sessions.recall(store, "s", content, AT)
        assert sessions.restore(store, "s", id_, AT).memory.content == content
    assert contents(sessions.list_memories(store.connection, "s", AT, "kept")) == [*CONTENTS]
    assert store.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    store.connection.execute("INSERT INTO cold_words (cold_words, rank) VALUES ('integrity-check', 1)")


def test_tags_that_look_like_json_match_only_themselves(store: Store) -> None:
    tags = ['a","b', "a", "b", '"', "\\", "\\\\", '\\"', "[]", "\x00", "a\x00", "é", "e\u0301", "A"]
    for number, tag in enumerate(tags):
        add(store, f"with {number}", tags=[tag], now=AT + number * SECOND)
    for number, tag in enumerate(tags):
        assert contents(sessions.search(store.connection, "s", AT, tags=[tag])) == [f"with {number}"], tag
    assert sessions.search(store.connection, "s", AT, tags=[f"none {n}" for n in range(5_000)]).count == 0


HALF = "half \ud83d of it"
ADD = {"session_id": "s", "content": "c", "priority": "low"}
ONE = {"session_id": "s", "memory_id": "x"}
REFUSED: list[tuple[AnyOperation, dict[str, Any]]] = [
    *((operations.add, ADD | {name: HALF}) for name in ("session_id", "content", "agent_id", "source")),
    *((operations.add, ADD | {"tags": tags}) for tags in ("text", [""], [1], [HALF])),
    *((operations.add, ADD | {"metadata": table}) for table in ({"a": 1}, {HALF: "x"}, {"x": HALF})),
    *((operations.add, ADD | {"metadata": {"a": "x" * 10_001}}),),
    *((operations.add, ADD | one) for one in ({"session_id": ""}, {"session_id": "x" * 10_001}, {"content": ""})),
    *((operations.add, ADD | {"priority": one}) for one in ("urgent", "")),
    *((operations.add, {**ADD, "importance": one}) for one in (-0.1, 1.1, float("nan"), "0.5", "★★★★", "11/10", [1])),
    *((operations.add, ADD | {"step_index": -1}), (operations.memorize, ADD | {"token_count": 0})),
    *((operations.get, ONE | {name: HALF}) for name in ONE),
    *((operations.reassess, {**ONE, "importance": one}) for one in (1.5, "7.5/100")),
    *((operations.relation_add, ONE | {"relation_type": "x", "target_element_id": "x"} | one) for one in (
        {"relation_type": ""}, {"target_element_id": ""}, {"relation_type": HALF}, {"target_element_id": HALF})),
    *((operations.search, {"session_id": "s", **one}) for one in ({"priority": ""}, {"query": HALF}, {"limit": 0})),
    *((operations.recall, {"session_id": "s", **one}) for one in ({"query": HALF}, {"limit": 0})),
    *((operations.remember, {"session_id": "s", "filters": one}) for one in (
        {"colour": "red"}, {"tags": "a"}, {"priority": "top"}, {"agent_id": 5})),
    *((operations.context, {"session_id": "s", **one}) for one in ({"strategy": "best"}, {"max_tokens": 0})),
    *((operations.summarize, {"session_id": "s", "token_limit": 0}), (operations.forget, ONE | {"mode": "gone"})),
]  # fmt: skip


def test_what_cannot_be_meant_is_refused_before_anything_is_looked_at() -> None:
    for operation, fields in REFUSED:
        with pytest.raises(UsageError) as refused:
            operation.bind(**fields)
        assert str(refused.value).isprintable(), (operation.name, fields)
        assert len(str(refused.value)) < 400


def test_times_at_the_ends_of_the_calendar_do_not_overflow(store: Store) -> None:
    late = AT.replace(year=9999, month=12, day=31)
    id_ = add(store, "late", priority="critical", now=late)
    assert sessions.extend_ttl(store.connection, "s", id_, late).new_expires_at is not None
    assert sessions.maintain(store, late).sessions == 0
    early = AT.replace(year=1, month=1, day=1)
    add(store, "early", session="early", now=early)
    assert sessions.maintain(store, early + HOUR).sessions >= 1
