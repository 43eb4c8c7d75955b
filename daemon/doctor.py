"""Is everything in order? Each finding says what was looked at, how it is, and what to do."""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from daemon.compose import Store, clock, folders, owned
from daemon.config import Config, load
from daemon.layers import user_file
from daemon.status import present_holder
from state.errors import BusyError, DreamdError
from state.pointer import FIRST
from state.stores import lexical
from state.stores.files import Disk
from state.stores.segments import Segments
from state.stores.workspace import Workspace

_RESCUE = (
    "restore state.db from a backup, or move it away with its -wal and -shm (and keep them): the next command then "
    "reads every version from history/ again, only transcripts are to be ingested again; "
    "MEMORY.md and the notes are unharmed"
)
_SEE_DOCTOR = "run 'dreamd doctor'"
LITTLE_DISK = 500 * 1024**2
NO_DISK = 50 * 1024**2


class Level(StrEnum):
    """How something is. A warning costs something; a problem has to be mended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    about: str
    level: Level
    what: str
    advice: str = ""


def examine(workspace: Workspace, config_file: Path | None, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Every finding, as it is made. Nothing is asked of the network.

    Takes the workspace's lock for the stores; while another process has it they are not looked into. Opening the
    stores finishes an interrupted commit and builds a torn index anew, and the findings say so.
    """
    config, finding = _config(config_file, environment)
    yield finding
    yield from _model(config)
    yield from _files(workspace)
    yield from _stores(workspace, config)
    yield from _legible(_notes(workspace), "notes")


def _config(file: Path | None, environment: Mapping[str, str]) -> tuple[Config, Finding]:
    try:
        config = load(file, environment)
        origin = user_file(file, environment)
    except DreamdError as error:
        return Config(), Finding(
            "config", Level.PROBLEM, str(error), "mend it; the rest is checked with the defaults"
        )
    return config, Finding("config", Level.OK, f"valid ({origin or 'defaults'} and DREAMD_… variables)")


def _model(config: Config) -> Iterator[Finding]:
    name = config.model.name
    if name is None:
        advice = "set model.name for dreams that a model writes"
        yield Finding("model", Level.OK, "none configured: dreams are extractive", advice)
        return
    from daemon.litellm_loading import load_litellm
    from daemon.model_errors import missing_keys
    from daemon.pricing import known_model

    litellm = load_litellm()
    try:
        litellm.get_llm_provider(name, api_base=config.model.api_base)
    except litellm.exceptions.BadRequestError:
        what = f"litellm knows no provider for {name!r}"
        yield Finding("model", Level.PROBLEM, what, "write model.name as provider/model, e.g. openai/gpt-5-mini")
        return
    missing = missing_keys(litellm, name)
    if missing and config.model.api_base is None:
        yield Finding(
            "model", Level.PROBLEM, f"{name} wants a key", f"set {' and '.join(missing)} in the environment"
        )
    elif known_model(litellm, name) is None:
        what = f"{name}: its price and context window are not known"
        yield Finding("model", Level.WARNING, what, "the ceilings in dollars do not bind it, those in tokens do")
    else:
        yield Finding("model", Level.OK, f"{name} is known" + ("" if missing else ", and so is its key"))


def _files(workspace: Workspace) -> Iterator[Finding]:
    mode = workspace.state.stat().st_mode & 0o777
    if mode & 0o077:
        what, advice = f"{workspace.state} is open to other users ({mode:o})", f"run 'chmod 700 {workspace.state}'"
        yield Finding("permissions", Level.PROBLEM, what, advice)
    else:
        yield Finding("permissions", Level.OK, f"{workspace.state} is open to its owner alone")
    free = shutil.disk_usage(workspace.root).free
    level = Level.PROBLEM if free < NO_DISK else Level.WARNING if free < LITTLE_DISK else Level.OK
    yield Finding("disk", level, f"{free / 1024**2:,.0f} MiB free", "" if level is Level.OK else "free some space")
    yield from _folders(workspace)
    yield from _legible(_document(workspace), "MEMORY.md")


