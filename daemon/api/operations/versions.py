"""Operations on versions of MEMORY.md: history, diff and restore."""

from dataclasses import dataclass
from typing import Annotated

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.text import difference_text, restored_text, versions_text
from daemon.dream.restore import restore
from daemon.explain.dream import unified_diff
from daemon.workspace.stores import Store
from state.dream import Dream
from state.errors import NotFoundError, UsageError
from state.stores.history.lineage import Version


@dataclass(frozen=True, slots=True)
class Versions:
    """Committed versions, the newest first."""

    versions: tuple[Version, ...]


@operation("history", reads=True, text=versions_text)
def history(
    access: WorkspaceAccess,
    limit: Annotated[int, Arg("At most so many, the newest first", ge=1, le=100_000)] = 20,
) -> Versions:
    """Return the committed versions of MEMORY.md, the newest first."""
    with access.read() as store:
        return Versions(tuple(store.lineage.versions(limit)))


@dataclass(frozen=True, slots=True)
class Difference:
    """A unified diff, empty when there is none; `old` and `new` name what was compared."""

    old: str
    new: str
    diff: str


@operation("diff", reads=True, text=difference_text)
def diff(
    access: WorkspaceAccess,
    old: Annotated[int | None, Arg("A version; 0: what stood before dreamd", ge=0, le=10**9)] = None,
    new: Annotated[int | None, Arg("A version; else the last", ge=1, le=10**9)] = None,
    file: Annotated[bool, Arg("Between the last version and the file as it is")] = False,
) -> Difference:
    """Return what changed between two versions of MEMORY.md, as a unified diff."""
    if file and (old is not None or new is not None):
        raise UsageError("the file is compared with the last version", "name no version beside it")
    if old is not None and new is None:
        raise UsageError(f"version {old} is compared with which one? name 'new' too")
    with access.read() as store:
        last = store.lineage.last_version()
        if not last:
            raise NotFoundError("there is no version yet", "'dreamd dream' makes the first")
        if file:
            content = store.disk.read_optional(store.workspace.document) or b""
            before = _named(store, store.lineage.standing()[0])
            after = ("as it is", content.decode(errors="replace"))
        else:
            number = last if new is None else new
            after = _named(store, number)
            before = _named(store, number - 1 if old is None else old)
    return Difference(before[0], after[0], unified_diff(before[1], after[1], before[0], after[0]))


def _named(store: Store, number: int) -> tuple[str, str]:
    """Return the name and the text of a version; 0: what stood before dreamd."""
    if number == 0:
        return "before dreamd", store.memory.text(0)
    return f"version {number}", store.memory.text(number)


@dataclass(frozen=True, slots=True)
class RestoredVersion:
    """The restore, as the dream that it is; of the notes `pending` again, at most a thousand are counted."""

    dream: Dream
    pending: int


@operation("restore", long=True, text=restored_text)
def restore_version(
    access: WorkspaceAccess,
    version: Annotated[int, Arg("Its number", ge=1, le=10**9)],
) -> RestoredVersion:
    """Bring back an earlier version of MEMORY.md as a new version; what was consumed since is pending again."""
    with access.exclusive() as store:
        store.memory.text(version)  # a version that there is none of changes nothing
        dream = restore(store, version)
        for problem in dream.problems:
            store.notice(problem)
        done = RestoredVersion(dream, store.notes.count().notes)
    access.mark_changed()
    return done
