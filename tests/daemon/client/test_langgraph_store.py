"""LangGraph's store in a workspace: durable, bounded, without secrets, and within reach of forgetting.

LangGraph's own tests of it are in tests/published/langgraph.
"""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp, SearchOp

from daemon.client import Client
from daemon.client.langgraph_store import DreamdStore
from daemon.workspace.adoption import open_workspace
from daemon.workspace.vector_index import Embedding
from state.errors import UsageError
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running
from tests.support.serving import at_home

HERE = ("users", "ada")


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running(OwnHouse(embedding=Embedding(download=False))) as server:
        yield server


@pytest.fixture
def client(served: Running, tmp_path: Path) -> Client:
    return Client(served.house.make(tmp_path), address=f"http://127.0.0.1:{served.port}", token=TOKEN)


@pytest.fixture
def store(client: Client) -> DreamdStore:
    return DreamdStore(client)


def test_what_was_acknowledged_outlives_the_daemon() -> None:
    """Kill -9 between the answer and the reading."""
    with at_home() as home:
        workspace = home.workspace()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DREAMD_SOCKET", str(home.socket))
            patch.setenv("XDG_DATA_HOME", home.environment()["XDG_DATA_HOME"])
            store = DreamdStore(Client(workspace.root))
            with home.serving() as daemon:
                with ThreadPoolExecutor(4) as threads:
                    list(threads.map(lambda n: store.put(HERE, f"k{n}", {"n": n}), range(40)))
                daemon.kill()
            with home.serving():
                assert {item.key: item.value["n"] for item in store.search(HERE, limit=99)} == {
                    f"k{n}": n for n in range(40)
                }


def test_threads_write_and_read_one_store(store: DreamdStore) -> None:
    def write_and_read(number: int) -> bool:
        store.put(HERE, f"k{number % 5}", {"n": number}, index=False)
        item = store.get(HERE, f"k{number % 5}")
        return item is not None and item.value["n"] % 5 == number % 5

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(write_and_read, range(40)))
    assert len(store.search(HERE)) == 5


def test_values_come_back_as_they_were(store: DreamdStore) -> None:
    value: dict[str, Any] = {
        "none": None,
        "list": [1, 2.5, None, {"x": []}],
        "ünï": "👋 \u2028",
        "": "",
        "yes": True,
        "big": 10**18,
    }
    store.put(HERE, "ключ/1", value)
    item = store.get(HERE, "ключ/1")
    assert item is not None
    assert (item.value, item.namespace, item.created_at) == (value, HERE, item.updated_at)
    store.put(HERE, "ключ/1", {})
    again = store.get(HERE, "ключ/1")
    assert again is not None
    assert again.created_at == item.created_at < again.updated_at


def test_meaning_finds_what_words_do_not_share(store: DreamdStore) -> None:
    store.put(HERE, "drink", {"content": "She prefers a hot beverage made of leaves"}, index=["content"])
    store.put(HERE, "car", {"content": "The garage has room for two cars"})
    first, second = store.search(HERE, query="what tea does Ada like")
    assert (first.key, second.key) == ("drink", "car")
    assert first.score is not None
    assert second.score is not None
    assert first.score > second.score


@pytest.mark.full
def test_large_batches_go_in_parts_and_reads_see_what_was_before(store: DreamdStore) -> None:
    text = "ä" * 50_000  # six bytes each in JSON
    puts = [PutOp(HERE, f"k{n}", {"text": text}, index=False) for n in range(5)]
    many = [PutOp(("many",), f"k{n}", {"n": n}, index=False) for n in range(450)]
    before, *_ = asyncio.run(store.abatch([SearchOp(()), *puts, *many, PutOp(("many",), "k0", None)]))
    assert before == []
    got = store.batch([GetOp(("many",), f"k{n}") for n in range(450)])
    assert [item is None for item in got] == [n == 0 for n in range(450)]
    assert len(store.search(HERE, limit=5_000)) == 5


