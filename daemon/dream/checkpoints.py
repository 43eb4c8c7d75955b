"""Checkpoints: the conversation of a dream in progress, which LangGraph saves to dreams.db after each node.

The file exists only while a dream with a model is in progress. LangGraph's format may name any class of any module,
which is imported and called while it is read, so only the types that LangGraph itself lists as safe are allowed.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.workspace.stores import Store
from state.stores.database.connection import SIDES, make_private

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.sqlite import SqliteSaver


def saved(store: Store, dream: str) -> Mapping[str, Any] | None:
    """Return the values of this dream's last checkpoint; None if there is none, or it is unreadable or empty."""
    if not _path(store).exists():
        return None
    try:
        with checkpoints(store) as saver:
            last = saver.get(thread(dream))
        values: Mapping[str, Any] = last["channel_values"] if last is not None else {}
        return values if values.get("messages") else None
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes may raise anything
        store.notices.add(f"the checkpoints of dream {dream} are damaged ({error}), so it begins anew")
        return None


def thread(dream: str) -> "RunnableConfig":
    """Return the configuration by which LangGraph finds the thread of this dream."""
    return {"configurable": {"thread_id": dream}}


def drop(store: Store) -> None:
    """Delete dreams.db, once a dream has ended."""
    path = _path(store)
    for side in SIDES:
        store.memory.disk.remove(path.with_name(f"{path.name}{side}"))


@contextmanager
def checkpoints(store: Store) -> Iterator["SqliteSaver"]:
    """Open LangGraph's checkpointer over dreams.db.

    A damaged file is replaced by a new one, which costs at most one answer that is paid for again.
    """
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    with ExitStack() as stack:
        try:
            connection = _opened(stack, _path(store))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            stack.close()
            store.notices.add(f"{_path(store)} was damaged ({' '.join(str(error).split())}) and is begun anew")
            drop(store)
            connection = _opened(stack, _path(store))
        yield SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))


def _opened(stack: ExitStack, path: Path) -> sqlite3.Connection:
    make_private(path)
    # LangGraph writes from threads of its own, one at a time.
    connection = stack.enter_context(closing(sqlite3.connect(path, check_same_thread=False)))
    # A damaged page might otherwise be found only by a write, after the model has been paid.
    wrong = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if wrong != "ok":
        raise sqlite3.DatabaseError(wrong)
    return connection


def _path(store: Store) -> Path:
    return store.workspace.checkpoints / "dreams.db"
