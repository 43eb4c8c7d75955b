"""The other three policies through the calls: who leaves, where they go, and that the limits hold."""

import multiprocessing
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from daemon import sessions
from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import Store, open_owned
from daemon.workspace.vector_index import Embedding, Index
from state.errors import ConfirmRequiredError, UsageError
from state.sessions.item import State
from state.stores.vectors.embedder import Unavailable
from tests.support.working import AT, HOUR, MINUTE, SECOND, add, contents, deeds, everything, working, written


def fill(store: Store, count: int, **given: Any) -> list[str]:
    return [add(store, f"note {n}", now=AT + n * SECOND, **given) for n in range(count)]


def held(store: Store, session: str = "s") -> list[str]:
    return contents(sessions.list_memories(store, session, AT, include_expired=True, include_promoted=True))


def test_budget_makes_the_oldest_ten_crystals_at_thirty_five(store: Store) -> None:
    sessions.session_open(store, "s", AT, "budget")
    fill(store, 34)
    assert (len(held(store)), store.crystals.count()) == (34, 0)
    assert sessions.capacity(store, "s").status == "approaching"
    made = sessions.add(store, "s", sessions.Draft("the 35th", "low"), AT + MINUTE)
    assert [one.content for one in made.evicted] == [f"note {n}" for n in range(10)]
    assert {one.action for one in made.evicted} == {"promote"}
    assert held(store) == [f"note {n}" for n in range(10, 34)] + ["the 35th"]
    assert store.crystals.count() == 10
    assert sessions.stats(store, "s", AT).total_count == 25


def test_hybrid_takes_what_just_fits_and_refuses_what_never_can(store: Store) -> None:
    sessions.session_open(store, "s", AT, "hybrid", {"max_tokens": 100})
    add(store, "first", token_count=60), add(store, "second", token_count=40)
    assert held(store) == ["first", "second"]
    before = written(store)
    with pytest.raises(UsageError, match="101 tokens"):
        add(store, "too large", token_count=101)
    assert written(store) == before
    made = sessions.add(store, "s", sessions.Draft("third", "low", importance=0.01, token_count=1), AT)
    assert [one.content for one in made.evicted] == [
        "first"
    ]  # equals: the older; the new one is never its own victim
    add(store, "all of it", token_count=100)
    assert held(store) == ["all of it"]
    assert len(everything(store)) == 4


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


def test_bounded_a_new_item_may_be_its_own_victim_and_is_not_lost(store: Store) -> None:
    sessions.session_open(store, "s", AT, "bounded", {"max_items": 2})
    for text in "ab":
        sessions.memorize(store, "s", sessions.Draft(text, importance=0.9), AT)
    made = sessions.memorize(store, "s", sessions.Draft("weak", importance=0.1), AT)
    assert (made.stored, made.position, made.count) == (False, None, 2)
    assert [one.memory_id for one in made.evicted] == [made.memory.id]
    assert made.memory.state == "archived"
    assert contents(sessions.recall(store, "s", "weak", AT)) == ["weak"]
    back = sessions.restore(store, "s", made.memory.id, AT)
    assert (back.restored, held(store)) == (False, ["a", "b"])
    last = sessions.memorize(store, "s", sessions.Draft("c", importance=0.7), AT)
    assert [(one.content, one.reason, one.rescue) for one in last.evicted] == [
        ("a", "capacity_exceeded_protected", True)
    ]


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


def test_a_policy_without_a_time_to_live_neither_expires_nor_extends(store: Store) -> None:
    sessions.session_open(store, "s", AT, "hybrid")
    id_ = add(store, "stays")
    for change in (sessions.expire, sessions.extend_ttl):
        with pytest.raises(UsageError, match="hybrid"):
            change(store, "s", id_, AT)
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
    return open_owned(workspace, Config(), lambda: None, none, Index(workspace, lambda: None))


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
        found = sessions.capacity(store, "shared")
        assert (found.items, found.tokens) == (len(held), tokens)
        match policy:
            case "ttl":
                assert len(held) == 2 * EACH
            case "budget":
                assert len(held) < 35
                assert store.crystals.count() == 2 * EACH - len(held)
            case "hybrid":
                assert 95 < tokens <= 100
            case "bounded":
                assert len(held) <= 20
                assert tokens <= 100
