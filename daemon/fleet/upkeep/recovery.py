"""Recovery: the registry brought up to the object store, after PostgreSQL was lost or restored from an older backup.

Of each workspace the newest generation in the store that is whole counts: the one with the highest number, and of
those the one that was made last. It was committed, or its owner died before it could be: then it is the child of the
last one that was. What an inbox still has of it is not taken in again, as far as the log of the generation has it.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.fleet.connections import Connections
from state.errors import BusyError, ConflictError, StorageError
from state.fleet.workspace import Generation, Place
from state.stores.disk.workspace import contained
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.recovery import Newer, Recovery, Row
from state.stores.generations.generations import Generations
from state.stores.generations.manifests import made_by
from state.stores.history.notes import notes_of

if TYPE_CHECKING:
    from state.fleet.generation import Manifest
    from state.stores.generations.objects import Objects, StoredObject

_AT_ONCE = 8
_AHEAD = 64


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


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the store has under one prefix."""

    tenant: int
    workspace: int
    sizes: dict[str, int]

    @property
    def prefix(self) -> str:
        return f"{self.tenant}/{self.workspace}"

    @property
    def keys(self) -> list[str]:
        """The manifests, the newest first."""
        found = [
            key
            for key in self.sizes
            if key.startswith(f"{self.prefix}/generations/")
            and not key.rpartition("/")[2].startswith(".")
            and made_by(key)
        ]
        return sorted(found, reverse=True)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was found, and what the row may be brought up to."""

    found: Found
    place: Place | None = None
    newer: Newer | None = None
    manifest: "Manifest | None" = None


def require_stopped(connections: Connections) -> None:
    """Raise BusyError if a process of the fleet lives."""
    if living := Recovery(connections.database).living():
        what = "a process of the fleet lives" if living == 1 else f"{living} processes of the fleet live"
        raise BusyError(what, "stop workers and gateways first; they are dead 15 s after their last word")


def survey(connections: Connections, tenant: str) -> Iterator[Found]:
    """Yield how each workspace stands, changing nothing. `tenant`: only this one's, unless it is empty."""
    for judged in _judged(connections, tenant, _Judge(connections.objects, insistent=False, older=False)):
        yield judged.found


def recover(
    connections: Connections, tenant: str, own: Path, *, older: bool = False, insistent: bool = False
) -> Iterator[Found]:
    """Bring each row up to the store, make those that are missing, and yield what was done, one by one.

    `older`: where a row's generation is not whole, take the newest older one that is; the row's number stays. No
    number ever becomes lower. `insistent`: take a newer number whose time is older, as well. Raise UnreachableError;
    doing it again goes on.
    """
    recovery = Recovery(connections.database)
    seen = list[tuple[int, int]]()
    judge = _Judge(connections.objects, insistent=insistent, older=older)
    for judged in _judged(connections, tenant, judge):
        seen.append(_numbers(judged.found.prefix))
        yield _done(connections, recovery, judged, own)
    recovery.pass_numbers([one for one, _ in seen], [one for _, one in seen])


def _numbers(prefix: str) -> tuple[int, int]:
    tenant, _, workspace = prefix.partition("/")
    return int(tenant), int(workspace)


def _done(connections: Connections, recovery: Recovery, judged: _Judged, own: Path) -> Found:
    found, place, newer = judged.found, judged.place, judged.newer
    if place is None or newer is None or judged.manifest is None:
        return found
    try:
        if found.finding is Finding.MISSING:
            recovery.make(place, newer)
            return replace(found, done=True)
        taken = _taken(connections, place, judged.manifest, own)
        done = recovery.bring_up(place, replace(newer, taken=taken))
        return replace(found, done=done, inbox=len(taken) if done else 0)
    except (ConflictError, StorageError) as error:
        return replace(found, problem=str(error))


def _taken(connections: Connections, place: Place, manifest: "Manifest", own: Path) -> tuple[int, ...]:
    """Return the inbox rows whose notes are in this generation's log: they were taken in before."""
    rows = [row for row in Inbox(connections.database).waiting(place.id) if row.kind == "note"]
    if not rows:
        return ()
    root = own / place.handle
    try:
        Generations(connections.objects, place.prefix).bring_up(root, manifest)
        workspace = contained(root)
        with notes_of(workspace) as notes:
            return tuple(row.id for row in rows if notes.has(row.note()))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _judged(connections: Connections, tenant: str, judge: "_Judge") -> Iterator[_Judged]:
    """Yield each workspace of the registry or the store, judged; the store's first."""
    rows = Recovery(connections.database).rows()
    seen = set[int]()
    number = next((row.place.tenant for row in rows.values() if row.place.tenant_name == tenant), None)
    prefix = str(number) if tenant and number is not None else ""

    def judged_one(one: _Stored) -> _Judged:
        return judge(one, rows.get(one.workspace))

    for judged in _in_threads(judged_one, _stored(connections.objects, prefix)):
        seen.add(_numbers(judged.found.prefix)[1])
        if not tenant or judged.found.tenant == tenant:
            yield judged
    for row in rows.values():
        place = row.place
        if place.id in seen or row.closed or (tenant and place.tenant_name != tenant) or not row.generation.number:
            continue
        generation = row.generation.number
        yield _Judged(Found(place.prefix, place.tenant_name, place.name, Finding.LOST, generation, 0, problem=_LOST))


