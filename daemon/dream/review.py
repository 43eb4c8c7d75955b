"""Review: carries out the owner's decisions on staged changes and edits of single lines, as one version each.

Edits of lines are all or nothing. Staged changes that nobody decided in time are settled.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from daemon.dream.memory import WorkspaceMemory, commit_owners
from daemon.dream.snapshot import standing
from daemon.dream.standing import shown
from daemon.ingest.notes import absorb_notes, note_crystal
from daemon.workspace.document import read_document, settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.review import CONFLICT, Carried, Wish, carry_out, change_lines, is_outdated, stands
from state.changes.change import CurrentLine
from state.changes.owner import lines_in
from state.document.merge import working
from state.document.operations import Action, Refusal
from state.dream import EDIT, Decided, Decision, Dream, Snapshot
from state.errors import ConflictError, DreamdError, NotFoundError, RejectedError, UsageError
from state.scratch import Note
from state.stores.database.connection import transaction
from state.stores.database.tables import Change
from state.stores.history.changes import Changes
from state.text.words import normalise

# The decisions that a change may get, by its state.
DECISIONS: Mapping[Decision, tuple[Decision, ...]] = {
    Decision.WAITING: (Decision.APPROVED, Decision.DECLINED),
    Decision.APPLIED: (Decision.ACCEPTED, Decision.UNDONE),
}
# The state of a change after it is reopened. An approved change is taken back by a restore instead.
REOPENED: Mapping[Decision, Decision] = {
    Decision.DECLINED: Decision.WAITING,
    Decision.ACCEPTED: Decision.APPLIED,
}
_WORDS = {
    Decision.APPROVED: "approve", Decision.DECLINED: "decline", Decision.ACCEPTED: "accept", Decision.UNDONE: "undo",
}  # fmt: skip
_UNCHANGED = "nothing was changed; look at MEMORY.md as it is now"


@dataclass(frozen=True, slots=True)
class RefusedChange:
    """A change that the owner approved and a guard refused; it still needs a decision."""

    number: int
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the owner's decisions, by the number of each change. `dream` is the version that they made.

    `outdated`: changes whose lines have changed since.
    """

    dream: Dream | None
    decided: Mapping[int, Decision]
    outdated: tuple[int, ...]
    refused: tuple[RefusedChange, ...]


def decide_changes(
    store: Store, decisions: Mapping[int, Decision], texts: Mapping[int, str], reopen: Collection[int] = ()
) -> Settled:
    """Carry out the owner's decisions; everything approved or undone becomes one version.

    `texts` replaces the text of approved changes. Changes in `reopen` were declined or accepted, and become open
    again. All or nothing: raise NotFoundError for a number that is unknown or not open, UsageError for a decision or
    text that the change cannot have, and ConflictError if the lines of a change to reopen have changed.
    """
    settle_document(store)
    again = _to_reopen(store, reopen)
    changes = {number: Changes(store.connection).get(number) for number in decisions}
    for number, change in changes.items():
        _require_possible(change, decisions[number], texts.get(number))
    now = utc_now()
    carried = _carried(store, changes, decisions, texts, now)
    done = {number: decisions[number] for number in carried.done}
    refused = tuple(RefusedChange(number, refusal) for number, refusal in carried.refused.items())
    at_once = {number: one for number, one in decisions.items() if one in {Decision.DECLINED, Decision.ACCEPTED}}
    with transaction(store.connection):
        store.memory.check()
        for number, decision in {**at_once, **again}.items():
            Changes(store.connection).decide(number, decision, now)
    _let_go(store, [changes[number] for number in carried.outdated], Decision.OUTDATED, now)
    return Settled(carried.dream, {**done, **at_once, **again}, carried.outdated, refused)


def _to_reopen(store: Store, numbers: Collection[int]) -> dict[int, Decision]:
    """Return the new state of each change to reopen."""
    again = dict[int, Decision]()
    lines = _lines(store) if numbers else ()
    for number in numbers:
        change = Changes(store.connection).any(number)
        if change.decision not in REOPENED:
            raise UsageError(
                f"change {number} is {change.decision.value}", "only what was declined or accepted is reopened"
            )
        if _is_over(change, lines):
            raise ConflictError(f"change {number} cannot wait again: its lines are no longer what they were")
        again[number] = REOPENED[change.decision]
    return again


