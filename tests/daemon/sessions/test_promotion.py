"""From working memory to crystals: what a record carries, what is refused, and what a failing store leaves behind."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from daemon import sessions
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import Store
from state.crystals.crystal import Origin
from state.errors import AlreadyPromotedError, UsageError
from state.sessions.item import Related
from state.stores.crystals.search import search
from state.trust import Trust
from tests.support.working import AT, HOUR, MINUTE, SECRET, add, contents, deeds, unredacted, written


@contextmanager
def crystals_failing(store: Store, condition: str = "TRUE") -> Iterator[None]:
    """No crystal for which the condition holds can be written."""
    failing = f"BEFORE INSERT ON crystals WHEN {condition} BEGIN SELECT RAISE(ABORT, 'torn'); END"
    store.connection.execute(f"CREATE TRIGGER no_crystals {failing}")
    yield
    store.connection.execute("DROP TRIGGER no_crystals")


def test_the_record_keeps_all_and_says_where_it_comes_from(store: Store) -> None:
    id_ = add(store, "Important info", session="user", priority="high", tags=["a", "b"], metadata={"k": "v"})
    sessions.get(store, "user", id_, AT)
    sessions.relation_add(store, "user", id_, "references", "skill_python", AT, {"context": "code"})
    record = sessions.promote(store, "user", id_, AT + HOUR)
    assert record.id == f"memory_promoted_{id_}_20241222-160000"
    assert (record.content, record.tags) == ("Important info", ("a", "b"))
    assert record.relations == (Related("references", "skill_python", {"context": "code"}),)
    assert record.metadata == {
        "k": "v",
        "promoted_from_working": "true",
        "working_memory_id": id_,
        "working_memory_session": "user",
        "promotion_reason": "manual",
        "access_count_at_promotion": "2",
        "importance_at_promotion": "0.5064",
    }
    (crystal,) = store.crystals.get([record.crystal_id])
    assert (crystal.text, crystal.origin, crystal.trust) == ("Important info", Origin.WORKING, Trust.AGENT)
    assert (crystal.importance, crystal.session, crystal.created_at) == (0.75, "user", AT)
    (listed,) = sessions.list_memories(store.connection, "user", AT, "promoted").memories
    assert (listed.promoted_to_id, listed.promoted_at) == (record.id, AT + HOUR)
    assert [hit.crystal.text for hit in search(searched_in(store), "important info", AT).hits] == ["Important info"]


def test_one_content_of_two_sessions_is_one_crystal_met_twice(store: Store) -> None:
    one = sessions.promote(store, "a", add(store, "the same", session="a"), AT)
    other = sessions.promote(store, "b", add(store, " the same\n", session="b", now=AT + MINUTE), AT + MINUTE)
    assert one.id != other.id
    assert one.crystal_id == other.crystal_id
    assert store.crystals.count() == 1
    assert [place.session for place in store.crystals.sources(one.crystal_id)] == ["a", "b"]


def test_already_promoted_is_said_when_the_record_was_forgotten_since(store: Store) -> None:
    id_ = add(store, "gone")
    record = sessions.promote(store, "s", id_, AT)
    store.crystals.remove([record.crystal_id])
    with pytest.raises(AlreadyPromotedError):
        sessions.promote(store, "s", id_, AT)
    assert store.crystals.count() == 0


def test_several_are_promoted_in_order_and_one_that_fails_stops_none(store: Store) -> None:
    first, last = add(store, "first"), add(store, "last")
    found = sessions.bulk_promote(store, "s", [last, "nobody's", first, last], AT)
    assert (found.success, found.failed) == (3, 1)
    assert [(one.memory_id, one.success, one.code) for one in found.results] == [
        (last, True, None),
        ("nobody's", False, "NOT_FOUND"),
        (first, True, None),
        (last, True, None),
    ]
    assert found.results[0].long_term_id == found.results[3].long_term_id
    assert store.crystals.count() == 2


@pytest.mark.parametrize(
    "given",
    [
        {"content": f"my token is {SECRET}"},
        {"content": "harmless", "tags": [SECRET]},
        {"content": "harmless", "metadata": {"token": SECRET}},
        {"content": "harmless", "metadata": {"password": "correct-horse-77"}},
        {"content": "harmless", "session": f"s {SECRET}"},
    ],
)
def test_a_secret_is_never_promoted_and_the_refusal_names_its_kind_alone(
    store: Store, given: dict[str, object]
) -> None:
    session = str(given.get("session", "s"))
    id_ = add(unredacted(store), priority="critical", **given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="it holds a secret") as refused:
        sessions.promote(store, session, id_, AT)
    assert SECRET not in str(refused.value).replace(session, "")
    assert sessions.get(store, session, id_, AT).promoted_to_id is None  # nor by itself
    assert sessions.get(store, session, id_, AT).promoted_to_id is None
    refusals = [reason for action, reason in deeds(store, session) if action == "refused"]
    assert len(refusals) == 1  # said once
    assert refusals[0].startswith("it holds a secret (")
    assert SECRET not in refusals[0]
    assert store.crystals.count() == 0
    (result,) = sessions.bulk_promote(store, session, [id_], AT).results
    assert (result.success, result.code) == (False, "VALIDATION_ERROR")


def test_a_secret_is_replaced_before_it_is_stored(store: Store) -> None:
    given = {"tags": [SECRET, "a"], "metadata": {"password": "correct-horse-77"}, "agent_id": f"bot {SECRET}"}
    id_ = add(store, f"my token is {SECRET}", source=f"https://me:{SECRET}@shop.test/", **given)  # type: ignore[arg-type]
    sessions.relation_add(store, "s", id_, "uses", f"vault {SECRET}", AT, {"key": SECRET})
    item = sessions.get(store, "s", id_, AT)
    assert item.content == "my token is [redacted: github token]"
    assert item.tags == ("[redacted: github token]", "a")
    assert item.metadata == {"password": "[redacted: password]"}
    assert SECRET not in str(written(store))
    assert SECRET.encode() not in store.workspace.database.read_bytes()
    assert sessions.promote(store, "s", id_, AT).content == item.content


@pytest.mark.parametrize(
    ("source", "trust"),
    [
        *(("web", Trust.WEB), (" WEB ", Trust.WEB), ("https://x.example/a", Trust.WEB), ("WebFetch", Trust.WEB)),
        *(("tool", Trust.TOOL), ("Tool: read_file", Trust.TOOL), ("owner", Trust.AGENT), ("agent", Trust.AGENT)),
    ],
)
def test_a_source_lowers_the_trust_and_never_raises_it(store: Store, source: str, trust: Trust) -> None:
    record = sessions.promote(store, "s", add(store, "said", source=source), AT)
    assert store.crystals.get([record.crystal_id])[0].trust is trust


def test_an_automatic_promotion_that_fails_is_tried_at_the_next_look_and_done_once(store: Store) -> None:
    id_ = add(store, "worth it", priority="critical")
    with crystals_failing(store):
        assert sessions.get(store, "s", id_, AT).promoted_to_id is None
        assert sessions.get(store, "s", id_, AT).access_count == 3
        assert sessions.maintain(store, AT + 24 * HOUR).promoted == 0
        assert contents(sessions.list_memories(store.connection, "s", AT, "kept")) == [
            "worth it"
        ]  # it has not left unpromoted
    assert sessions.maintain(store, AT + 25 * HOUR).promoted == 1
    assert sessions.maintain(store, AT + 26 * HOUR).promoted == 0
    (crystal,) = store.crystals.by_keys([1]).values()
    assert len(store.crystals.sources(crystal.id)) == 1
    assert [action for action, _ in deeds(store)] == ["opened", "added", "promoted", "left"]


def soft_limited(store: Store) -> str:
    """The id of a memory that left at the soft limit, as a crystal: with a tag, metadata and a relation."""
    sessions.session_open(store, "s", AT, "budget", {"soft_limit": 2, "hard_limit": 9, "batch_size": 1})
    id_ = add(store, "The ferry leaves at six", tags=["travel"], metadata={"k": "v"})
    sessions.relation_add(store, "s", id_, "about", "ferry", AT)
    made = sessions.add(store, "s", sessions.Draft("next", "low"), AT)
    assert [(one.memory_id, one.action) for one in made.evicted] == [(id_, "promote")]
    return id_


def test_what_a_soft_limit_promoted_is_read_as_it_was(store: Store) -> None:
    id_ = soft_limited(store)
    record = sessions.promote(store, "s", id_, AT)
    assert (record.tags, record.metadata["k"], record.relations[0].target_element_id) == (("travel",), "v", "ferry")
    assert sessions.promote(store, "s", id_, AT + HOUR) == record
    got = sessions.get(store, "s", id_, AT)
    assert (got.state, got.promoted_to_id, got.tags, got.access_count) == ("archived", record.id, ("travel",), 1)
    assert [relation.target_element_id for relation in got.relations] == ["ferry"]
    for found in (
        sessions.list_memories(store.connection, "s", AT, "promoted").memories,
        sessions.list_memories(store.connection, "s", AT, "kept").memories[:1],
        sessions.recall(store, "s", "ferry", AT).memories,
        sessions.recall(store, "s", "travel", AT).memories,
    ):
        assert [(one.id, one.tags, one.metadata, len(one.relations)) for one in found] == [
            (id_, ("travel",), {"k": "v"}, 1)
        ]
    assert contents(sessions.list_memories(store.connection, "s", AT, include_promoted=True)) == [
        "next"
    ]  # it is not in the set
