"""Checkpoints: the conversation of a dream in progress, which LangGraph saves to dreams.db after each node.

LangGraph's own format may name any class of any module, which is imported and called while it is read. Whoever can
write the file could thereby run code, so only plain JSON is read. Any other format is dropped like a damaged file,
and the dream begins anew.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from daemon.workspace.stores import Store
from state.errors import StorageError
from state.stores.database.connection import make_private

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

_JSON = "json"


class JsonValues:
    """A serialiser for LangGraph that accepts JSON values only."""

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """Return the value as JSON, and an exception, which LangGraph saves when a node fails, as its text.

        Raise TypeError for a value that is not JSON.
        """
        value = f"{type(obj).__name__}: {obj}" if isinstance(obj, BaseException) else obj
        return _JSON, json.dumps(value).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:  # noqa: ANN401 - JSON has no better type
        """Return the value of this JSON. Raise StorageError for any other format, without reading it."""
        form, content = data
        if form != _JSON:
            raise StorageError(f"a checkpoint of the form {form!r:.40}, which dreamd never writes")
        return json.loads(content)


def has_begun(store: Store, dream: str) -> bool:
    """Return whether this dream has a readable checkpoint."""
    try:
        with checkpoints(store) as connection:
            rows = connection.execute(
                "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ?", (dream,)
            ).fetchall()
            saved = [JsonValues().loads_typed(tuple(row)) for row in rows]
        return any(one["channel_values"].get("messages") for one in saved)
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes may raise anything
        store.notices.add(f"the checkpoints of dream {dream} are damaged ({error}), so it begins anew")
        return False


def saver_of(connection: sqlite3.Connection) -> "SqliteSaver":
    """Return LangGraph's checkpointer over this database."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(connection, serde=JsonValues())


def drop(store: Store) -> None:
    """Delete all checkpoints, once a dream has ended, and shrink the file."""
    if not (store.workspace.checkpoints / "dreams.db").exists():
        return
    with checkpoints(store) as connection:
        with connection:
            connection.execute("DELETE FROM checkpoints")
            connection.execute("DELETE FROM writes")
        connection.execute("VACUUM")


@contextmanager
def checkpoints(store: Store, dream: str = "") -> Iterator[sqlite3.Connection]:
    """Open dreams.db; with a dream's id, first delete the checkpoints of every other dream.

    A damaged file is replaced by a new one, which costs at most one answer that is paid for again.
    """
    path = store.workspace.checkpoints / "dreams.db"
    make_private(path)
    with ExitStack() as stack:
        try:
            connection = _opened(stack, str(path))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            stack.close()
            store.notices.add(f"{path} was damaged ({' '.join(str(error).split())}) and is begun anew")
            for part in (path, path.with_name("dreams.db-wal"), path.with_name("dreams.db-shm")):
                store.memory.disk.remove(part)
            connection = _opened(stack, str(path))
        _make_tables(connection)
        if dream:  # left by a displaced process, or by one that failed to delete its own
            with connection:
                connection.execute("DELETE FROM checkpoints WHERE thread_id <> ?", (dream,))
                connection.execute("DELETE FROM writes WHERE thread_id <> ?", (dream,))
        yield connection


def _opened(stack: ExitStack, path: str) -> sqlite3.Connection:
    # LangGraph writes from threads of its own, one at a time.
    connection = stack.enter_context(closing(sqlite3.connect(path, check_same_thread=False)))
    connection.execute("PRAGMA trusted_schema = OFF")
    odd = connection.execute("SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index')").fetchone()
    if odd is not None:
        raise sqlite3.DatabaseError(f"a {odd[0]} in it that dreamd has not made: {odd[1]!r:.40}")
    connection.execute("PRAGMA secure_delete = ON")  # free pages must not keep what a finished dream has read
    # A damaged page might otherwise be found only by a write, after the model has been paid.
    wrong = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if wrong != "ok":
        raise sqlite3.DatabaseError(wrong)
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'writes'").fetchone() is None:
        saver_of(connection).setup()
