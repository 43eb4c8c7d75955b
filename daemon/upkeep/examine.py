"""Examination: checks every store of a workspace and yields findings for `dreamd doctor`."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice

from daemon.workspace.searching import embedder_of, searcher_of
from daemon.workspace.stores import Store, utc_now
from state.document.document import parse
from state.document.merge import is_conflicted
from state.document.pointer import FIRST
from state.errors import BusyError, DreamdError
from state.stores.crystals import full_text
from state.stores.crystals.vectors import index_state
from state.stores.database.copies import copied_at, copies_of, found_damaged
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.repair.check import faults
from state.stores.vectors.embedder import Unavailable
from state.text.words import counted
from state.zone import clock_time

REPAIR = "run 'dreamd doctor --repair'"
RESCUE = (
    f"{REPAIR}: it restores the last copy of state.db and keeps the damaged one; MEMORY.md and the notes are unharmed"
)
SEE_DOCTOR = "run 'dreamd doctor'"


class Level(StrEnum):
    """How serious a finding is. A warning has a cost; a problem must be repaired."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    about: str
    level: Level
    what: str
    advice: str = ""


def fine(about: str, what: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(about, Level.OK, what)


def warning(about: str, what: str, advice: str = "") -> Finding:
    """Return a finding about something that has a cost."""
    return Finding(about, Level.WARNING, what, advice)


def problem(about: str, what: str, advice: str = "") -> Finding:
    """Return a finding about something that must be repaired."""
    return Finding(about, Level.PROBLEM, what, advice)


def advice_of(error: DreamdError) -> str:
    """Return an error's advice, for a user who is already running the doctor."""
    return RESCUE if error.advice.endswith(SEE_DOCTOR) else error.advice


def check_stores(store: Store) -> Iterator[Finding]:
    """Yield the findings about the stores of a workspace that this process owns.

    Rebuild a torn index on the way, and report it.
    """
    seen = set[str]()
    for check in _CHECKS:
        for finding in watched(partial(check, store), store.workspace):
            seen.add(finding.what)
            yield finding
    yield from (warning("noticed", notice) for notice in dict.fromkeys(store.notices) if notice not in seen)


def watched(check: Callable[[], Iterable[Finding]], workspace: Workspace) -> Iterator[Finding]:
    """Yield the findings of a check, and one more if it fails."""
    try:
        yield from check()
    except BusyError as error:
        again = "run 'dreamd doctor' again afterwards"
        advice = f"{error.advice}, then {again}" if error.advice else again
        yield warning("stores", f"not looked into: {error.what}", advice)
    except DreamdError as error:
        yield problem("stores", error.what, advice_of(error))
    except sqlite3.Error as error:
        yield problem("state.db", f"{workspace.database}: {error}", RESCUE)


def _database(store: Store) -> Iterator[Finding]:
    if wrong := list(islice(faults(store.connection), 3)):
        yield problem("state.db", f"damaged: {'; '.join(wrong)}", RESCUE)
        return
    figures = f"{counted(store.crystals.count(), 'crystal')}, {counted(store.lineage.last_version(), 'version')}"
    tombstones = f"{counted(len(store.lineage.tombstones()), 'tombstone')} (lines that you deleted stay away)"
    yield fine("state.db", f"sound: {figures}, {tombstones}")


def _copies(store: Store) -> Iterator[Finding]:
    """Yield when state.db was last copied; a repair checks the copies for damage while nobody has them open."""
    database = store.workspace.database
    if wrong := found_damaged(database):
        yield problem("copies", f"state.db was not copied: {wrong}", RESCUE)
    made = [clock_time(copied_at(copy), store.config.zone) for copy in copies_of(database)]
    yield fine("copies", f"state.db was copied: {', '.join(made)}" if made else "none yet of state.db")


def _forgetting(store: Store) -> Iterator[Finding]:
    if is_unfinished(store.connection):
        yield problem("forgetting", f"a {UNFINISHED}", ADVICE)


def _history(store: Store) -> Iterator[Finding]:
    """Check that every version has its text; an archive or a restored copy may lack some."""
    if missing := [str(number) for number in store.lineage.versions_after(0) if not store.lineage.text(number)]:
        what = f"the texts of versions {', '.join(missing)} are gone"
        yield warning("history", what, "only these cannot be shown or restored")
    else:
        yield fine("history", "every version is there")


def _memory(store: Store) -> Iterator[Finding]:
    """Check that MEMORY.md is a complete version, or derived from one."""
    last, _ = store.lineage.standing()
    try:
        wanted = store.memory.text(last) if last else None
        wrong = wrong_with(store.memory.disk.read_optional(store.workspace.document), wanted)
    except DreamdError:
        return
    if wrong:
        again = f", or 'dreamd restore {last}'" if last else ""
        yield problem("MEMORY.md", f"MEMORY.md {wrong}", f"{REPAIR}{again}")


def wrong_with(found: bytes | None, wanted: str | None) -> str:
    """Return why these bytes are not a MEMORY.md, or "" if they are. `wanted`: the last version, if any."""
    if found is None or not found.strip():
        state = "is missing" if found is None else "is empty"
        return state if wanted is not None else ""
    try:
        text = found.decode()
    except UnicodeDecodeError as error:
        return f"is no text: byte {error.start} is not UTF-8"
    if "\0" in text:
        return "holds NUL bytes"
    if wanted is None or text == wanted or is_conflicted(text):
        return ""
    return _torn(text, wanted)


def _torn(text: str, wanted: str) -> str:
    """Return why this text is only part of a MEMORY.md, or "" if it is complete."""
    if not text.endswith("\n") and wanted.startswith(text):
        return "breaks off"
    missing = parse(text).missing if parse(wanted).has_schema else ()
    lacking = [name for name in missing if name not in parse(wanted).missing]
    return f"lacks its sections ({', '.join(lacking)})" if lacking else ""


def _embeddings(store: Store) -> Iterator[Finding]:
    embedder_of(store)  # sets the model that crystals are to be embedded with
    embedder, (waiting, _) = store.index.embedding.get(), store.crystals.vectors.waiting()
    if isinstance(embedder, Unavailable):
        yield warning("embeddings", embedder.reason, f"{waiting:,} crystals are found by their words alone")
    elif waiting:
        what = f"{embedder.name}; {waiting:,} crystals wait for a vector"
        yield warning("embeddings", what, "the next dream embeds them")
    else:
        yield fine("embeddings", f"{embedder.name}; no crystal waits")


def _word_index(store: Store) -> Iterator[Finding]:
    if full_text.is_torn(store.connection):
        full_text.rebuild(store.connection)
        yield warning("word index", "was torn; it is rebuilt from the crystals now")
    else:
        yield fine("word index", "agrees with the crystals")


def _vector_index(store: Store) -> Iterator[Finding]:
    vectors, state = store.crystals.vectors, index_state(store.connection)
    if not (count := vectors.vector_count()):
        yield fine("vector index", "no vectors yet")
        return
    chroma = f", {vectors.waiting()[1]:,} of them not told to ChromaDB yet" if state.stamp else ""
    yield fine("vector index", f"{counted(count, 'vector')} of {counted(store.crystals.count(), 'crystal')}{chroma}")


def _dreams(store: Store) -> Iterator[Finding]:
    unfinished, last = store.ledger.unfinished(), store.ledger.last_dream()
    if unfinished is not None:
        what = f"dream {unfinished.id} was interrupted"
        yield warning("dreams", what, "'dreamd dream' goes on with it and pays for nothing twice")
    elif last is not None and last.outcome in ("failed", "rejected"):
        yield warning("dreams", f"the last one was {last.outcome}: {last.detail}", "run 'dreamd dream'")
    else:
        yield fine("dreams", f"the last one was {last.outcome}" if last else "none yet")


def _pointers(store: Store) -> Iterator[Finding]:
    now, searcher = utc_now(), searcher_of(store)
    pointers = store.lineage.pointers(current=True)
    lost = [one for one in pointers if searcher.rank_of(one.keywords, one.crystal, now, FIRST) is None]
    for pointer in lost:
        what = f"`{pointer.keywords}` does not find {pointer.topic!r} among the first {FIRST}"
        yield warning("pointers", what, "the next dream mends it")
    if not lost:
        yield fine("pointers", f"all {len(pointers)} resolve")


_CHECKS = (
    _database, _copies, _forgetting, _history, _memory, _embeddings, _word_index, _vector_index, _dreams,
    _pointers,
)  # fmt: skip
