"""Recovery: update the registry from the object store after PostgreSQL was lost or restored from an older backup.

The newest complete generation of each workspace counts: the highest number, then the latest time. Either it was
committed, or its holder died just before and it is the child of the last committed one. Inbox rows whose notes it
already contains are not taken in again.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, islice
from pathlib import Path

from daemon.fleet.connections import Connections
from state.errors import BusyError, ConflictError, StorageError
from state.fleet import Generation, Place, readable_notes
from state.stores.disk.workspace import contained
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import processes
from state.stores.fleet.recovery import Newer, Recovery, Row
from state.stores.generations.generations import Generations
from state.stores.generations.objects import StoredObject
from state.stores.generations.versions import Version, made_by
from state.stores.history.notes import notes_of

_AT_ONCE = 8
_LOST = "the object store has nothing of it; restore the bucket, or remove the workspace"


class Finding(StrEnum):
    """How a workspace's row in the registry compares with the store."""

    CURRENT = "current"
    BEHIND = "behind"
    """The store has a newer generation: the row is set to it."""
    MISSING = "missing"
    """There is no row: it is made, with its tenant if need be."""
    DAMAGED = "damaged"
    """The row's generation is incomplete in the store; an older one may be complete."""
    LOST = "lost"
    """The row names a generation, but the store has no complete one."""
    UNNAMED = "unnamed"
    """Neither a row nor a generation says whose workspace it is."""
    FOREIGN = "foreign"
    """The row and the generation in the store name different workspaces."""


@dataclass(frozen=True, slots=True)
class Found:
    """One workspace: the row's generation (0: no row, or never committed), and the store's newest complete one.

    `done`: the row was updated; `inbox`: the number of inbox rows that the generation already contains.
    """

    prefix: str
    tenant: str
    workspace: str
    finding: Finding
    row: int
    store: int
    done: bool = False
    inbox: int = 0
    problem: str = ""


# A finding, and the generation that its row may be set to.
_Judged = tuple[Found, Newer | None]


def require_stopped(connections: Connections) -> None:
    """Raise BusyError if a process of the fleet is alive."""
    if living := sum(one.alive for one in processes(connections.database)):
        what = "a process of the fleet lives" if living == 1 else f"{living} processes of the fleet live"
        raise BusyError(what, "stop them first; they are dead 15 s after their last word")


