"""The working_memory_* calls: each rule from both sides, under the ttl policy and the other three."""

import multiprocessing
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from daemon import sessions
from daemon.config.settings import Config
from daemon.sessions import answers as values
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import Store, open_owned
from daemon.workspace.vector_index import Embedding, Index
from state.errors import ConfirmRequiredError, ExpiredError, NotFoundError, UsageError
from state.sessions.item import Item, State
from state.sessions.selection import Filters
from state.stores.vectors.embedder import Unavailable
from tests.support.working import (
    AT,
    HOUR,
    MINUTE,
    SECOND,
    add,
    contents,
    deeds,
    everything,
    undreamt,
    working,
    written,
)


def test_a_new_memory_is_what_the_published_example_shows(store: Store) -> None:
    made = sessions.add(
        store,
        "user-session-123",
        sessions.Draft(
            "Meeting notes from today's standup",
            "high",
            ["meeting", "standup", "team", "meeting"],
            {"meeting_type": "standup", "duration": "15min"},
        ),
        AT,
    )
    assert made.id == "working_memory_user-session-123-Meeting notes from t_20241222-150000"
    assert made.session_id == "user-session-123"
    assert (made.expires_at, made.created_at) == (AT + 12 * HOUR, AT)
    assert (made.access_count, made.tags) == (1, ("meeting", "standup", "team"))
    assert made.metadata == {"meeting_type": "standup", "duration": "15min"}
    assert made.importance_score == pytest.approx(0.04 + 0.3 + 0.15 + 0.0034, abs=1e-6)
    assert (made.importance, made.priority, made.state, made.stored, made.evicted) == (0.75, "high", "live", True, ())


def test_a_content_has_102400_bytes_at_most(store: Store) -> None:
    for content in ("a" * 102_400, "é" * 51_200):
        add(store, content)
    before = written(store)
    for content in ("a" * 102_401, "é" * 51_201):
        with pytest.raises(UsageError, match="content"):
            add(store, content)
    assert written(store) == before
    assert sessions.list_memories(store.connection, "s", AT, "kept").count == 2


def test_get_counts_and_scores_and_nothing_else_does(store: Store) -> None:
    id_, other = add(store, "watched", tags=["t"]), add(store, "other")
    sessions.list_memories(store.connection, "s", AT, include_expired=True, include_promoted=True)
    sessions.search(store.connection, "s", AT, "watched", tags=["t"])
    sessions.list_memories(store.connection, "s", AT, "kept")
    sessions.stats(store.connection, "s", AT)
    sessions.list_pending(store.connection, "s", AT)
    sessions.remember(store.connection, "s", AT, "watched")
    sessions.context(store.connection, "s", AT)
    sessions.summarize(store.connection, "s", AT)
    sessions.preview(store.connection, "s", AT)
    sessions.relation_add(store, "s", id_, "references", "skill", AT)
    got = sessions.get(store, "s", id_, AT + HOUR)
    assert (got.access_count, got.last_accessed_at) == (2, AT + HOUR)
    assert got.importance_score == pytest.approx(0.4 * 0.2 + 0.3 * 0.75 + 0.2 * 0.5 + 0.1 * 0.007, abs=1e-6)
    assert [one.relation_type for one in got.relations] == ["references"]
    assert sessions.get(store, "s", other, AT).access_count == 2


def test_a_new_critical_memory_is_pending_and_is_promoted_at_its_first_get(store: Store) -> None:
    id_ = add(store, "the database password rotates on Fridays", priority="critical")
    assert contents(sessions.list_pending(store.connection, "s", AT)) == ["the database password rotates on Fridays"]
    assert sessions.stats(store.connection, "s", AT).pending_promotion == 1
    assert sessions.get(store, "s", id_, AT).promoted_to_id is not None
    assert sessions.list_pending(store.connection, "s", AT).count == 0
    assert contents(sessions.list_memories(store.connection, "s", AT, "promoted")) == [
        "the database password rotates on Fridays"
    ]


def test_list_goes_by_age_and_hides_what_is_expired_or_promoted(store: Store) -> None:
    add(store, "later", now=AT + SECOND)
    add(store, "b"), add(store, "a")
    promoted = add(store, "promoted", priority="critical")
    sessions.promote(store, "s", promoted, AT)
    add(store, "short", priority="low")
    late = AT + HOUR
    assert contents(sessions.list_memories(store.connection, "s", AT + SECOND)) == ["a", "b", "short", "later"]
    assert contents(sessions.list_memories(store.connection, "s", late)) == ["a", "b", "later"]
    shown = sessions.list_memories(store.connection, "s", late, include_expired=True, include_promoted=True)
    assert contents(shown) == ["a", "b", "promoted", "short", "later"]
    assert shown.count == 5


