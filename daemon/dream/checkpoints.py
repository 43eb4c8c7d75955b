"""Checkpoints: the conversation of a dream under way, saved by LangGraph after each node in dreams.db.

A checkpoint lies in the workspace, so whoever made that may have written it. LangGraph's own form can name any class
of any module, which is imported and called while it is read; here nothing but JSON is read, without a hook, and what
holds any other form is thrown away like a damaged file: the dream begins anew.
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
    """LangGraph's serialiser for None, booleans, numbers, texts, and lists and tables of these; of nothing else."""

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """Return the value as JSON; an exception, which LangGraph notes when a node fails, as its text.

        Raises TypeError for a value of any other type.
        """
        value = f"{type(obj).__name__}: {obj}" if isinstance(obj, BaseException) else obj
        return _JSON, json.dumps(value).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:  # noqa: ANN401 - JSON has no better type
        """Return the value of this JSON. Raises StorageError for any other form, of which no byte is looked at."""
        form, content = data
        if form != _JSON:
            raise StorageError(f"a checkpoint of the form {form!r:.40}, which dreamd never writes")
        return json.loads(content)


def has_begun(store: Store, dream: str) -> bool:
    """Return whether anything of this dream was saved; what cannot be read any more was not."""
    try:
        with checkpoints(store) as connection:
            rows = connection.execute(
                "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ?", (dream,)
            ).fetchall()
            saved = [JsonValues().loads_typed(tuple(row)) for row in rows]
        return any(one["channel_values"].get("messages") for one in saved)
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - of damaged bytes everything may come
        store.notices.add(f"the checkpoints of dream {dream} are damaged ({error}), so it begins anew")
        return False


def saver_of(connection: sqlite3.Connection) -> "SqliteSaver":
    """Return what LangGraph saves a dream with."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(connection, serde=JsonValues())


def drop(store: Store) -> None:
    """Delete the checkpoints of a dream that has ended, with what others have left, and shrink the file."""
    if not (store.workspace.checkpoints / "dreams.db").exists():
        return
    with checkpoints(store) as connection:
        with connection:
            connection.execute("DELETE FROM checkpoints")
            connection.execute("DELETE FROM writes")
        connection.execute("VACUUM")


@contextmanager
def checkpoints(store: Store, dream: str = "") -> Iterator[sqlite3.Connection]:
    """Open the checkpoints of dreams under way; with an id, those of every other dream are deleted first.

    A damaged file is replaced by a new one: it costs at most an answer that is paid again.
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
        if dream:  # a displaced process may have written on, and another failed to delete its own
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
    connection.execute("PRAGMA secure_delete = ON")  # what a finished dream has read does not stay in free pages
    # A page that is damaged may be met at a write only; by then a dream has been thought.
    wrong = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if wrong != "ok":
        raise sqlite3.DatabaseError(wrong)
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'writes'").fetchone() is None:
        saver_of(connection).setup()
