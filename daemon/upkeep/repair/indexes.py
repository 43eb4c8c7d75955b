"""Index repair: both full-text indexes, ChromaDB and the checkpoints, each made anew or thrown away."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from daemon.upkeep.repair.jobs import Job, RepairContext
from daemon.workspace.stores import Store
from daemon.workspace.vector_index import EXACT_SEARCH_UP_TO
from state.errors import DreamdError
from state.stores.crystals import full_text
from state.stores.database.connection import require_plain
from state.stores.disk.syscalls import storage_errors
from state.stores.erasing.files import empty_folder
from state.stores.sessions.cold_archive import ColdArchive
from state.stores.vectors.chroma import is_whole
from state.stores.vectors.vector_file import NAME

_CHECKPOINTS = ("dreams.db", "dreams.db-wal", "dreams.db-shm", "dreams.db-journal")


def checkpoints(context: RepairContext) -> Iterator[Job]:
    """Find damaged checkpoints: to lose one costs at most an answer that is paid for again."""
    path = context.workspace.checkpoints / _CHECKPOINTS[0]
    if not os.path.lexists(path) or path.is_symlink() or (wrong := _wrong(path)) is None:
        return
    action = "they are thrown away; a dream that was interrupted begins anew"
    yield Job("checkpoints", f"{path}: {wrong}", action, partial(_throw_away, context))


def _wrong(path: Path) -> str | None:
    """What is wrong with a copy of the database: to open the database itself would write its log into it."""
    try:
        require_plain(path)
        with TemporaryDirectory() as folder, storage_errors(path):
            for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")):
                if file.exists():
                    shutil.copy(file, folder)
            with closing(sqlite3.connect(Path(folder) / path.name)) as connection:
                (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except (sqlite3.DatabaseError, DreamdError) as error:
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
    """Find a vector index whose files are not the sealed ones, before it is opened; it is thrown away."""
    workspace = context.workspace
    folder = workspace.crystals
    if not folder.is_dir() or folder.is_symlink() or not any(folder.iterdir()):
        return
    if _has_index(folder) and not is_whole(folder):
        wrong = "the vector index is torn: its files are not those that were sealed"
        yield Job("vector index", wrong, "it is thrown away and built anew from state.db", partial(_empty, context))


def _has_index(folder: Path) -> bool:
    """Whether ChromaDB has files there; the vector file beside them is compared with state.db by who opens it."""
    return any(path.name != NAME for path in folder.iterdir())


def _empty(context: RepairContext) -> None:
    context.emptied = True
    empty_folder(context.disk, context.workspace.crystals)


def indexes(context: RepairContext, store: Store) -> Iterator[Job]:
    """Find torn full-text indexes and a torn vector index, in open stores."""
    connection = store.crystals.connection
    if full_text.is_torn(connection):
        yield Job("word index", "the word index is torn", "it is built anew", partial(full_text.rebuild, connection))
    if full_text.is_torn(connection, "cold_words"):
        again = ColdArchive(connection).rebuild
        yield Job("word index", "the word index of the cold archive is torn", "it is built anew", again)
    yield from _vector_index(store, context)


def _vector_index(store: Store, context: RepairContext) -> Iterator[Job]:
    """Open the vector index, which rebuilds one that is not whole."""
    if not store.crystals.vectors.vector_count():
        return
    known = set(store.notices)
    had = _has_index(store.workspace.crystals)
    try:
        store.index()
    except DreamdError as error:
        yield Job("vector index", str(error), "run 'dreamd doctor --repair' again", lambda: None)
        return
    for notice in [notice for notice in store.notices if notice not in known]:
        yield Job("vector index", notice, "it was built anew from state.db", lambda: None)
    count = store.crystals.vectors.vector_count()
    if not had and not context.emptied and count > EXACT_SEARCH_UP_TO:  # a small store does without
        yield Job("vector index", "there was none", f"it was built of {count:,} vectors", lambda: None)
