"""Checkpoints: the conversation of a dream under way, saved by LangGraph after each node in dreams.db.

The file is there while a dream with a model is under way, and is deleted as a whole. LangGraph's form can name any
class of any module, which would be imported and called while it is read: none is allowed but plain ones.
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
    """Return what the last checkpoint of this dream holds; None without one that can be read and has messages."""
    if not _path(store).exists():
        return None
    try:
        with checkpoints(store) as saver:
            last = saver.get(thread(dream))
        values: Mapping[str, Any] = last["channel_values"] if last is not None else {}
        return values if values.get("messages") else None
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - of damaged bytes everything may come
        store.notices.add(f"the checkpoints of dream {dream} are damaged ({error}), so it begins anew")
        return None


def thread(dream: str) -> "RunnableConfig":
    """Return what LangGraph calls this dream."""
    return {"configurable": {"thread_id": dream}}


def drop(store: Store) -> None:
    """Delete the checkpoints of a dream that has ended, with what others have left."""
    path = _path(store)
    for side in SIDES:
        store.memory.disk.remove(path.with_name(f"{path.name}{side}"))


@contextmanager
def checkpoints(store: Store) -> Iterator["SqliteSaver"]:
    """Open what LangGraph saves a dream with.

    A damaged file is replaced by a new one: it costs at most an answer that is paid again.
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
    # A page that is damaged may be met at a write only; by then a dream has been thought.
    wrong = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if wrong != "ok":
        raise sqlite3.DatabaseError(wrong)
    return connection


def _path(store: Store) -> Path:
    return store.workspace.checkpoints / "dreams.db"