@dataclass(frozen=True, slots=True)
class Survey:
    """A comparison of the registry with the store.

    `older`: if a row's generation is incomplete, take the newest complete older one; the row keeps its number, as
    numbers never decrease. `insistent`: also take a higher number whose time is older.
    """

    connections: Connections
    older: bool = False
    insistent: bool = False

    def found(self) -> Iterator[Found]:
        """Yield the finding for each workspace without changing anything."""
        return (found for found, _ in self._judged())

    def recover(self, own: Path) -> Iterator[Found]:
        """Update each row from the store, make missing ones, and yield each result.

        `own`: an empty scratch folder. Raise UnreachableError; a further call resumes.
        """
        recovery, seen = Recovery(self.connections.database), list[tuple[int, int]]()
        for found, newer in self._judged():
            seen.append(_numbers(found.prefix))
            if newer is None:
                yield found
                continue
            tenant, workspace = _numbers(found.prefix)
            place = Place(workspace, tenant, found.tenant, found.workspace)
            try:
                if found.finding is Finding.MISSING:
                    recovery.make(place)
                taken = self._taken(place, newer, own)
                done = recovery.bring_up(place, newer, taken)
                yield replace(found, done=done, inbox=len(taken) if done else 0)
            except (ConflictError, StorageError) as error:
                yield replace(found, problem=str(error))
        recovery.pass_numbers((one for one, _ in seen), (one for _, one in seen))

    def _taken(self, place: Place, newer: Newer, own: Path) -> tuple[int, ...]:
        """Return the ids of inbox rows whose notes this generation already contains."""
        rows = [*readable_notes(Inbox(self.connections.database).waiting(place.id))]
        if not rows:
            return ()
        root = own / place.handle
        try:
            Generations(self.connections.objects, place.prefix).bring_up(root, newer.generation.key)
            with notes_of(contained(root)) as notes:
                return tuple(row.id for row, note in rows if notes.has(note))
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def _judged(self) -> Iterator[_Judged]:
        """Yield a judgement of each workspace: those in the store, eight at once, then the registry's others."""
        rows, seen = Recovery(self.connections.database).rows(), set[int]()

        def judged(stored: tuple[str, dict[str, int]]) -> _Judged:
            return self._judge(*stored, rows.get(_numbers(stored[0])[1]))

        groups = self._stored()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while some := [*islice(groups, _AT_ONCE)]:
                for found, newer in pool.map(judged, some):
                    seen.add(_numbers(found.prefix)[1])
                    yield found, newer
        for row in rows.values():
            if row.place.id not in seen and not row.closed and row.generation.number:
                yield _as(row.place.prefix, row.place, Finding.LOST, row.generation.number, 0, _LOST)

    def _stored(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield the prefix of each workspace in the store, with its objects and their sizes."""

        def owner(one: StoredObject) -> str:
            tenant, _, rest = one.key.partition("/")
            workspace, slash, _ = rest.partition("/")
            return f"{tenant}/{workspace}" if slash and tenant.isdecimal() and workspace.isdecimal() else ""

        for name, group in groupby(self.connections.objects.list(""), key=owner):
            if name:
                yield name, {one.key: one.size for one in group}

    def _judge(self, prefix: str, sizes: dict[str, int], row: Row | None) -> _Judged:
        at = row.generation if row is not None else Generation()
        if row is not None and row.closed:
            return _as(prefix, row.place, Finding.CURRENT, at.number, 0)
        whole = self._newest_whole(prefix, sizes, at)
        number, (tenant, workspace) = whole.number if whole is not None else 0, _numbers(prefix)
        named = Place(workspace, tenant, whole.tenant, whole.workspace) if whole is not None else None
        place = row.place if row is not None else named
        if place is None:
            return _as(prefix, None, Finding.UNNAMED, 0, 0, "no generation says whose it is")
        if named not in (None, place) or place.tenant != tenant:
            what = f"the database has {place.tenant_name}/{place.name} under this number"
            return _as(prefix, named, Finding.FOREIGN, at.number, number, what)
        if whole is None:
            finding, problem = (Finding.LOST, _LOST) if at.number else (Finding.CURRENT, "")
            return _as(prefix, place, finding, at.number, 0, problem)
        if whole.key == at.key:
            return _as(prefix, place, Finding.CURRENT, at.number, number)
        problem, finding = "", Finding.MISSING
        if row is not None:
            finding = Finding.BEHIND if number > at.number else Finding.DAMAGED
            problem = self._objection(prefix, at, whole)
        found, _ = _as(prefix, place, finding, at.number, number, problem)
        newer = Newer(Generation(max(number, at.number), whole.key), whole.bytes, whole.at)
        return found, None if problem else newer

    def _objection(self, prefix: str, at: Generation, whole: Version) -> str:
        """Return why the row may not be set to this generation without `--older` or `--force`; empty if it may."""
        if whole.number <= at.number:
            asks = f"generation {at.number} is not whole; '--older' takes {whole.number}"
            return "" if self.older else asks
        if self.insistent or not at.key:
            return ""
        with suppress(StorageError):  # the row's generation was swept, as old ones are
            if Generations(self.connections.objects, prefix).version(at.key).at > whole.at:
                why = "it is older than the row's by its time"
                return f"{why}: processes went on after a restore, or clocks were apart; '--force' takes it"
        return ""

    def _newest_whole(self, prefix: str, sizes: dict[str, int], at: Generation) -> Version | None:
        """Return the newest generation with all its objects; among equal numbers the row's own, then the latest."""
        generations = Generations(self.connections.objects, prefix)
        keys = (key for key in sizes if made_by(key) and not key.rpartition("/")[2].startswith("."))
        for _, same in groupby(sorted(keys, reverse=True), key=made_by):
            whole = list[Version]()
            for key in same:
                with suppress(StorageError):
                    version = generations.version(key)
                    if all(sizes.get(name) == size for name, size in version.before):
                        whole.append(version)
            if whole:
                return max(whole, key=lambda one: (one.key == at.key, one.at))
        return None


def _numbers(prefix: str) -> tuple[int, int]:
    tenant, _, workspace = prefix.partition("/")
    return int(tenant), int(workspace)


def _as(prefix: str, place: Place | None, finding: Finding, row: int, store: int, problem: str = "") -> _Judged:
    names = (place.tenant_name, place.name) if place is not None else ("", "")
    return Found(prefix, *names, finding, row, store, problem=problem), None
