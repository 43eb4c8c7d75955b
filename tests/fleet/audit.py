"""Audit: what must be so of a fleet at rest, read past every machine from PostgreSQL and the object store.

`watch` has PostgreSQL itself record each change of a generation and of an owner, from the beginning.
"""

import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from state.errors import DreamdError
from state.stores.disk.workspace import Workspace, contained
from state.stores.fleet.database import FleetDatabase
from state.stores.generations.generations import Generations
from state.stores.generations.objects import open_objects
from tests.chaos.trial import HORMONAL
from tests.fleet.ledger import Ledger
from tests.fleet.machines import Fleet, Known, Machine
from tests.support import lived
from tests.support.notes import marker

_WATCH = """
CREATE TABLE watched (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workspace bigint NOT NULL, was bigint NOT NULL,
    generation bigint NOT NULL, owner uuid, owner_was uuid,
    lives boolean NOT NULL);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF new.generation <> old.generation OR (new.owner IS NOT NULL AND new.owner IS DISTINCT FROM old.owner) THEN
        INSERT INTO dreamd.watched (workspace, was, generation, owner_was, owner, lives)
        VALUES (new.id, old.generation, new.generation, old.owner, new.owner,
            EXISTS (SELECT 1 FROM dreamd.living p WHERE p.id = old.owner));
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER watch AFTER UPDATE ON workspaces FOR EACH ROW EXECUTE FUNCTION watch();
"""
_LAST = """
SELECT w.id, w.generation, w.problem,
    (SELECT array_agg(generation) FROM watched x WHERE x.workspace = w.id AND x.generation > x.was) AS committed
FROM workspaces w
"""
_BAD = re.compile(
    r"Traceback|a defect|Fatal Python error|\"(?:job_failed|sweep_failed|round_failed|heartbeat_failed)\""
)
# In these words an error is what the storm did.
_WEATHER = ("cannot be asked", "cannot be reached", "Unreachable", "UNREACHABLE")


@dataclass(slots=True)
class Seen:
    """What was looked at."""

    workspaces: int = 0
    notes: int = 0
    pending: int = 0
    versions: int = 0
    restores: int = 0
    commits: int = 0
    leases: int = 0


def watch(database: FleetDatabase) -> None:
    """From now on PostgreSQL records who owns and who commits."""
    database.rows(_WATCH)


def audit(fleet: Fleet, ledger: Ledger) -> Seen:
    """Everything, into the ledger's findings; what was looked at."""
    seen, database = Seen(), fleet.tables.database
    for what in (*commits(database, seen), *inboxes(database)):
        ledger.found(what)
    rows = {row["id"]: row for row in database.rows(_LAST)}
    for known in fleet.known:
        try:
            wrong = list(workspace(fleet, known, rows[known.id], ledger, seen))
        except (DreamdError, OSError, sqlite3.Error) as error:
            wrong = [f"it does not come up: {error!r}"]
        for what in wrong:
            ledger.found(f"{known.handle} ({known.tenant_name}): {what}")
    for machine in fleet.machines:
        for what in said(machine):
            ledger.found(f"{machine.name}: {what}")
    return seen


# ------------------------------------------------------------------- PostgreSQL


def commits(database: FleetDatabase, seen: Seen) -> Iterator[str]:
    """No number becomes lower, and nothing is taken from an owner that lives."""
    for row in database.rows("SELECT * FROM watched ORDER BY seq"):
        where = f"ws-{row['workspace']}, generation {row['generation']}"
        if row["owner"] is not None and row["owner"] != row["owner_was"]:
            seen.leases += 1
            if row["lives"]:
                yield f"{where}: it was taken from an owner that lived"
            if row["generation"] != row["was"]:
                yield f"{where}: a commit with a new owner"
        if row["generation"] != row["was"]:
            seen.commits += 1
            if row["generation"] < row["was"]:
                yield f"{where}: committed over {row['was']}"


def inboxes(database: FleetDatabase) -> Iterator[str]:
    """Every note was taken."""
    left = database.rows(
        "SELECT workspace, count(*) AS n FROM inbox WHERE taken_at IS NULL AND kind = 'note' GROUP BY workspace"
    )
    for row in left:
        yield f"ws-{row['workspace']}: {row['n']} rows of its inbox were not taken"


# ------------------------------------------------------------------- one workspace