def open_changes(store: Store) -> list[tuple[Change, bool]]:
    """Return the open changes (waiting, or applied), each with whether it is outdated."""
    waiting = Changes(store.connection).open()
    lines = _lines(store) if waiting else ()
    return [(one, _is_over(one, lines)) for one in waiting]


def _is_over(change: Change, lines: Sequence[CurrentLine]) -> bool:
    return change.is_erased or is_outdated(change.change, lines)


def settle(store: Store, now: datetime) -> int:
    """Close changes that waited too long or whose lines are gone; return how many.

    New information in a closed change becomes a note again, dated when it was said, unless the owner changed its
    lines.
    """
    waiting = Changes(store.connection).open()
    if not waiting:
        return 0
    lines = _lines(store)
    oldest = now - timedelta(days=store.config.dream.approve_days)
    outdated = [one for one in waiting if _is_over(one, lines)]
    expired = [one for one in waiting if one not in outdated and one.at <= oldest]
    committed = store.lineage.current_lines()
    for one in outdated:
        is_mine = any(stands(line, committed) and not stands(line, lines) for line in one.change.lines)
        _let_go(store, [one], Decision.CORRECTED if is_mine else Decision.OUTDATED, now)
    _let_go(store, expired, Decision.EXPIRED, now)
    return len(outdated) + len(expired)


def _require_possible(change: Change, decision: Decision, text: str | None) -> None:
    """Raise UsageError unless the change may get this decision and text."""
    possible = DECISIONS[change.decision]
    if decision not in possible:
        how = "waits" if change.decision is Decision.WAITING else "has applied"
        raise UsageError(
            f"change {change.number} {how}, so you cannot {_WORDS[decision]} it",
            f"{' or '.join(_WORDS[one] for one in possible)} it",
        )
    if text is None:
        return
    if decision is not Decision.APPROVED or change.change.operation.action is Action.EVICT:
        raise UsageError(f"change {change.number} takes no text of yours", "only what is to be written does")
    if not text.strip() or "\n" in text or "\r" in text:
        raise UsageError(f"the text of change {change.number} is no line", "write it in one line")


def _carried(
    store: Store,
    changes: Mapping[int, Change],
    decisions: Mapping[int, Decision],
    texts: Mapping[int, str],
    now: datetime,
) -> Carried:
    """Carry out what is approved or undone, as one version."""
    approved = {
        number: (changes[number].change, texts.get(number, ""))
        for number, decision in decisions.items()
        if decision is Decision.APPROVED
    }
    undone = {number: changes[number].change for number, one in decisions.items() if one is Decision.UNDONE}
    if not approved and not undone:
        return Carried(None, {})
    rested = [line.id for staged in undone.values() for line in staged.lines]
    carried = carry_out(
        _read(store, now), approved, undone, WorkspaceMemory(store), store.lineage.evidence_of(rested)
    )
    if carried.dream is None:
        return carried
    unwanted = [undone[number].operation for number in carried.done if number in undone]
    decided = [changes[number].decided(decisions[number]) for number in carried.done]
    left = {normalise(one.text) for one in unwanted if one.action is not Action.EVICT}
    reason = f"{carried.dream.cause} of {carried.dream.reason}"
    return replace(carried, dream=_committed(store, carried.dream, decided, left, reason, "by the owner"))


def _let_go(store: Store, changes: Sequence[Change], decision: Decision, now: datetime) -> None:
    """Close these changes; write a note for each waiting one that says something no line says."""
    if not changes:
        return
    standing = {normalise(line.text) for line in _lines(store)}
    pending = {note.text for note in store.notes.each_pending()}
    for one in changes:
        # An agreement is in the other workspaces' files: it is not news in this one.
        note = _as_note(one) if one.decision is Decision.WAITING and not one.is_agreement else None
        if note is None or decision is Decision.CORRECTED or normalise(note.text) in standing:
            Changes(store.connection).decide(one.number, decision, now)
            continue
        # In this order, a kill in between leaves a pending note, which is not written a second time.
        if note.text not in pending:
            store.notes.say_again(note, store.config.redaction)
        absorb_notes(store, now, most=None)
        digest = note_crystal(store.connection, store.config, note, now).digest
        Changes(store.connection).decide(one.number, decision, now, store.crystals.ids_of([digest]).get(digest, ""))