def test_what_expires_is_gone_and_use_puts_it_off(client: Client) -> None:
    store = DreamdStore(client, ttl={"default_ttl": 1 / 60, "refresh_on_read": False})
    store.put(HERE, "brief", {})
    store.put(HERE, "used", {})
    store.put(HERE, "stays", {}, ttl=None)
    begin = time.monotonic()
    while (item := store.get(HERE, "brief")) is not None:
        assert store.get(HERE, "used", refresh_ttl=True) is not None
        assert item.key == "brief"
        assert time.monotonic() - begin < 60
        time.sleep(0.05)
    assert {item.key for item in store.search(HERE)} >= {"stays"}
    assert "brief" not in {item.key for item in store.search(HERE)}
    assert store.list_namespaces() == [HERE]


def test_a_secret_never_enters(store: DreamdStore, served: Running, tmp_path: Path) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0" * 2
    store.put(HERE, "k", {"note": f"the token is {secret}", "password": "hunter2-Zebra!", "deep": [{"x": secret}]})
    item = store.get(HERE, "k")
    assert item is not None
    assert secret not in str(item.value)
    assert "hunter2" not in str(item.value)
    assert set(item.value) == {"note", "password", "deep"}
    for namespace, key in ((HERE, secret), ((secret, "x"), "k")):
        with pytest.raises(UsageError, match="holds a secret"):
            store.put(namespace, key, {})
    written = [
        path.read_bytes() for path in open_workspace(tmp_path).state.iterdir() if path.name.startswith("state.db")
    ]
    assert not any(secret.encode() in content for content in written)


def test_what_is_forgotten_leaves_entries_and_does_not_come_back(client: Client, tmp_path: Path) -> None:
    store = DreamdStore(client)
    store.put(HERE, "tea", {"content": "Ada drinks Lapsang tea. She has a cat.", "list": ["Lapsang Souchong"]})
    store.put(("Lapsang",), "k", {"content": "x"})
    store.put(HERE, "other", {"content": "The ledger is SQLite"})
    assert sum(trace.count for trace in client.preview_forget("Lapsang").traces) > 0
    client.forget("Lapsang")
    left = store.get(HERE, "tea")
    assert left is not None
    assert left.value == {"content": "She has a cat.", "list": []}
    assert store.get(("Lapsang",), "k") is None
    assert next(item.key for item in store.search(HERE, query="a pet")) == "tea"
    for file in open_workspace(tmp_path).state.glob("state.db*"):
        assert b"Lapsang" not in file.read_bytes()
    store.put(HERE, "again", {"content": "Ada drinks Lapsang tea. It rains."})
    again = store.get(HERE, "again")
    assert again is not None
    assert again.value == {"content": "It rains."}


def test_what_no_store_can_keep_is_refused(store: DreamdStore) -> None:
    for value in ({"x": float("nan")}, {"x": "y" * 200_000}):
        with pytest.raises(UsageError, match="value: "):
            store.put(HERE, "k", value)
    with pytest.raises(UsageError, match="operator"):
        store.search(HERE, filter={"x": {"$in": [1]}})
    with pytest.raises(UsageError, match="name: "):
        store.put(HERE, "", {})
    assert store.search(()) == []


def test_no_entry_is_a_memory(client: Client) -> None:
    DreamdStore(client).put(HERE, "k", {"content": "the swift nests under the roof"})
    assert client.search("swift").hits == ()
    assert "swift" not in client.bootstrap().text


def test_the_order_of_ten_thousand_entries_comes_from_an_index(store: DreamdStore, tmp_path: Path) -> None:
    store.put(HERE, "k", {})
    with closing(sqlite3.connect(open_workspace(tmp_path).state / "state.db")) as connection:
        plan = connection.execute("EXPLAIN QUERY PLAN SELECT key FROM entries ORDER BY updated_at DESC, key DESC")
        assert "entries_by_update" in str(plan.fetchall())