def workspace(fleet: Fleet, known: Known, row: dict[str, Any], ledger: Ledger, seen: Seen) -> Iterator[str]:
    """The last generation, brought up: each note once, the history whole, the stores sound."""
    wanted = ledger.written[known.id]
    if row["problem"]:
        yield f"it has the problem {row['problem']!r}"
    if not row["generation"]:
        if wanted:
            yield f"never committed, and acknowledged {len(wanted)} texts"
        return
    objects = open_objects(fleet.tables.objects_url, fleet.tables.options)
    generations, here = Generations(objects, known.prefix), fleet.tables.last(known)
    yield from _notes(here, known, ledger, wanted, seen)
    yield from lived.contradictions(here)
    made = [row["text"] for row in lived.versions(here) if row["number"]]
    seen.versions += len(made)
    if made and lived.document(here) != made[-1]:
        yield "MEMORY.md is not the last version"
    yield from _restores(here, wanted, seen)
    yield from _older(generations, set(row["committed"]), here)
    shutil.rmtree(here.root)
    seen.workspaces += 1


def _notes(here: Workspace, known: Known, ledger: Ledger, wanted: dict[str, str], seen: Seen) -> Iterator[str]:
    """Each acknowledged note is a crystal or pending, once; so is, at most once, what was only tried."""
    pending = lived.pending(here)
    crystals = [row["text"] for row in lived.rows(here, "SELECT text FROM crystals WHERE origin = 'scratch'")]
    # What a pass has read is a crystal, and pending until it is dreamt; where its line is, says `places`.
    consumed, everywhere = lived.places(here), Counter(crystals) | Counter(pending)
    for text in (text for text, kind in wanted.items() if kind == "note"):
        seen.notes += 1
        seen.pending += text in pending
        if not everywhere[text]:
            yield f"acknowledged and lost: {text}"
        elif consumed[text] != 1:
            yield f"{consumed[text]} times there, not once: {text}"
    for text, times in (everywhere | consumed).items():
        if times > 1 and not text.startswith(HORMONAL):
            yield f"{times} times there: {text}"
    others = {text for (text,) in _texts(here)}
    yield from _writes(here, others, wanted)
    for text in others | set(pending):
        owner = ledger.tried.get(text)
        if owner is not None and owner != known.id:
            yield f"it holds a text of ws-{owner}: {text}"
        elif owner is None and " marked x" in text and not text.startswith(("- ", HORMONAL)):
            yield f"nobody wrote this: {text}"


def _writes(here: Workspace, texts: set[str], wanted: dict[str, str]) -> Iterator[str]:
    """What else was acknowledged is there."""
    whole = "\n".join(texts)
    for text, kind in wanted.items():
        if kind in {"item", "feel"} and marker(text) not in whole:
            yield f"a {kind} that was acknowledged is lost: {text}"


def _restores(here: Workspace, wanted: dict[str, str], seen: Seen) -> Iterator[str]:
    """Each version that was brought back, as was acknowledged, is one of the history, made by its act."""
    made = lived.rows(here, "SELECT number, dream FROM versions WHERE cause = 'restore'")
    numbers = {row["dream"]: row["number"] for row in made}
    for dream in (dream for dream, kind in wanted.items() if kind == "restore"):
        seen.restores += 1
        number = numbers.get(dream)
        if number is None:
            yield f"a version was brought back by {dream}, as was acknowledged, and is not among {sorted(numbers)}"
            continue
        texts = {row["number"]: row["text"] for row in lived.versions(here)}
        if texts[number] != texts[1]:
            yield f"version {number}, which {dream} brought back, is not version 1"


def _texts(here: Workspace) -> list[sqlite3.Row]:
    return lived.rows(
        here,
        "SELECT text FROM crystals UNION SELECT content FROM items UNION SELECT cause FROM feelings"
        " UNION SELECT text FROM lines",
    )


def _older(generations: Generations, committed: set[int], here: Workspace) -> Iterator[str]:
    """A version that an older generation had is in the last one, unchanged."""
    now = {row["number"]: tuple(row) for row in lived.versions(here)}
    for number in committed.intersection(generations.numbers()):
        folder = here.root.with_name(f"{here.root.name}-{number}")
        generations.bring_up(folder, generations.version(number))
        generations.close()
        then = lived.versions(contained(folder)) if contained(folder).database.exists() else []
        if lost := [row["number"] for row in then if now.get(row["number"]) != tuple(row)]:
            yield f"generation {number} has the versions {lost}, which the last has not so"
        shutil.rmtree(folder)


def said(machine: Machine) -> Iterator[str]:
    """Lines of its log that tell of a defect."""
    text = machine.said.read_text("utf-8", "replace") if machine.said.exists() else ""
    for line in text.splitlines():
        if _BAD.search(line) and not any(words in line for words in _WEATHER):
            yield f"it said: {line[:500]}"
