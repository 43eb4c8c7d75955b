"""Recovery: what PostgreSQL lacks after it was lost or restored, and what the store lacks after it was damaged.

Whoever opens a workspace reads its newest generation from the store, so a row that is behind needs nothing. Left are
workspaces without a row, which are made with their names and numbers, and those whose newest generation is damaged.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, islice

from daemon.fleet.connections import Connections
from state.errors import BusyError, ConflictError, StorageError
from state.fleet import Place
from state.stores.fleet.leases import processes
from state.stores.fleet.recovery import Recovery, Row
from state.stores.generations.generations import Generations
from state.stores.generations.objects import StoredObject
from state.stores.generations.versions import Version, key_of, made_by

_AT_ONCE = 8
_LOST = "the object store has nothing of it; restore the bucket, or remove the workspace"


class Finding(StrEnum):
    """How a workspace's row in the registry compares with the store."""

    CURRENT = "current"
    """The store's newest generation is complete, and at least as new as the row says."""
    MISSING = "missing"
    """There is no row: it is made, with its tenant if need be."""
    DAMAGED = "damaged"
    """The newest generation is missing or incomplete in the store; an older one is complete."""
    LOST = "lost"
    """The row names a generation, but the store has no complete one."""
    UNNAMED = "unnamed"
    """Neither a row nor a generation says whose workspace it is."""
    FOREIGN = "foreign"
    """The row and the generation in the store name different workspaces."""


@dataclass(frozen=True, slots=True)
class Found:
    """One workspace: the row's generation (0: no row, or never committed), and the store's newest complete one.

    `done`: the row was made, or set to the older generation.
    """

    prefix: str
    tenant: str
    workspace: str
    finding: Finding
    row: int
    store: int
    done: bool = False
    problem: str = ""


def require_stopped(connections: Connections) -> None:
    """Raise BusyError if a process of the fleet is alive."""
    if living := sum(one.alive for one in processes(connections.database)):
        what = "a process of the fleet lives" if living == 1 else f"{living} processes of the fleet live"
        raise BusyError(what, "stop them first; they are dead 15 s after their last word")


@dataclass(frozen=True, slots=True)
class Survey:
    """A comparison of the registry with the store.

    `older`: if the newest generation of a workspace is incomplete, go back to the newest complete one.
    """

    connections: Connections
    older: bool = False

    def found(self) -> Iterator[Found]:
        """Yield the finding for each workspace without changing anything: those in the store, then the others."""
        rows, seen = Recovery(self.connections.database).rows(), set[int]()

        def judged(stored: tuple[str, dict[str, int]]) -> Found:
            return self._judge(*stored, rows.get(_numbers(stored[0])[1]))

        groups = self._stored()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while some := [*islice(groups, _AT_ONCE)]:
                for found in pool.map(judged, some):
                    seen.add(_numbers(found.prefix)[1])
                    yield found
        for row in rows.values():
            if row.place.id not in seen and not row.closed and row.generation:
                yield _found(row.place.prefix, row.place, Finding.LOST, row.generation, 0, _LOST)

    def recover(self) -> Iterator[Found]:
        """Make missing rows, go back where that is asked for, and yield each result.

        Raise UnreachableError; a further call resumes.
        """
        recovery, seen = Recovery(self.connections.database), list[tuple[int, int]]()
        for found in self.found():
            tenant, workspace = numbers = _numbers(found.prefix)
            seen.append(numbers)
            if found.problem or found.finding is Finding.CURRENT:
                yield found
                continue
            try:
                if found.finding is Finding.MISSING:
                    recovery.make(Place(workspace, tenant, found.tenant, found.workspace), found.store)
                else:
                    self._go_back(found.prefix, found.store)
                    recovery.go_back(workspace, found.store)
                yield replace(found, done=True)
            except (ConflictError, StorageError) as error:
                yield replace(found, problem=str(error))
        recovery.pass_numbers((one for one, _ in seen), (one for _, one in seen))

    def _go_back(self, prefix: str, number: int) -> None:
        """Delete the incomplete generations above this one."""
        objects = self.connections.objects
        numbers = Generations(objects, prefix).numbers()
        objects.delete([key_of(prefix, one) for one in numbers if one > number])

    def _stored(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield the prefix of each workspace in the store, with its objects and their sizes."""

        def owner(one: StoredObject) -> str:
            tenant, _, rest = one.key.partition("/")
            workspace, slash, _ = rest.partition("/")
            return f"{tenant}/{workspace}" if slash and tenant.isdecimal() and workspace.isdecimal() else ""

        for name, group in groupby(self.connections.objects.list(""), key=owner):
            if name:
                yield name, {one.key: one.size for one in group}

    def _judge(self, prefix: str, sizes: dict[str, int], row: Row | None) -> Found:
        at = row.generation if row is not None else 0
        if row is not None and row.closed:
            return _found(prefix, row.place, Finding.CURRENT, at, 0)
        numbers = {
            made: size for key, size in sizes.items() if (made := made_by(key)) and key == key_of(prefix, made)
        }
        whole = _newest_whole(Generations(self.connections.objects, prefix), numbers)
        number, (tenant, workspace) = whole.number if whole is not None else 0, _numbers(prefix)
        named = Place(workspace, tenant, whole.tenant, whole.workspace) if whole is not None else None
        place = row.place if row is not None else named
        if place is None:
            return _found(prefix, None, Finding.UNNAMED, 0, 0, "no generation says whose it is")
        if named not in (None, place) or place.tenant != tenant:
            what = f"the database has {place.tenant_name}/{place.name} under this number"
            return _found(prefix, named, Finding.FOREIGN, at, number, what)
        if whole is None:
            return _found(prefix, place, Finding.LOST, at, 0, _LOST)
        if (newest := max(*numbers, at)) > number:
            asks = f"generation {newest} is not whole; '--older' goes back to {number}"
            return _found(prefix, place, Finding.DAMAGED, at, number, "" if self.older else asks)
        return _found(prefix, place, Finding.MISSING if row is None else Finding.CURRENT, at, number)


def _newest_whole(generations: Generations, numbers: dict[int, int]) -> Version | None:
    """Return the newest generation with all its objects."""
    for number in sorted(numbers, reverse=True):
        with suppress(StorageError):
            version = generations.version(number)
            if all(numbers.get(one.number) == one.size for one in version.before):
                return version
    return None


def _numbers(prefix: str) -> tuple[int, int]:
    tenant, _, workspace = prefix.partition("/")
    return int(tenant), int(workspace)


def _found(prefix: str, place: Place | None, finding: Finding, row: int, store: int, problem: str = "") -> Found:
    names = (place.tenant_name, place.name) if place is not None else ("", "")
    return Found(prefix, *names, finding, row, store, problem=problem)
