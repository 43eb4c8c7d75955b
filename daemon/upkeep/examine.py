"""Examination: every check of a workspace, in the order in which faults are mended, and what `dreamd doctor` says."""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from daemon.workspace import checks
from daemon.workspace.checks import (
    REPAIR,
    At,
    Check,
    Finding,
    Level,
    Subject,
    fine,
    own_files,
    problem,
    warning,
)
from daemon.workspace.searching import embedder_of, searched_in
from daemon.workspace.stores import Store, folders, utc_now
from state.document.pointer import FIRST
from state.errors import BusyError, DreamdError
from state.stores.crystals import full_text
from state.stores.crystals.search import rank_of
from state.stores.crystals.vectors import index_state
from state.stores.database.connection import open_unmigrated
from state.stores.database.copies import broken_page, copies_of, is_readable
from state.stores.database.standing import standing
from state.stores.disk.syscalls import access_to
from state.stores.history.inbox import NoteInbox
from state.stores.repair.check import WRONG_SCHEMA, damage_of, faults
from state.stores.vectors.embedder import Unavailable
from state.text.words import counted

_RESCUE = (
    f"{REPAIR}: it restores the last copy of state.db and keeps the damaged one; MEMORY.md and the notes are unharmed"
)
_UNHARMED, _SEE_DOCTOR = "are unharmed", "run 'dreamd doctor'"
_LITTLE_DISK, _NO_DISK = 500 * 1024**2, 50 * 1024**2


def look(rows: Iterable[Check[At]], at: At) -> Iterator[Finding]:
    """Yield what each of these checks finds, and one more fault for each that fails."""
    for about, check in rows:
        try:
            yield from (replace(one, about=one.about or about) for one in check(at))
        except (DreamdError, sqlite3.Error) as error:
            yield failure(about, error)


def failure(about: str, error: DreamdError | sqlite3.Error) -> Finding:
    """Return the error of a check as what it found, with advice for somebody who runs the doctor already."""
    if isinstance(error, sqlite3.Error):
        return Finding(about, Level.PROBLEM, f"state.db: {error}", _RESCUE)
    if isinstance(error, BusyError):
        again = "run 'dreamd doctor' again afterwards"
        advice = f"{error.advice}, then {again}" if error.advice else again
        return Finding(about, Level.WARNING, f"not looked into: {error.what}", advice)
    advice = _RESCUE if _UNHARMED in error.advice else error.advice
    return Finding(about, Level.PROBLEM, error.what, REPAIR if advice == _SEE_DOCTOR else advice)


def check_stores(store: Store) -> Iterator[Finding]:
    """Yield what is found in the stores of a workspace that this process owns, and what they noticed themselves.

    A torn word index is rebuilt on the way.
    """
    at, seen = Subject(store.workspace, store.config, utc_now(), is_held=False, connection=store.connection), set()
    for one in chain(look(STORES, store), look(checks.ROWS, at)):
        seen.add(one.what)
        yield one
    yield from (Finding("noticed", Level.WARNING, one) for one in dict.fromkeys(store.notices) if one not in seen)


# ------------------------------------------------------------ files


def _links(at: Subject) -> Iterator[Finding]:
    """Find symbolic links in place of dreamd's files, which are not followed, and a folder of notes elsewhere."""
    links = [path for path in own_files(at.workspace) if path.is_symlink()]
    folder = at.workspace.scratch.parent
    if folder.is_symlink() and not Path(os.path.realpath(folder)).is_relative_to(at.workspace.root):
        links.append(folder)
    for path in links:
        what = f"{path} is a symbolic link to {path.readlink()}; it is not followed"
        yield problem(what, f"put the file itself in its place, or remove the link: rm '{path}'")


def _owners(at: Subject) -> Iterator[Finding]:
    """Find files of other users, and what this user cannot use for another reason than its permissions."""
    workspace, owner, strange = at.workspace, at.workspace.root.stat().st_uid, list[Path]()
    for path in (workspace.state, *own_files(workspace)):
        with suppress(FileNotFoundError):  # somebody at work has just deleted it
            strange += [path] if path.lstat().st_uid != owner else []
    if strange:
        what = f"{strange[0]} belongs to another user than the workspace ({len(strange)} such files and folders)"
        yield problem(what, f"run 'sudo chown -hR {owner} {workspace.state}'")
    needed = dict.fromkeys(folders(workspace), os.W_OK | os.X_OK) | {workspace.scratch: os.R_OK | os.W_OK}
    for path in needed.keys() - set(checks.wrong_modes(workspace)) - set(strange):
        if os.path.exists(path) and not os.access(path, needed[path]):  # noqa: PTH110 - Path.exists may raise here
            yield problem(f"{path} is not writable by this user", access_to(path))


def _folders(at: Subject) -> Iterator[Finding]:
    """Find files in place of folders, and the reverse. A missing folder is created when the stores are opened."""
    scratch = at.workspace.scratch
    for folder in folders(at.workspace):
        if not os.path.lexists(folder):
            yield warning(f"{folder} is missing", "it is made again as the workspace is opened")
        elif not folder.is_symlink() and not folder.is_dir():
            yield problem(f"{folder} is no folder", REPAIR, path=folder)
    if os.path.lexists(scratch) and not scratch.is_symlink() and not scratch.is_file():
        yield Finding("notes", Level.PROBLEM, f"{scratch} is no file", REPAIR, path=scratch)


def _disk(at: Subject) -> Iterator[Finding]:
    free = shutil.disk_usage(at.workspace.root).free
    level = Level.PROBLEM if free < _NO_DISK else Level.WARNING if free < _LITTLE_DISK else Level.OK
    yield Finding("disk", level, f"{free / 1024**2:,.0f} MiB free", "" if level is Level.OK else "free some space")


