"""Checkpoints: what is saved of a running dream after each node, as JSON of plain values in dreams.db.

LangGraph saves a dream that it runs; of one that is walked without it, which node is next and what the others
returned stand in a row of the same table.

A checkpoint lies in the workspace, so whoever made that may have written it. LangGraph's own form can name any class
of any module, which is imported and called while it is read; here nothing but JSON is read, without a hook, and what
holds any other form is thrown away like a damaged file: the dream begins anew.
"""

import json
import sqlite3
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daemon.workspace.stores import Store
from graphs.graph_state import Dreaming
from state.errors import StorageError
from state.stores.database.connection import make_private, require_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.sqlite import SqliteSaver

_JSON = "json"
# The tables as LangGraph makes them, which takes a second to import.
_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint BLOB,
    metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE IF NOT EXISTS writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_path TEXT NOT NULL DEFAULT '',
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""
# The keys of a checkpoint; LangGraph's have the first of them too.
_VALUES, _NEXT = "channel_values", "next"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a dream that is walked has come: what its nodes returned, and the node that is next."""

    values: Dreaming
    node: str


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
        with checkpoints(store) as connection:
            values = (_latest(connection, dream) or {_VALUES: {}})[_VALUES]
        return int(json.loads(values["snapshot"])["based_on"]) if "snapshot" in values else None
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - of damaged bytes everything may come
        store.notices.append(f"the checkpoints of dream {dream} are damaged ({error}), so it begins anew")
        return None


def reached(connection: sqlite3.Connection, dream: str) -> Reached | None:
    """How far a dream that is walked has come; None for one that LangGraph runs.

    Raises whatever damaged bytes lead to.
    """
    saved = _latest(connection, dream)
    return Reached(saved[_VALUES], saved[_NEXT]) if saved is not None and _NEXT in saved else None


def save(connection: sqlite3.Connection, dream: str, to: Reached) -> None:
    """Save how far a dream has come, in the place of what was saved of it before."""
    form, content = JsonValues().dumps_typed({_VALUES: to.values, _NEXT: to.node})
    with connection:
        connection.execute(
            "INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_id, type, checkpoint, metadata)"
            " VALUES (?, '', ?, ?, '{}')",
            (dream, form, content),
        )


def saver_of(connection: sqlite3.Connection) -> "SqliteSaver":
    """What LangGraph saves a dream with."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(connection, serde=JsonValues())


def drop(store: Store, dream: str) -> None:
    """Delete the checkpoints of a dream that has ended, and shrink the file."""
    with checkpoints(store) as connection:
        with connection:
            connection.execute("DELETE FROM checkpoints WHERE thread_id = ?", (dream,))
            connection.execute("DELETE FROM writes WHERE thread_id = ?", (dream,))
        connection.execute("VACUUM")


@contextmanager
def checkpoints(store: Store, dream: str = "") -> "Iterator[sqlite3.Connection]":
    """The checkpoints of dreams under way; with an id, those of every other dream are deleted first.

    A damaged file is replaced by a new one: it costs at most an answer that is paid again.
    """
    path = store.workspace.checkpoints / "dreams.db"
    require_plain(path)
    make_private(path)
    with ExitStack() as stack:
        try:
            connection = _opened(stack, str(path))
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            stack.close()
            store.notices.append(f"{path} was damaged ({' '.join(str(error).split())}) and is begun anew")
            for part in (path, path.with_name("dreams.db-wal"), path.with_name("dreams.db-shm")):
                store.disk.remove(part)
            connection = _opened(stack, str(path))
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
    connection.executescript(_TABLES)
    return connection


def _latest(connection: sqlite3.Connection, dream: str) -> dict[str, Any] | None:
    row = connection.execute(
        "SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
        " ORDER BY checkpoint_id DESC LIMIT 1",
        (dream,),
    ).fetchone()
    found: dict[str, Any] | None = JsonValues().loads_typed(row) if row is not None else None
    return found