_LOST = "the object store has nothing of it; restore the bucket, or remove the workspace"


def _in_threads(judge: Callable[[_Stored], _Judged], stored: Iterable[_Stored]) -> Iterator[_Judged]:
    """Judge all in their order, some at once: each asks the store for a manifest."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        waiting = list[Future[_Judged]]()
        for one in stored:
            waiting.append(pool.submit(judge, one))
            if len(waiting) >= _AHEAD:
                yield waiting.pop(0).result()
        for last in waiting:
            yield last.result()


def _stored(objects: "Objects", prefix: str) -> Iterator[_Stored]:
    def owner(one: "StoredObject") -> tuple[int, int] | None:
        parts = one.key.split("/")
        if len(parts) > 2 and parts[0].isdecimal() and parts[1].isdecimal():
            return int(parts[0]), int(parts[1])
        return None

    for numbers, group in groupby(objects.list(prefix), key=owner):
        if numbers is not None:
            yield _Stored(*numbers, {one.key: one.size for one in group})


@dataclass(frozen=True, slots=True)
class _Judge:
    """What the store has of a workspace, against its row; `insistent`: also what looks like a fork."""

    objects: "Objects"
    insistent: bool
    older: bool

    def __call__(self, stored: _Stored, row: Row | None) -> _Judged:
        """Judge one."""
        at = row.generation if row is not None else Generation()
        if row is not None and row.closed:
            return _Judged(_found(stored, row.place, Finding.CURRENT, at.number, 0))
        whole = self._newest_whole(stored, at)
        number = whole[1].number if whole is not None else 0
        if row is not None and whole is not None and whole[0] == at.key and row.place.tenant == stored.tenant:
            return _Judged(_found(stored, row.place, Finding.CURRENT, at.number, number))
        named = None
        if whole is not None:
            named = Place(stored.workspace, stored.tenant, whole[1].tenant, whole[1].workspace)
        place = row.place if row is not None else named
        if place is None:
            return _Judged(_found(stored, None, Finding.UNNAMED, 0, number, "no generation says whose it is"))
        if named not in (None, place) or place.tenant != stored.tenant:
            what = f"the database has {place.tenant_name}/{place.name} under this number"
            return _Judged(_found(stored, named, Finding.FOREIGN, at.number, number, what))
        if whole is None:
            return _Judged(_found(stored, place, Finding.LOST if at.number else Finding.CURRENT, at.number, 0))
        return self._behind(stored, row, place, whole)

    def _behind(self, stored: _Stored, row: Row | None, place: Place, whole: "tuple[str, Manifest]") -> _Judged:
        """Judge a workspace whose row is not at the newest generation that is whole."""
        (key, manifest), at = whole, row.generation if row is not None else Generation()
        newer = Newer(
            Generation(max(manifest.number, at.number), key),
            manifest.bytes,
            manifest.at,
        )
        if row is None:
            return _Judged(_found(stored, place, Finding.MISSING, 0, manifest.number), place, newer, manifest)
        finding, problem = Finding.BEHIND, ""
        if manifest.number <= at.number:
            finding = Finding.DAMAGED
            if not self.older:
                problem = f"generation {at.number} is not whole; '--older' takes {manifest.number}"
        elif not self.insistent and self._is_fork(stored, at, manifest):
            problem = (
                "it is older than the row's by its time: workers went on after a restore, or clocks were apart; "
            )
            problem += "'--force' takes it"
        found = _found(stored, place, finding, at.number, manifest.number, problem)
        return _Judged(found) if problem else _Judged(found, place, newer, manifest)

    def _is_fork(self, stored: _Stored, at: Generation, manifest: "Manifest") -> bool:
        if not at.key:
            return False
        try:
            return Generations(self.objects, stored.prefix).manifest(at.key).at > manifest.at
        except StorageError:  # it was swept, as older ones are
            return False

    def _newest_whole(self, stored: _Stored, at: Generation) -> "tuple[str, Manifest] | None":
        """Return the newest generation with all its objects; of the row's number the row's own first."""
        generations = Generations(self.objects, stored.prefix)
        for _, keys in groupby(stored.keys, key=made_by):
            whole: list[tuple[str, Manifest]] = []
            for key in keys:
                with suppress(StorageError):
                    manifest = generations.manifest(key)
                    if all(stored.sizes.get(part.key) == part.size for part in manifest.parts):
                        whole.append((key, manifest))
            if whole:
                return max(whole, key=lambda one: (one[0] == at.key, one[1].at))
        return None


def _found(stored: _Stored, place: Place | None, finding: Finding, row: int, store: int, problem: str = "") -> Found:
    names = (place.tenant_name, place.name) if place is not None else ("", "")
    return Found(
        stored.prefix, *names, finding, row, store, problem=problem or (_LOST if finding is Finding.LOST else "")
    )