# ------------------------------------------------------------ databases that nobody has open


def _databases(at: Subject) -> Iterator[Finding]:
    """Read all of state.db, and of a copy every page, or every row if it is to be restored."""
    path, inbox = at.workspace.database, NoteInbox(at.workspace)
    if at.is_held or path.is_symlink():
        return
    copies = copies_of(path)  # they and some files imply a database that recorded what was consumed
    wrong = damage_of(path, expected=bool(copies or inbox.displaced() or inbox.rotated()))
    for copy in copies:
        if not is_readable(copy) or (wrong and damage_of(copy, expected=True)):
            yield Finding("copies", Level.PROBLEM, f"{copy} is damaged", REPAIR, path=copy)
    if wrong:
        newer = any(WRONG_SCHEMA in one for one in wrong)
        advice = f"if a newer dreamd wrote it, upgrade; else {REPAIR}" if newer else _RESCUE
        yield problem(f"state.db: {'; '.join(wrong)}", advice, path=path)


def _checkpoints(at: Subject) -> Iterator[Finding]:
    """Find damaged checkpoints, which cost at most one answer that is paid for again."""
    path, wrong = at.workspace.checkpoints / "dreams.db", ""
    if at.is_held or path.is_symlink() or path.parent.is_symlink() or not os.path.lexists(path):
        return
    try:
        with open_unmigrated(path) as connection:
            wrong = broken_page(connection, "integrity_check")
    except sqlite3.DatabaseError as error:
        wrong = str(error)
    if wrong:
        yield problem(f"{path}: {wrong}", REPAIR, path=path)


# ------------------------------------------------------------ open stores


def _rows(store: Store) -> Iterator[Finding]:
    if wrong := list(islice(faults(store.connection), 3)):
        yield problem(f"damaged: {'; '.join(wrong)}", _RESCUE)
        return
    figures = f"{counted(store.crystals.count(), 'crystal')}, {counted(store.lineage.last_version(), 'version')}"
    tombstones = f"{counted(len(store.lineage.tombstones()), 'tombstone')} (lines that you deleted stay away)"
    yield fine(f"sound: {figures}, {tombstones}")


def _history(store: Store) -> Iterator[Finding]:
    """Check that every version has its text; an archive or a restored copy may lack some."""
    if missing := [str(number) for number in store.lineage.versions_after(0) if not store.lineage.text(number)]:
        yield warning(
            f"the texts of versions {', '.join(missing)} are gone", "only these cannot be shown or restored"
        )
    else:
        yield fine("every version is there")


def _embeddings(store: Store) -> Iterator[Finding]:
    embedder_of(store)  # sets the model that crystals are to be embedded with
    embedder, (waiting, _) = store.index.embedding.get(), store.crystals.vectors.waiting()
    if isinstance(embedder, Unavailable):
        yield warning(embedder.reason, f"{waiting:,} crystals are found by their words alone")
    elif waiting:
        yield warning(f"{embedder.name}; {waiting:,} crystals wait for a vector", "the next dream embeds them")
    else:
        yield fine(f"{embedder.name}; no crystal waits")


def _word_index(store: Store) -> Iterator[Finding]:
    """Rebuild a torn index of the words at once: it is derived."""
    torn = [words for words in ("words", "cold_words") if full_text.is_torn(store.connection, words)]
    for words in torn:
        full_text.rebuild(store.connection, words)
        cold = " of the cold archive" if words == "cold_words" else ""
        yield warning(f"the word index{cold} was torn; it is rebuilt from the crystals now")
    if not torn:
        yield fine("agrees with the crystals")


def _vector_index(store: Store) -> Iterator[Finding]:
    vectors, state = store.crystals.vectors, index_state(store.connection)
    if not (count := vectors.vector_count()):
        yield fine("no vectors yet")
        return
    chroma = f", {vectors.waiting()[1]:,} of them not told to ChromaDB yet" if state.stamp else ""
    yield fine(f"{counted(count, 'vector')} of {counted(store.crystals.count(), 'crystal')}{chroma}")


def _last_dream(store: Store) -> Iterator[Finding]:
    last = standing(store.connection)
    if last.outcome in ("failed", "rejected"):
        how = "failed" if last.outcome == "failed" else "was refused"
        yield warning(f"the last one {how}: {last.detail}", "run 'dreamd dream'")
    else:
        ended = "is not finished" if last.outcome == "running" else "went well"
        yield fine(f"the last one {ended}" if last.dream else "none yet")


def _pointers(store: Store) -> Iterator[Finding]:
    now, searched = utc_now(), searched_in(store)
    pointers = store.lineage.pointers(current=True)
    lost = [one for one in pointers if rank_of(searched, one.keywords, one.crystal, now, FIRST) is None]
    for pointer in lost:
        what = f"`{pointer.keywords}` does not find {pointer.topic!r} among the first {FIRST}"
        yield warning(what, "the next dream mends it")
    if not lost:
        yield fine(f"all {len(pointers)} resolve")


# In the order of a repair: each may rely on those before it.
FILES: tuple[Check[Subject], ...] = (
    ("links", _links), ("folders", _folders), ("permissions", _owners), checks.PERMISSIONS, ("disk", _disk),
    ("state.db", _databases), *checks.FILES, ("checkpoints", _checkpoints),
)  # fmt: skip
STORES: tuple[Check[Store], ...] = (
    ("state.db", _rows), ("history", _history), ("embeddings", _embeddings),
    ("word index", _word_index), ("vector index", _vector_index), ("pointers", _pointers), ("dreams", _last_dream),
)  # fmt: skip