def test_expire_waits_for_the_cleanup_and_extend_revives_until_then(store: Store) -> None:
    id_ = add(store, "comes and goes", priority="high")
    done = sessions.expire(store.connection, "s", id_, AT + HOUR)
    assert (done.success, done.message) == (True, f"Memory expired: {id_}")
    assert contents(sessions.list_memories(store.connection, "s", AT + HOUR, "expired")) == ["comes and goes"]
    assert contents(sessions.list_memories(store.connection, "s", AT, "kept")) == ["comes and goes"]
    with pytest.raises(ExpiredError):
        sessions.get(store, "s", id_, AT + HOUR)
    extended = sessions.extend_ttl(store.connection, "s", id_, AT + 2 * HOUR)
    assert extended.new_expires_at == AT + 14 * HOUR  # from now: the expiry is past
    again = sessions.extend_ttl(store.connection, "s", id_, AT + 2 * HOUR)
    assert again.new_expires_at == AT + 26 * HOUR  # from the expiry: that is ahead
    assert sessions.get(store, "s", id_, AT + 26 * HOUR - SECOND).expires_at == AT + 26 * HOUR


def test_what_was_cleaned_is_in_the_cold_archive_and_cannot_be_extended(store: Store) -> None:
    id_ = add(store, "a note about zebras", priority="low", tags=["zoo"])
    sessions.maintain(store, AT + HOUR)
    for look in (
        lambda: sessions.get(store, "s", id_, AT + HOUR),
        lambda: sessions.extend_ttl(store.connection, "s", id_, AT + HOUR),
        lambda: sessions.expire(store.connection, "s", id_, AT + HOUR),
        lambda: sessions.promote(store, "s", id_, AT + HOUR),
        lambda: sessions.relation_add(store, "s", id_, "references", "x", AT + HOUR),
    ):
        with pytest.raises(NotFoundError, match="memory_recall"):
            look()
    assert sessions.list_memories(store.connection, "s", AT, "kept").count == 0
    assert sessions.stats(store.connection, "s", AT).total_count == 0
    assert sessions.search(store.connection, "s", AT, "zebras", include_expired=True).count == 0
    assert contents(sessions.recall(store, "s", "zebra", AT + HOUR)) == ["a note about zebras"]


def test_looking_at_a_session_that_was_never_opened_finds_nothing_and_writes_nothing(store: Store) -> None:
    before = written(store)
    assert sessions.list_memories(store.connection, "never", AT).count == 0
    assert sessions.search(store.connection, "never", AT, "x").count == 0
    assert sessions.recall(store, "never", "x", AT).count == 0
    assert sessions.remember(store.connection, "never", AT).count == 0
    assert sessions.preview(store.connection, "never", AT).leaving == ()
    assert sessions.context(store.connection, "never", AT).context == ""
    assert sessions.stats(store.connection, "never", AT).capacity.policy == "ttl"
    assert sessions.clear_session(store.connection, "never", AT).success
    assert sessions.sweep(store, "never", AT).sessions == 0
    with pytest.raises(NotFoundError):
        sessions.get(store, "never", "x", AT)
    assert written(store) == before


def test_a_policy_is_for_life(store: Store) -> None:
    opened = sessions.session_open(store, "s", AT, "bounded", {"max_items": 3})
    assert (opened.policy, opened.config["max_items"], opened.config["max_tokens"], opened.new) == (
        "bounded",
        3,
        4000,
        True,
    )
    assert not sessions.session_open(store, "s", AT + MINUTE, "bounded", {"max_items": 3}).new
    before = written(store)
    for policy, config in (
        ("ttl", {}),
        ("bounded", {}),
        ("bounded", {"max_items": 4}),
        ("nobody's", {}),
        ("ttl", {"x": 1}),
    ):
        with pytest.raises(UsageError):
            sessions.session_open(store, "s", AT, policy, config)
    assert written(store) == before
    sessions.close_session(store.connection, "s", AT)
    assert sessions.session_open(store, "s", AT, "ttl").policy == "ttl"  # a new life