def _as_note(change: Change) -> Note | None:
    """Return the change as a note, dated when it was said; None if it says nothing new or was forgotten."""
    operation, evidence = change.change.operation, change.change.evidence
    is_tidying = bool(change.change.lines) and not evidence
    if operation.action is Action.EVICT or is_tidying or change.is_erased:
        return None
    said = max((piece.at for piece in evidence), default=change.at)
    return Note(operation.text, said, max((piece.importance for piece in evidence), default=0.5))


def _lines(store: Store) -> tuple[CurrentLine, ...]:
    """Return the lines of MEMORY.md as its owner left it."""
    text, _ = read_document(store.workspace, store.connection)
    return lines_in(working(text), store.lineage.current_lines())


# ------------------------------------------------------------------------------ single lines


def change(store: Store, wishes: Sequence[Wish], digest: str = "") -> tuple[Dream, Mapping[int, str]]:
    """Carry out these edits of lines as one version; return it, and the text that each edit wrote, by its place.

    `digest` is that of the file the person saw (empty: not checked). All or nothing: raise ConflictError if a line or
    the file has changed since, and RejectedError if a guard refuses an edit; the error's `fields` name each edit by
    its place.
    """
    if not store.lineage.last_version():
        raise ConflictError("no dream has read MEMORY.md yet", "change the file, or run 'dreamd dream' first")
    unknown = {one for wish in wishes for one in wish.also}.difference(
        store.crystals.keys(one for wish in wishes for one in wish.also)
    )
    if unknown:
        raise NotFoundError(f"there is no crystal {min(unknown)}", "'dreamd why' lists what a line rests on")
    settle_document(store)
    content = store.memory.disk.read_optional(store.workspace.document) or b""
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise ConflictError("MEMORY.md is not what it was when you looked at it", _UNCHANGED)
    done = change_lines(_read(store, utc_now()), wishes, lambda text: shown(store, text)[0])
    if done.dream is None:
        raise _refused(done)
    left = {normalise(line.text) for line, _ in done.dream.left}
    left -= {normalise(line.text) for line in done.dream.came}
    return _committed(store, done.dream, (), left, f"{EDIT} by the owner", done.dream.reason), done.texts


def _refused(done: Carried) -> DreamdError:
    """Return the error that lists why edits were refused; conflicts take precedence over guards."""
    conflicts = {place: one for place, one in done.refused.items() if one.guard == CONFLICT}
    fields = {
        f"changes.{place}{'.expected' if one.scope == 'expected' else ''}": one.figures
        if conflicts
        else f"{one.guard}: {one.figures}"
        for place, one in sorted((conflicts or done.refused).items())
    }
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    kind = ConflictError if conflicts else RejectedError
    error = kind(f"{next(iter(fields.values()))}{more}", _UNCHANGED)
    error.details = {"fields": fields}
    return error


def _read(store: Store, now: datetime) -> Snapshot:
    return standing(store, f"{now:%Y%m%dT%H%M%S%f}Z", now)


def _committed(
    store: Store, dream: Dream, decided: Sequence[Decided], left: Collection[str], reason: str, detail: str
) -> Dream:
    """Commit a version by the owner, and mark waiting changes of the lines in `left` (folded texts) as corrected.

    Raise ConflictError if the owner saved MEMORY.md at the same instant and its lines have changed.
    """
    corrected = [
        one.decided(Decision.CORRECTED)
        for one in Changes(store.connection).open()
        if one.decision is Decision.WAITING and any(normalise(line.text) in left for line in one.change.lines)
    ]
    return commit_owners(store, replace(dream, decided=(*decided, *corrected)), reason, detail)
