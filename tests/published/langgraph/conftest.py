"""LangGraph's own tests of its stores, for `DreamdStore` over a real server: each store a workspace of its own."""

import asyncio
import importlib
import inspect
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import MagicMock, patch

import pytest

from daemon.client import Client
from daemon.client.langgraph_store import DreamdStore
from daemon.workspace.vector_index import Embedding
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running

_OF_THEIR_EMBEDDINGS = "it computes with embeddings of the test's own; a workspace has one model"
_OF_SQL = "it looks at the SQL of another store"
LEFT_OUT = {
    "test_vector_store_initialization": _OF_THEIR_EMBEDDINGS,
    "test_scores": _OF_THEIR_EMBEDDINGS,
    "test_nonnull_migrations": _OF_SQL,
    "test_list_namespaces_prefix_uses_indexable_condition": _OF_SQL,
    "test_escape_glob_literal": _OF_SQL,
    "test_namespace_match_pattern": _OF_SQL,
    "test_sql_injection_vulnerability": "a filter never becomes SQL, so a field may have any name",
}


class Mocker:
    """What the tests use of pytest-mock: a function that is called as ever, and seen."""

    def __init__(self) -> None:
        self.patches: list[Any] = []

    def spy(self, owner: type, name: str) -> MagicMock:
        self.patches.append(patch.object(owner, name, autospec=True, side_effect=getattr(owner, name)))
        seen: MagicMock = self.patches[-1].start()
        return seen

    def stub(self) -> MagicMock:
        return MagicMock()


class Store(DreamdStore):
    """The store that a test makes, whichever it was written for."""

    server: ClassVar[Running]
    folder: ClassVar[Path]

    def __init__(self, *, index: Any = None) -> None:
        name = self.server.house.make(self.folder / uuid.uuid4().hex)
        client = Client(name, address=f"http://127.0.0.1:{self.server.port}", token=TOKEN)
        fields = (index or {}).get("fields") or (index or {}).get("text_fields")
        super().__init__(client, fields=tuple(fields or ("$",)))

    @classmethod
    @contextmanager
    def from_conn_string(cls, _: str, *, index: Any = None) -> Iterator["Store"]:
        yield cls(index=index)

    def setup(self) -> None:
        """Nothing: a workspace is ready."""


def _stands_in(name: str, **what: Any) -> None:
    module = ModuleType(name)
    vars(module).update(what)
    sys.modules.setdefault(name, module)


_stands_in("pytest_mock", MockerFixture=Mocker)
sys.modules["tests.embed_test_utils"] = importlib.import_module("tests.published.langgraph.embed_test_utils")


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    with running(OwnHouse(embedding=Embedding(download=False))) as started:
        yield started


@pytest.fixture(autouse=True)
def in_place_of_theirs(
    request: pytest.FixtureRequest, server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.server, Store.folder = server, tmp_path
    for name in ("InMemoryStore", "SqliteStore"):
        monkeypatch.setattr(request.module, name, Store, raising=False)


@pytest.fixture
def mocker() -> Iterator[Mocker]:
    made = Mocker()
    yield made
    for one in made.patches:
        one.stop()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those of the interface are in every run."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and (why := LEFT_OUT.get(item.name.partition("[")[0])):
            item.add_marker(pytest.mark.skip(reason=why))
        if item.path.name == "test_sqlite_store.py":
            item.add_marker("full")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