def test_closing_hands_over_what_was_open_and_an_item_opens_it_again(store: Store) -> None:
    sessions.session_open(store, "s", AT, "budget", {"soft_limit": 5, "hard_limit": 9})
    add(store, "one", priority="high"), add(store, "two", priority="high")
    closed = sessions.close_session(store.connection, "s", AT + MINUTE)
    assert (closed.archived, closed.closed_at) == (2, AT + MINUTE)
    assert sessions.close_session(store.connection, "s", AT + HOUR) == values.Closed("s", AT + MINUTE, 0)
    assert [item.content for item, _ in undreamt(store)] == ["one", "two"]
    assert sessions.session_list(store.connection).sessions[0].closed_at == AT + MINUTE
    add(store, "three")
    (summary,) = sessions.session_list(store.connection).sessions
    assert (summary.policy, summary.closed_at, summary.count) == ("budget", None, 1)
    with pytest.raises(NotFoundError):
        sessions.close_session(store.connection, "never", AT)


LISTS: dict[str, Callable[..., values.Memories | values.SearchResult | values.Recalled]] = {
    "list": lambda store, *part: sessions.list_memories(
        store.connection, "s", AT, **dict(zip(("limit", "cursor"), part, strict=False))
    ),
    "search": lambda store, *part: sessions.search(
        store.connection, "s", AT, "item", **dict(zip(("limit", "cursor"), part, strict=False))
    ),
    "remember": lambda store, *part: sessions.remember(store.connection, "s", AT, "", Filters(), *part),
    "recall": lambda store, *part: sessions.recall(store, "s", "item", AT, *part),
}


@pytest.mark.parametrize("name", LISTS)
def test_the_pages_of_a_list_are_the_list(store: Store, name: str) -> None:
    for number in range(7):
        add(store, f"item {number}", now=AT + number * MINUTE)
    if name == "recall":
        sessions.clear_session(store.connection, "s", AT)
    whole, read = LISTS[name](store).memories, list[Item]()
    cursor: str | None = ""
    assert len(whole) == 7
    while cursor is not None:
        part = LISTS[name](store, 3, cursor)
        assert len(part.memories) <= 3
        read += part.memories
        cursor = part.next_cursor
    assert tuple(read) == whole
    with pytest.raises(UsageError, match="cursor: 'gone' is not in this list any more"):
        LISTS[name](store, 3, "gone")


def test_a_ttl_session_is_cleaned_every_five_minutes_and_not_between(store: Store) -> None:
    add(store, "short", priority="low")
    add(store, "shorter", priority="low", now=AT + SECOND)
    assert sessions.maintain(store, AT + 5 * MINUTE - SECOND).sessions == 0
    assert sessions.maintain(store, AT + HOUR).archived == 1
    assert sessions.maintain(store, AT + HOUR + 5 * MINUTE - SECOND).sessions == 0
    assert contents(sessions.list_memories(store.connection, "s", AT + HOUR + SECOND, "expired")) == ["shorter"]
    assert sessions.maintain(store, AT + HOUR + 5 * MINUTE).archived == 1
    assert sessions.list_memories(store.connection, "s", AT, "kept").count == 0


def test_a_budget_session_is_checked_every_thirty_seconds(store: Store) -> None:
    sessions.session_open(store, "s", AT, "budget")
    for number in range(19):
        add(store, f"n{number}")
    assert sessions.maintain(store, AT + 29 * SECOND).sessions == 0
    assert sessions.maintain(store, AT + 30 * SECOND).sessions == 1
    assert sessions.stats(store.connection, "s", AT).total_count == 19
    assert sessions.maintain(store, AT + 59 * SECOND).sessions == 0
    assert sessions.maintain(store, AT + 60 * SECOND).sessions == 1


def test_a_clock_that_was_set_back_does_not_keep_a_session_from_maintenance(store: Store) -> None:
    add(store, "from the future", priority="low", now=AT + 1_000 * HOUR)
    add(store, "now", priority="low", now=AT)
    assert sessions.maintain(store, AT + HOUR).sessions == 1
    assert contents(sessions.list_memories(store.connection, "s", AT, "kept")) == ["from the future"]


def held(store: Store, session: str = "s") -> list[str]:
    return contents(
        sessions.list_memories(store.connection, session, AT, include_expired=True, include_promoted=True)
    )


def test_hybrid_recall_puts_the_best_one_back_and_makes_room_for_it(store: Store) -> None:
    sessions.session_open(store, "s", AT, "hybrid", {"max_tokens": 100})
    old = add(store, "Some temporary information", importance=0.1, token_count=50)
    add(store, "one", importance=0.5, token_count=50, now=AT + SECOND)
    add(store, "two", importance=0.6, token_count=50, now=AT + 2 * SECOND)
    assert held(store) == ["one", "two"]
    found = sessions.recall(store, "s", "temporary information", AT + MINUTE)
    assert contents(found) == ["Some temporary information"]
    assert found.restored is not None
    assert (found.restored.restored, found.restored.memory.id) == (True, old)
    assert [one.content for one in found.restored.evicted] == ["one"]
    assert held(store) == ["Some temporary information", "two"]
    assert sessions.recall(store, "s", "temporary information", AT).count == 0  # it is cold no more