def _folders(workspace: Workspace) -> Iterator[Finding]:
    for folder in folders(workspace):
        if not os.path.lexists(folder):
            yield Finding(
                "folders", Level.WARNING, f"{folder} is missing", "it is made again as the workspace is opened"
            )
        elif not folder.is_dir():
            advice = "move it away and run 'dreamd init'"
            yield Finding("folders", Level.PROBLEM, f"{folder} is no folder", advice)
        elif not os.access(folder, os.W_OK | os.X_OK):
            what = f"{folder} is not writable by this user"
            yield Finding("folders", Level.PROBLEM, what, f"run 'chmod u+rwx {folder}' as its owner")


def _legible(findings: Iterator[Finding], about: str) -> Iterator[Finding]:
    """The findings; a file that cannot be read is one."""
    try:
        yield from findings
    except DreamdError as error:
        yield Finding(about, Level.PROBLEM, str(error))


def _document(workspace: Workspace) -> Iterator[Finding]:
    disk = Disk(workspace.root)
    content = disk.read_if_there(workspace.document)
    try:
        text = (content or b"").decode()
    except UnicodeDecodeError as error:
        what = f"MEMORY.md: byte {error.start} is not UTF-8"
        yield Finding("MEMORY.md", Level.PROBLEM, what, "save it as UTF-8, or move it away and run 'dreamd restore'")
        return
    if "\0" in text:
        what = "MEMORY.md holds NUL bytes, so it is no text"
        yield Finding("MEMORY.md", Level.PROBLEM, what, "move it away and run 'dreamd restore'")
        return
    yield Finding("MEMORY.md", Level.OK, "not there yet" if content is None else f"{len(text):,} characters")
    if disk.displaced(workspace.document) is not None and present_holder(workspace) is None:
        what = "a commit was interrupted while it wrote MEMORY.md"
        yield Finding("commit", Level.WARNING, what, "it is finished now, as the workspace is opened")


def _notes(workspace: Workspace) -> Iterator[Finding]:
    pending = len(Segments(workspace).pending_notes())
    scratch = workspace.scratch
    if scratch.exists() and not os.access(scratch, os.R_OK | os.W_OK):
        yield Finding(
            "notes", Level.PROBLEM, f"{scratch} is not writable by this user", f"run 'chmod u+rw {scratch}'"
        )
    else:
        yield Finding("notes", Level.OK, f"{pending:,} pending")


def _stores(workspace: Workspace, config: Config) -> Iterator[Finding]:
    try:
        with owned(workspace, config, "dreamd doctor") as store:
            for check in (_database, _history, _embeddings, _word_index, _vector_index, _dreams, _pointers):
                yield from _watched(check(store), store)
            for notice in dict.fromkeys(store.notices):
                yield Finding("noticed", Level.WARNING, notice)
    except BusyError as error:
        yield Finding("stores", Level.WARNING, f"not looked into: {error}", "run 'dreamd doctor' again afterwards")
    except DreamdError as error:
        # Whatever sends a person here has no advice of its own.
        what = str(error).removesuffix(_SEE_DOCTOR).rstrip(",; ")
        yield Finding("stores", Level.PROBLEM, what, _RESCUE if str(error).endswith(_SEE_DOCTOR) else "")
    except sqlite3.Error as error:
        yield Finding("state.db", Level.PROBLEM, f"{workspace.database}: {error}", _RESCUE)


def _watched(findings: Iterator[Finding], store: Store) -> Iterator[Finding]:
    """The findings; a check that breaks off is one, and the next check follows."""
    try:
        yield from findings
    except DreamdError as error:
        yield Finding("stores", Level.PROBLEM, str(error))
    except sqlite3.Error as error:
        yield Finding("state.db", Level.PROBLEM, f"{store.workspace.database}: {error}", _RESCUE)


