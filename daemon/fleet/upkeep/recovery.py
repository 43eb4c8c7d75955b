"""Recovery: the registry brought up to the object store, after PostgreSQL was lost or restored from an older backup.

Of each workspace the newest generation in the store that is whole counts: the one with the highest number, and of
those the one that was made last. It was committed, or its holder died before it could be: then it is the child of the
last one that was. What an inbox still has of it is not taken in again, as far as the notes of the generation have it.
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
    """How the registry and the store stand to each other."""

    CURRENT = "current"
    BEHIND = "behind"
    """The store has a newer generation: the row is brought up to it."""
    MISSING = "missing"
    """There is no row: it is made, with its tenant if need be."""
    DAMAGED = "damaged"
    """The row's generation is not whole in the store; an older one may be."""
    LOST = "lost"
    """The row has a generation, and the store nothing that is whole."""
    UNNAMED = "unnamed"
    """Neither a row nor a generation says whose it is."""
    FOREIGN = "foreign"
    """The row is of another name than the generation in the store."""


@dataclass(frozen=True, slots=True)
class Found:
    """One workspace: the row's generation (0: no row, or never committed), and the newest whole one of the store.

    `done`: what was to be done about it was done; `inbox`: so many rows are in the generation already.
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


# What was found, and what the row may be brought up to.
_Judged = tuple[Found, Newer | None]


def require_stopped(connections: Connections) -> None:
    """Raise BusyError if a process of the fleet lives."""
    if living := sum(one.alive for one in processes(connections.database)):
        what = "a process of the fleet lives" if living == 1 else f"{living} processes of the fleet live"
        raise BusyError(what, "stop them first; they are dead 15 s after their last word")


@dataclass(frozen=True, slots=True)
class Survey:
    """The registry against the store.

    `older`: where a row's generation is not whole, take the newest older one that is; the row's number stays. No
    number ever becomes lower. `insistent`: take a newer number whose time is older, as well.
    """

    connections: Connections
    older: bool = False
    insistent: bool = False

    def found(self) -> Iterator[Found]:
        """Yield how each workspace stands, changing nothing."""
        return (found for found, _ in self._judged())

    def recover(self, own: Path) -> Iterator[Found]:
        """Bring each row up to the store, make those that are missing, and yield what was done, one by one.

        `own`: an empty folder of ours. Raise UnreachableError; doing it again goes on.
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
        """Return the inbox rows whose notes this generation has: they were taken in before."""
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
        """Yield each workspace of the registry or the store, judged; the store's first, some at once."""
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
        """Return why the row is not brought up to this generation unless somebody insists."""
        if whole.number <= at.number:
            asks = f"generation {at.number} is not whole; '--older' takes {whole.number}"
            return "" if self.older else asks
        if self.insistent or not at.key:
            return ""
        with suppress(StorageError):  # it was swept, as older ones are
            if Generations(self.connections.objects, prefix).version(at.key).at > whole.at:
                why = "it is older than the row's by its time"
                return f"{why}: processes went on after a restore, or clocks were apart; '--force' takes it"
        return ""

    def _newest_whole(self, prefix: str, sizes: dict[str, int], at: Generation) -> Version | None:
        """Return the newest generation with all its objects; of the row's number the row's own first."""
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
