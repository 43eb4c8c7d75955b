"""Undo: every change of every version has a name ("12.3") and an inverse, which is a version of its own."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from daemon.dream.memory import WorkspaceMemory, commit_owners
from daemon.dream.snapshot import standing
from daemon.journal.restore import restore, taken_back
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import TakenBack, undo_changes
from state.changes.change import Change, CurrentLine
from state.document.document import parse
from state.dream import OWNERS, RESTORE
from state.errors import NotFoundError, UsageError

_NAME = re.compile(r"([1-9]\d{0,8})(?:\.([1-9]\d{0,5}))?")


@dataclass(frozen=True, slots=True)
class ChangesUndone:
    """The version that undid them; None if the lines of all of them have changed since (`outdated`)."""

    version: int | None
    undone: tuple[str, ...]
    outdated: tuple[str, ...]


def undo(store: Store, names: Sequence[str]) -> ChangesUndone:
    """Undo changes, or whole versions, as one version; changes whose lines have changed since stay.

    Of a whole version all that it did beside the lines is undone too. Raise NotFoundError for a version or a change
    that is unknown.
    """
    settle_document(store)
    latest = store.lineage.last_version()
    if list(names) == [str(latest)] and store.memory.version(latest).cause == RESTORE:
        # What was consumed before the restore is consumed again, too.
        return ChangesUndone(restore(store, latest - 1).number, (str(latest),), ())
    named = [one for said in names for one in _named(store, said)]
    changes = {name: change for name, change, _ in named}
    below = {line.id: texts for _, change, before in named for line, texts in _below(change, before)}
    beside = {said: back for said in names if said.isdecimal() and (back := _beside(store, int(said))) is not None}
    rested = store.lineage.evidence_of([line.id for change in changes.values() for line in change.gone])
    done = undo_changes(standing(store, utc_now()), changes, WorkspaceMemory(store), rested, below, beside)
    dream = commit_owners(store, done.dream, "by the owner") if done.dream is not None else None
    return ChangesUndone(dream.number if dream is not None else None, done.done, done.outdated)


def _beside(store: Store, number: int) -> TakenBack | None:
    """Return what undoing a version takes back beside its lines; None if nothing, or it was taken back since."""
    record, deleted = store.memory.version(number), store.lineage.tombstones()
    since = taken_back(store.memory.version(one) for one in store.lineage.versions_after(number))
    back = TakenBack(
        uncorrected=tuple(one for one in record.corrected if one not in since.corrected),
        corrected=tuple(one for one in record.uncorrected if one not in since.uncorrected),
        answers=tuple(
            one.inverse
            for one in record.answers
            if (kept := store.proposals.find(one.number)) is not None and kept.answer == one.now
        ),
        lifted=tuple(text for text in record.tombstones if text in deleted),
        unwanted=tuple(text for text in record.lifted_tombstones if text not in deleted),
        own=tuple(line.text for line in record.came) if record.cause in OWNERS else (),
    )
    return back if back != TakenBack() else None


def _named(store: Store, said: str) -> list[tuple[str, Change, str]]:
    """Return the changes of this name with the text before them, the last first: later ones may rest on earlier."""
    if (match := _NAME.fullmatch(said)) is None:
        raise UsageError(f"{said!r:.40} names no change", "name it like 12.3, or a whole version like 12")
    number, place = int(match[1]), int(match[2] or 0)
    record = store.memory.version(number)
    changes = record.changes
    has_more = any((record.answers, record.tombstones, record.corrected, record.uncorrected))
    if place > len(changes) or not (changes or has_more):
        what = f"version {number} has no change {place}" if place else f"version {number} changed no line"
        raise NotFoundError(what, f"'dreamd changes {number}' lists them")
    if not all(line.id for change in changes for line in (*change.gone, *change.come)):
        what = f"what version {number} changed is not known one by one: something of it was forgotten since"
        raise NotFoundError(what, f"'dreamd restore {number - 1}' goes back before it")
    chosen = [(at, change) for at, change in enumerate(changes, 1) if place in (0, at)]
    return [(f"{number}.{at}", change, record.before) for at, change in reversed(chosen)]


def _below(change: Change, before: str) -> Iterator[tuple[CurrentLine, list[str]]]:
    """Yield each line that left with the texts that stood below it in its section."""
    for line in change.gone:
        part = parse(before).section(line.section)
        texts = [block.text for block in part.lines] if part else []
        if line.text in texts:
            yield line, texts[texts.index(line.text) + 1 :]
