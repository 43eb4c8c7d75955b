"""Change: carries out what the owner wants of single lines, as one version; all of it or nothing."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from daemon.dream.lines.standing import shown
from daemon.dream.memory import WorkspaceMemory
from daemon.dream.snapshot import standing
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction, LineChange, change_lines
from state.changes.change import CurrentLine
from state.document.document import SectionName
from state.dream import EDIT, Decided, Decision, Dream
from state.errors import ConflictError, DreamdError, RejectedError
from state.text.words import normalise

_UNCHANGED = "nothing was changed; look at MEMORY.md as it is now"


@dataclass(frozen=True, slots=True)
class LineWish:
    """What a person wants of a line that is named by its id, or else by its section and its text as it was shown.

    `expected` is that text: what stands there now has to be the same.
    """

    action: LineAction
    line: str = ""
    section: SectionName | None = None
    expected: str = ""
    text: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """The version that carries the wishes out, and what each of them wrote, by its place."""

    dream: Dream
    texts: Mapping[int, str]


def change(store: Store, wishes: Sequence[LineWish], digest: str = "") -> Changed:
    """Carry out all of these wishes as one version. `digest`: of the file that the person saw; empty: of any.

    Raises ConflictError when a line, or the file, is not what the person saw, and RejectedError when a guard refuses
    one: the `fields` of its details name each wish by its place. Nothing is changed then.
    """
    if not store.lineage.last_version():
        raise ConflictError("no dream has read MEMORY.md yet", "change the file, or run 'dreamd dream' first")
    settle_document(store)
    content = store.disk.read_optional(store.workspace.document) or b""
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise ConflictError("MEMORY.md is not what it was when you looked at it", _UNCHANGED)
    done, now = _changed(store, wishes)
    return Changed(_committed(store, done.dream, now), done.texts)


def _changed(store: Store, wishes: Sequence[LineWish]) -> tuple[Changed, datetime]:
    """Return what comes of these wishes now, not committed yet. Raises ConflictError and RejectedError."""
    now = utc_now()
    read = standing(store, f"{now:%Y%m%dT%H%M%S%f}Z", now)
    done = change_lines(read, _meant(wishes, read.lines, lambda text: shown(store, text)[0]))
    if done.dream is None:
        fields = {f"changes.{place}": f"{one.guard}: {one.figures}" for place, one in sorted(done.refused.items())}
        raise _with_fields(RejectedError(_first(fields), _UNCHANGED), fields)
    return Changed(done.dream, done.texts), now


def _committed(store: Store, dream: Dream, now: datetime) -> Dream:
    left = {normalise(line.text) for line, _ in dream.left} - {normalise(line.text) for line in dream.came}
    dream = replace(dream, decided=corrected(store, left))
    store.ledger.begin(dream.id, f"{EDIT} by the owner", now)
    dream = WorkspaceMemory(store).commit(dream)
    store.ledger.end(dream.id, "committed", dream.reason, utc_now(), dream.number)
    return dream


def corrected(store: Store, left: Collection[str]) -> tuple[Decided, ...]:
    """Return the decisions on what waits for lines of these folded texts, which their owner has just corrected."""
    return tuple(
        one.decided(Decision.CORRECTED)
        for one in store.changes.open()
        if one.decision is Decision.WAITING and any(normalise(line.text) in left for line in one.change.lines)
    )


def _meant(
    wishes: Sequence[LineWish], lines: Sequence[CurrentLine], shown_of: Callable[[str], str]
) -> list[LineChange]:
    """Find the lines that the wishes are about. Raises ConflictError for lines that are not there so."""
    changes, fields = list[LineChange](), dict[str, str]()
    for place, wish in enumerate(wishes):
        line = None if wish.action is LineAction.ADD else _named(wish, lines, shown_of)
        if wish.action is LineAction.ADD and wish.section is not None:
            changes.append(LineChange(wish.action, wish.section, None, wish.text, wish.again))
        elif line is None:
            name = wish.line or "a line with that text in that section"
            fields[f"changes.{place}"] = f"{name} does not stand in MEMORY.md any more"
        elif wish.expected not in (line.text, shown_of(line.text)):
            fields[f"changes.{place}.expected"] = f"{line.id} says something else by now"
        else:
            changes.append(LineChange(wish.action, line.section, line, wish.text, wish.again))
    if fields:
        raise _with_fields(ConflictError(_first(fields), _UNCHANGED), fields)
    return changes


def _named(wish: LineWish, lines: Sequence[CurrentLine], shown_of: Callable[[str], str]) -> CurrentLine | None:
    if wish.line:
        return next((line for line in lines if line.id == wish.line), None)
    here = [line for line in lines if line.section is wish.section]
    return next((line for line in here if wish.expected in (line.text, shown_of(line.text))), None)


def _first(fields: Mapping[str, str]) -> str:
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    return f"{next(iter(fields.values()))}{more}"


def _with_fields(error: DreamdError, fields: Mapping[str, str]) -> DreamdError:
    error.details = {"fields": dict(fields)}
    return error
