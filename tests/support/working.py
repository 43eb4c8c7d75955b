"""An open workspace for tests of working memory, without an embedding model, at a fixed time."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from daemon import sessions
from daemon.config.settings import Config, SecretsSection
from daemon.dream.standing import Line, standing_lines
from daemon.sessions import answers as values
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from graphs.review import LineAction, Wish
from state.scratch import Note
from state.sessions.item import Item
from state.stores.sessions.sessions import Sessions
from state.stores.vectors.embedder import Unavailable

AT = datetime(2024, 12, 22, 15, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
# Split in two, so that secret scanners do not report this file.
SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@contextmanager
def working(
    root: Path, config: Config | None = None, *, redact: bool = True, environment: Mapping[str, str] = os.environ
) -> Iterator[Store]:
    """Open the workspace in this folder, created if missing, without an embedding model."""
    workspace = init_workspace(root, environment)
    config = config or Config(secrets=SecretsSection(redact=redact))
    with open_exclusive(
        workspace, config, "test", embedding=Embedding.given(Unavailable("not needed here"))
    ) as store:
        yield store


def noted(store: Store, *texts: str, importance: float = 0.8) -> None:
    for text in texts:
        store.notes.inbox.append(Note(text, utc_now(), importance))


def document(store: Store) -> str:
    return store.workspace.document.read_text(encoding="utf-8")


def standing(store: Store) -> dict[str, Line]:
    """Return the lines of MEMORY.md as they stand, by their texts."""
    return {line.text: line for one in standing_lines(store, utc_now()).sections for line in one.lines}


def wish(store: Store, action: LineAction, old: str, text: str = "", *, again: bool = False) -> Wish:
    """Return the owner's wish for the line with this text."""
    return Wish(action, standing(store)[old].id, expected=old, text=text, again=again)


def texts_of(store: Store) -> list[str]:
    """Return the texts of all crystals in order of arrival."""
    return [row["text"] for row in store.connection.execute("SELECT text FROM crystals ORDER BY key")]


def unredacted(store: Store) -> Store:
    """Return the stores without redaction, to store secrets as old versions did."""
    secrets = store.config.secrets.model_copy(update={"redact": False})
    return replace(store, config=store.config.model_copy(update={"secrets": secrets}))


def add(store: Store, content: str, session: str = "s", priority: str = "medium", **given: Any) -> str:
    now = given.pop("now", AT)
    return sessions.add(store, session, sessions.Draft(content, priority, **given), now).id


_IDS = re.compile(r"\b[0-9a-f]{32}\b")


def contents(memories: values.Memories | values.Pending | values.SearchResult | values.Recalled) -> list[str]:
    return [memory.content for memory in memories.memories]


def undreamt(store: Store) -> list[tuple[Item, bool]]:
    """Return the archived items no dream has received yet, in dream order, and whether each is rescued."""
    return Sessions(store.connection).undreamt(100)


def everything(store: Store, session: str = "s") -> list[Item]:
    """Return every item that the session ever had."""
    sessions_ = Sessions(store.connection)
    found = sessions_.find(session)
    return sessions_.items(found) if found else []


def deeds(store: Store, session: str = "s") -> list[tuple[str, str]]:
    """Return the session's events, oldest first, as (action, reason)."""
    events = sessions.session_events(store.connection, session, limit=10_000).events
    return [(event.action, event.reason) for event in reversed(events)]


def written(store: Store) -> list[tuple[str, tuple[object, ...]]]:
    """Return all rows of working memory and crystals for comparison, random ids masked."""
    tables = "sessions items item_events forgotten crystals occurrences cold_words_docsize".split()
    read = store.connection.execute
    rows = ((table, row) for table in tables for row in read(f"SELECT * FROM {table}").fetchall())  # noqa: S608
    return [
        (table, tuple(_IDS.sub("ID", one) if isinstance(one, str) else one for one in row)) for table, row in rows
    ]
