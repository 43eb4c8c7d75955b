"""Index repair: both full-text indexes, ChromaDB and the checkpoints, each made anew or thrown away."""

import os
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from daemon.upkeep.repair.jobs import Job, RepairContext
from daemon.workspace.stores import Store
from state.stores.crystals import full_text
from state.stores.crystals.vectors import NAME
from state.stores.database.connection import open_unmigrated
from state.stores.erasing.files import empty_folder

_CHECKPOINTS = ("dreams.db", "dreams.db-wal", "dreams.db-shm", "dreams.db-journal")


def checkpoints(context: RepairContext) -> Iterator[Job]:
    """Find damaged checkpoints: to lose one costs at most an answer that is paid for again."""
    path = context.workspace.checkpoints / _CHECKPOINTS[0]
    if not os.path.lexists(path) or path.is_symlink() or (wrong := _wrong(path)) is None:
        return
    action = "they are thrown away; a dream that was interrupted begins anew"
    yield Job("checkpoints", f"{path}: {wrong}", action, partial(_throw_away, context))


def _wrong(path: Path) -> str | None:
    try:
        with open_unmigrated(path) as connection:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if result == "ok" else str(result)


def _throw_away(context: RepairContext) -> None:
    for name in _CHECKPOINTS:
        path = context.workspace.checkpoints / name
        if path.is_dir():
            context.aside.move(path)
        elif os.path.lexists(path):
            context.disk.remove(path)


def vector_folder(context: RepairContext) -> Iterator[Job]:
    """Find a vectors.db that is torn; it is thrown away, and ChromaDB's files with it."""
    folder = context.workspace.index
    path = folder / NAME
    if not os.path.lexists(path) or folder.is_symlink() or (wrong := _wrong(path)) is None:
        return
    action = "the folder is emptied, and built anew from state.db"
    yield Job("vector index", f"{path}: {wrong}", action, partial(_empty, context))


def _empty(context: RepairContext) -> None:
    context.emptied = True
    empty_folder(context.disk, context.workspace.index)


def indexes(context: RepairContext, store: Store) -> Iterator[Job]:
    """Find torn full-text indexes and missing vectors, in open stores."""
    connection = store.crystals.connection
    if full_text.is_torn(connection):
        yield Job("word index", "the word index is torn", "it is built anew", partial(full_text.rebuild, connection))
    if full_text.is_torn(connection, "cold_words"):
        again = partial(full_text.rebuild, connection, "cold_words")
        yield Job("word index", "the word index of the cold archive is torn", "it is built anew", again)
    if store.embedder() is not None and (context.rebuilt or context.emptied):
        store.crystals.vectors.settle()
    waiting, _ = store.crystals.vectors.waiting()
    if waiting and (context.rebuilt or context.emptied) and store.embedder() is not None:
        action = "they are embedded anew"
        yield Job("embeddings", f"{waiting:,} crystals have no vector", action, partial(_embed, store))


def _embed(store: Store) -> tuple[str, ...]:
    return (f"{store.embed():,} vectors",)