def _database(store: Store) -> Iterator[Finding]:
    connection = store.crystals.connection
    wrong = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
    if wrong:
        yield Finding("state.db", Level.PROBLEM, f"damaged: {'; '.join(wrong)}", _RESCUE)
        return
    graves = len(store.lineage.tombstones())
    figures = f"{store.crystals.count():,} crystals, {store.lineage.last_version()} versions"
    yield Finding("state.db", Level.OK, f"sound: {figures}, {graves} tombstones (lines that you deleted stay away)")


def _history(store: Store) -> Iterator[Finding]:
    """Every version can be shown and restored, and is the one that state.db knows."""
    sound = True
    for version in store.lineage.versions(store.lineage.last_version()):
        try:
            record = store.journal.record(version.number)
        except DreamdError as error:
            what = str(error).removesuffix(_SEE_DOCTOR).rstrip(",; ")
        else:
            if record.id == version.dream:
                continue
            what = f"version {version.number} is dream {record.id}, and {version.dream} in state.db"
        sound = False
        advice = "put its record back from a backup; without it, only this version cannot be shown or restored"
        yield Finding("history", Level.PROBLEM, what, advice)
    if sound:
        yield Finding("history", Level.OK, "every version is there")


def _embeddings(store: Store) -> Iterator[Finding]:
    embedder = store.embedder()
    waiting, _ = store.crystals.vectors.waiting()
    if embedder is None:
        reason = store.notices.pop()
        yield Finding("embeddings", Level.WARNING, reason, f"{waiting:,} crystals are found by their words alone")
    elif waiting:
        what = f"{embedder.name}; {waiting:,} crystals wait for a vector"
        yield Finding("embeddings", Level.WARNING, what, "the next dream embeds them")
    else:
        yield Finding("embeddings", Level.OK, f"{embedder.name}, its digest as pinned; no crystal waits")


def _word_index(store: Store) -> Iterator[Finding]:
    if lexical.is_torn(store.crystals.connection):
        lexical.rebuild(store.crystals.connection)
        yield Finding("word index", Level.WARNING, "was torn; it is rebuilt from the crystals now")
    else:
        yield Finding("word index", Level.OK, "agrees with the crystals")


def _vector_index(store: Store) -> Iterator[Finding]:
    index = store.index()
    vectors = store.crystals.vectors
    if index is None:
        yield Finding("vector index", Level.OK, "nothing to index yet")
        return
    held, wanted, (_, untold) = index.count(), vectors.vector_count(), vectors.waiting()
    level = Level.OK if held + untold >= wanted else Level.PROBLEM
    what = f"ChromaDB holds {held:,} of {wanted:,} vectors" + (f"; {untold:,} are not told yet" if untold else "")
    yield Finding("vector index", level, what, "" if level is Level.OK else "run 'dreamd dream'")


def _dreams(store: Store) -> Iterator[Finding]:
    unfinished = store.ledger.unfinished()
    if unfinished is not None:
        what = f"dream {unfinished.id} was interrupted"
        yield Finding("dreams", Level.WARNING, what, "'dreamd dream' goes on with it and pays for nothing twice")
        return
    last = store.ledger.last_dream()
    if last is not None and last.outcome in ("failed", "rejected"):
        yield Finding(
            "dreams", Level.WARNING, f"the last one was {last.outcome}: {last.detail}", "run 'dreamd dream'"
        )
    else:
        yield Finding("dreams", Level.OK, f"the last one was {last.outcome}" if last else "none yet")


def _pointers(store: Store) -> Iterator[Finding]:
    now, searcher = clock(), store.searcher()
    pointers = store.lineage.pointers(standing=True)
    lost = [one for one in pointers if searcher.rank_of(one.keywords, one.crystal, now, FIRST) is None]
    for pointer in lost:
        what = f"`{pointer.keywords}` does not find {pointer.topic!r} among the first {FIRST}"
        yield Finding("pointers", Level.WARNING, what, "the next dream mends it")
    if not lost:
        yield Finding("pointers", Level.OK, f"all {len(pointers)} resolve")
