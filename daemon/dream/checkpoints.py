"""Checkpoints: what LangGraph saves of a running dream at each node, as JSON of plain values in dreams.db.

A checkpoint lies in the workspace, so whoever made that may have written it. LangGraph's own form can name any class
of any module, which is imported and called while it is read; here nothing but JSON is read, without a hook, and what
holds any other form is thrown away like a damaged file: the dream begins anew.
"""

import json
import sqlite3
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from daemon.workspace.stores import Store
from state.errors import StorageError
from state.stores.database.connection import make_private, require_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.sqlite import SqliteSaver

_JSON = "json"


class JsonValues:
    """LangGraph's serialiser for None, booleans, numbers, texts, and lists and tables of these; of nothing else."""

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """The value as JSON; an exception, which LangGraph notes when a node fails, as its text.

        Raises TypeError for a value of any other type.
        """
        value = f"{type(obj).__name__}: {obj}" if isinstance(obj, BaseException) else obj
        return _JSON, json.dumps(value).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:  # noqa: ANN401 - JSON has no better type
        """The value of this JSON. Raises StorageError for any other form, of which no byte is looked at."""
        form, content = data
        if form != _JSON:
            raise StorageError(f"a checkpoint of the form {form!r:.40}, which dreamd never writes")
        return json.loads(content)


def based_on(store: Store, dream: str) -> int | None:
    """The version that a dream under way has read; None when it has read nothing, or that cannot be read any more."""
    try:
        with checkpoints(store) as saver:
            checkpoint = saver.get_tuple({"configurable": {"thread_id": dream}})
        values = checkpoint.checkpoint["channel_values"] if checkpoint else {}
        return int(json.loads(values["snapshot"])["based_on"]) if "snapshot" in values else None
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - of damaged bytes everything may come
        store.notices.append(f"the checkpoints of dream {dream} are damaged ({error}), so it begins anew")
        return None


def drop(store: Store, dream: str) -> None:
    """Delete the checkpoints of a dream that has ended, and shrink the file."""
    with checkpoints(store) as saver:
        saver.delete_thread(dream)
        saver.conn.execute("VACUUM")


@contextmanager
def checkpoints(store: Store, dream: str = "") -> "Iterator[SqliteSaver]":
    """The checkpoints of dreams under way; with an id, those of every other dream are deleted first.

    A damaged file is replaced by a new one: it costs at most an answer that is paid again.
    """
    path = store.workspace.checkpoints / "dreams.db"
    require_plain(path)
    make_private(path)
    with ExitStack() as stack:
        try:
            saver = _opened(stack, str(path))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            stack.close()
            store.notices.append(f"{path} was damaged ({' '.join(str(error).split())}) and is begun anew")
            for part in (path, path.with_name("dreams.db-wal"), path.with_name("dreams.db-shm")):
                store.disk.remove(part)
            saver = _opened(stack, str(path))
        if dream:
            _delete_others(saver, dream)
        yield saver


def _opened(stack: ExitStack, path: str) -> "SqliteSaver":
    saver = stack.enter_context(_saver(path))
    saver.conn.execute("PRAGMA trusted_schema = OFF")
    odd = saver.conn.execute("SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index')").fetchone()
    if odd is not None:
        raise sqlite3.DatabaseError(f"a {odd[0]} in it that dreamd has not made: {odd[1]!r:.40}")
    saver.conn.execute("PRAGMA secure_delete = ON")  # what a finished dream has read does not stay in free pages
    # A page that is damaged may be met at a write only; by then a dream has been thought.
    wrong = saver.conn.execute("PRAGMA quick_check(1)").fetchone()[0]
    if wrong != "ok":
        raise sqlite3.DatabaseError(wrong)
    saver.setup()
    return saver


@contextmanager
def _saver(path: str) -> "Iterator[SqliteSaver]":
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(path) as opened:
        yield SqliteSaver(opened.conn, serde=JsonValues())


def _delete_others(saver: "SqliteSaver", dream: str) -> None:
    """A displaced process may have written on, and another failed to delete its own."""
    threads = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes"
    for (thread,) in saver.conn.execute(threads).fetchall():
        if thread != dream:
            saver.delete_thread(thread)
