"""In the product one process owns a workspace; the store holds when two write at once all the same."""

import multiprocessing
from contextlib import closing
from pathlib import Path

import pytest

from daemon import sessions
from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import Store, open_owned
from daemon.workspace.vector_index import Embedding, Index
from state.sessions.item import State
from state.stores.vectors.embedder import Unavailable
from tests.support.working import AT, everything, working

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
