"""Undo: every change of every version has a name ("12.3") and an inverse, which is a version of its own."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from daemon.dream.memory import WorkspaceMemory, commit_owners
from daemon.dream.snapshot import standing
from daemon.workspace.document import read_document, settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import Undone, inverse_of, undo_changes
from state.changes.change import Change
from state.changes.owner import lines_in
from state.changes.page import Page
from state.document.merge import working
from state.document.sections import SectionName
from state.dream import Dream
from state.errors import NotFoundError, StorageError, UsageError
from state.stores.history.lineage import Version

_NAME = re.compile(r"([1-9]\d{0,8})(?:\.([1-9]\d{0,5}))?")


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A change of a version. `undoable`: its lines are what it left behind, so that it can be undone."""

    name: str
    version: Version
    change: Change
    undoable: bool


def latest_changes(store: Store, limit: int, version: int | None = None) -> list[VersionChange]:
    """Return the changes of this version, or the latest of any, newest first."""
    text, _ = read_document(store.workspace, store.connection)
    page = Page("", lines_in(working(text), store.lineage.current_lines()), 1)
    numbers = [version] if version is not None else store.lineage.versions_after(0)[::-1]
    return [
        VersionChange(f"{one.number}.{place}", one, change, inverse_of(change, page) is not None)
        for one, place, change in islice(_each(store, numbers), limit)
    ]


def _each(store: Store, numbers: Sequence[int]) -> Iterator[tuple[Version, int, Change]]:
    for number in numbers:
        (one,) = store.lineage.versions_by_number([number]).values() or (None,)
        try:
            changes = store.memory.version(number).changes if one else ()
        except (NotFoundError, StorageError):  # 'dreamd doctor' reports it
            continue
        for place, change in reversed(list(enumerate(changes, 1))):
            if one and any(line.section is not SectionName.POINTERS for line in (*change.gone, *change.come)):
                yield one, place, change


def undo(store: Store, names: Sequence[str]) -> Undone:
    """Undo changes, or all changes of versions, as one version; those whose lines have changed since stay.

    Raise NotFoundError for a version or a change that is unknown.
    """
    settle_document(store)
    changes = {name: change for said in names for name, change in _named(store, said)}
    rested = [line.id for change in changes.values() for line in change.gone]
    now = utc_now()
    snapshot = standing(store, f"{now:%Y%m%dT%H%M%S%f}Z", now)
    done = undo_changes(snapshot, changes, WorkspaceMemory(store), store.lineage.evidence_of(rested))
    if done.dream is None:
        return done
    return Undone(_committed(store, done.dream, now), done.done, done.outdated)


def _committed(store: Store, dream: Dream, _: datetime) -> Dream:
    return commit_owners(store, dream, f"undo of {dream.reason}", "by the owner")


def _named(store: Store, said: str) -> list[tuple[str, Change]]:
    """Return the changes of this name, the last first: the later ones may rest on the earlier."""
    if (match := _NAME.fullmatch(said)) is None:
        raise UsageError(f"{said!r:.40} names no change", "name it like 12.3, or a whole version like 12")
    number, place = int(match[1]), int(match[2] or 0)
    changes = store.memory.version(number).changes
    if not changes or place > len(changes):
        what = f"version {number} has no change {place}" if place else f"version {number} changed no line"
        raise NotFoundError(what, f"'dreamd history {number}' lists its changes")
    chosen = [(at, change) for at, change in enumerate(changes, 1) if place in (0, at)]
    return [(f"{number}.{at}", change) for at, change in reversed(chosen)]