@pytest.mark.parametrize(
    ("instruction", "left"),
    [
        ("oldest", ["b", "c", "d"]),
        ("least important", ["a", "c", "d"]),  # b and d are equal: the older
        ("position:2", ["a", "b", "d"]),
        ("before:step_2", ["c", "d"]),
    ],
)
def test_forgetting_hard_purges_and_renumbers(store: Store, instruction: str, left: list[str]) -> None:
    for number, (text, importance) in enumerate([("a", 0.9), ("b", 0.2), ("c", 0.5), ("d", 0.2)]):
        add(store, text, importance=importance, step_index=number)
    before = written(store)
    with pytest.raises(ConfirmRequiredError):
        sessions.forget(store, "s", instruction, AT, "hard")
    assert written(store) == before
    done = sessions.forget(store, "s", instruction, AT, "hard", confirm=True)
    assert (held(store), done.count) == (left, len(left))
    purged = [item for item in everything(store) if item.state == "purged"]
    assert len(purged) == len(done.forgotten) == 4 - len(left)
    assert ("purged", instruction) in deeds(store)
    again = sessions.forget(store, "s", "position:0", AT, "hard", confirm=True)  # renumbered
    assert held(store) == left[1:]
    assert again.count == len(left) - 1


def test_no_relation_says_what_a_purged_memory_said(store: Store) -> None:
    gone, other = (add(store, text) for text in ("Zebulon fährt at night", "The door is new"))
    sessions.relation_add(store, "s", other, "about", gone, AT)
    sessions.forget(store, "s", f"id:{gone}", AT, "hard", confirm=True)
    (relation,) = sessions.get(store, "s", other, AT).relations
    assert "Zebulon" not in relation.target_element_id


def test_a_policy_without_a_time_to_live_neither_expires_nor_extends(store: Store) -> None:
    sessions.session_open(store, "s", AT, "hybrid")
    id_ = add(store, "stays")
    for change in (sessions.expire, sessions.extend_ttl):
        with pytest.raises(UsageError, match="hybrid"):
            change(store.connection, "s", id_, AT)
    assert sessions.get(store, "s", id_, AT + 10_000 * HOUR).expires_at is None


EACH = 1_000

CONFIGS: dict[str, dict[str, object]] = {
    "ttl": {},
    "budget": {},
    "hybrid": {"max_tokens": 100},
    "bounded": {"max_items": 20, "max_tokens": 100},
}

_FORKING = multiprocessing.get_context("forkserver")


def opened(root: Path) -> Store:
    """Without the lock that keeps the second one out."""
    workspace = open_workspace(root)
    none = Embedding.given(Unavailable("not needed here"))
    return open_owned(Index(workspace, lambda: None, none), Config())


def write(root: Path, writer: str, policy: str) -> None:
    with closing(opened(root)) as store:
        for number in range(EACH):
            sessions.add(store, "shared", sessions.Draft(f"{writer} {number}", "low", token_count=1 + number % 5), AT)


@pytest.mark.full
@pytest.mark.parametrize("policy", CONFIGS)
def test_two_processes_with_a_thousand_adds_each(tmp_path: Path, policy: str) -> None:
    root = init_workspace(tmp_path / "w").root
    with working(root) as store:
        sessions.session_open(store, "shared", AT, policy, CONFIGS[policy])
    processes = [_FORKING.Process(target=write, args=(root, writer, policy)) for writer in ("one", "other")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(200)
    assert [process.exitcode for process in processes] == [0, 0]  # and so nobody heard "database is locked"
    with working(root) as store:
        items = everything(store, "shared")
        assert sorted(item.content for item in items) == sorted(
            f"{w} {n}" for w in ("one", "other") for n in range(EACH)
        )
        assert [item.seq for item in items] == list(range(2 * EACH))
        assert len({item.id for item in items}) == 2 * EACH
        held = [item for item in items if item.state == State.LIVE]
        tokens = sum(item.token_count for item in held)
        found = sessions.stats(store.connection, "shared", AT).capacity
        assert (found.items, found.tokens) == (len(held), tokens)
