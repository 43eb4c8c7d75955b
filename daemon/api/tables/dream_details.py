"""Dream details: all that is known of one dream, from the ledger, its version and the crystals."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from daemon.api.operations.versions import unified_diff
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store
from graphs.ports import Answer
from state.codec import decode
from state.document.operations import Operation, Refusal
from state.dream import Dream, decode_record
from state.errors import NotFoundError, StorageError
from state.stores.database.tables import Run
from state.stores.history.ledger import KeptCall
from state.stores.history.lineage import Version
from state.stores.history.steps import PaidStep
from state.text.words import normalise
from state.trust import Trust

_COMMITTED, _SKIPPED = "committed", "skipped"
_DREAM = "dream"  # as the cause of a version
_HEADS = ("--- MEMORY.md", "+++ MEMORY.md", "@@")
Listed = TypeVar("Listed")


@dataclass(frozen=True, slots=True)
class DreamRun:
    """A run of the ledger: why it ran, how it ended, what it cost, and what the version that it made changed.

    A run of skips for the same reason is one, `times` over. `model` is extractive where there was none; dollars are 0
    where the price is not known.
    """

    id: str
    started_at: datetime
    ended_at: datetime | None
    reason: str
    outcome: str
    detail: str
    version: int | None
    times: int
    model: str
    calls: int
    tokens: int
    usd: float
    seconds: float
    added: int
    revised: int
    evicted: int
    notes: int
    characters: int


@dataclass(frozen=True, slots=True)
class Cited:
    """A crystal that an operation rests on; without a text when it is gone. `speaker` is empty when not known."""

    crystal: str
    text: str
    trust: str
    speaker: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class AppliedOperation:
    """An operation that applied: the `old` lines became `new`; for an eviction, that is the topic of the pointer."""

    action: str
    section: str
    old: tuple[str, ...]
    new: str
    cites: tuple[Cited, ...]


@dataclass(frozen=True, slots=True)
class RefusedOperation:
    """What a guard refused, and why. Of a whole section or dream, action, section and text are empty."""

    guard: str
    scope: str
    figures: str
    action: str = ""
    section: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call that was paid for, with the prompt as it was sent; both texts are empty once they are too old."""

    at: datetime
    model: str
    tokens: int
    usd: float
    usable: bool
    request: tuple[Message, ...]
    reply: str


@dataclass(frozen=True, slots=True)
class DreamDetails:
    """One dream. What is not known of it (any more) is empty.

    `changes` are the numbers of those that it staged. `before` and `itself` are the versions that `restore` can bring
    back: the one before the dream, and its own. `more` counts what was left out, by the name of the list.
    """

    run: DreamRun
    steps: tuple[PaidStep, ...]
    operations: tuple[AppliedOperation, ...]
    refusals: tuple[RefusedOperation, ...]
    diff: str
    calls: tuple[ModelCall, ...]
    changes: tuple[int, ...]
    before: int | None
    itself: int | None
    more: dict[str, int]


def described(store: Store, runs: Iterable[Run]) -> tuple[DreamRun, ...]:
    """Return the runs with what they cost and changed."""
    every = tuple(runs)
    versions = store.lineage.versions_by_number(run.version for run in every if run.version is not None)
    paid = store.ledger.paid(run.id for run in every)
    described = []
    for run in every:
        version = versions.get(run.version or 0)
        model, spent = paid.get(run.id, ("", None))
        described.append(
            DreamRun(
                id=run.id,
                started_at=run.started_at,
                ended_at=run.ended_at,
                reason=run.reason,
                outcome=run.outcome,
                detail=run.detail,
                version=run.version,
                times=run.times,
                model=(version.model if version else "") or model,
                calls=spent.calls if spent else version.calls if version else 0,
                tokens=spent.tokens if spent else version.tokens if version else 0,
                usd=spent.usd if spent else version.usd if version else 0.0,
                seconds=_seconds(run, version),
                added=version.added if version else 0,
                revised=version.revised if version else 0,
                evicted=version.evicted if version else 0,
                notes=version.notes if version else 0,
                characters=version.characters if version else 0,
            )
        )
    return tuple(described)


def _seconds(run: Run, version: Version | None) -> float:
    if version is not None and version.seconds:
        return version.seconds
    if run.ended_at is None or run.outcome == _SKIPPED:
        return 0.0
    return max(0.0, (run.ended_at - run.started_at).total_seconds())


def run_of_version(store: Store, number: int) -> Run:
    """Return the run that made this version, put together from the version if the ledger has none.

    Raise NotFoundError if there is no such version.
    """
    version = store.lineage.versions_by_number([number]).get(number)
    if version is None:
        raise NotFoundError(f"there is no version {number}", "'dreamd history' lists them")
    try:
        return replace(store.ledger.run(version.dream or "?"), version=number)
    except NotFoundError:
        return Run(
            id=version.dream,
            started_at=version.at,
            ended_at=version.at,
            reason=version.reason or version.cause,
            outcome=_COMMITTED,
            version=number,
        )


def details(store: Store, run: Run, limit: int) -> DreamDetails:
    """Return all that is known of this run, at most `limit` of each list."""
    number = run.version if run.version is not None else store.lineage.version_of(run.id)
    record = _record(store, run.id, number)
    more: dict[str, int] = {}

    def first(name: str, every: Iterable[Listed]) -> tuple[Listed, ...]:
        listed = tuple(every)
        if len(listed) > limit:
            more[name] = len(listed) - limit
        return listed[:limit]

    steps = tuple(store.steps.of(run.id, limit))
    if (count := store.steps.count(run.id)) > len(steps):
        more["steps"] = count - len(steps)
    refused = (record.refused if record else ()) or tuple(store.ledger.rejections(run.id))
    (described_run,) = described(store, [replace(run, version=number)])
    calls = tuple(_call(one) for one in store.ledger.calls(run.id, limit))
    if described_run.calls > len(calls):
        more["calls"] = described_run.calls - len(calls)
    return DreamDetails(
        run=described_run,
        steps=steps,
        operations=_applied(store, record, first("operations", record.operations)) if record else (),
        refusals=tuple(_refused(store, one) for one in first("refusals", refused)),
        diff=_diff(store, record, number) if record else "",
        calls=calls,
        changes=first("changes", (one.number for one in store.changes.of(run.id))),
        before=number - 1 if number is not None and store.memory.has(number - 1) else None,
        itself=number if number is not None and store.memory.has(number) else None,
        more=more,
    )


def _record(store: Store, dream: str, number: int | None) -> Dream | None:
    """Return the dream as its version or its proposal has it; None if neither can be read any more."""
    try:
        if number is not None:
            return store.memory.version(number)
        proposed = store.ledger.proposed(dream)
        return decode_record(proposed, f"proposal {dream}") if proposed is not None else None
    except (NotFoundError, StorageError):
        return None


def _applied(store: Store, record: Dream, operations: Iterable[Operation]) -> tuple[AppliedOperation, ...]:
    """Return the operations with the texts of their old lines and of the crystals that their lines rest on."""
    every = tuple(operations)
    evidence = {
        (line.section, normalise(line.text)): change.evidence for change in record.changes for line in change.come
    }
    evidence |= {
        (one.operation.section, normalise(one.operation.text)): tuple(
            dict.fromkeys(piece.crystal for piece in one.evidence if piece.crystal)
        )
        for one in record.staged
    }
    rests = [evidence.get((one.section, normalise(one.text)), ()) for one in every]
    known = _cited(store, {crystal for crystals in rests for crystal in crystals})
    old = {line.id: line.text for line, _ in record.left}
    clean = _clean(store, record)

    def shown(text: str) -> str:
        return text if text in clean else redacted(store, text)

    return tuple(
        AppliedOperation(
            action=one.action.value,
            section=one.section.value,
            old=tuple(shown(text) for line in one.lines if (text := _line(store, line, old))),
            new=shown(one.text),
            cites=tuple(known[crystal] for crystal in crystals),
        )
        for one, crystals in zip(every, rests, strict=True)
    )


def _line(store: Store, line: str, old: Mapping[str, str]) -> str:
    """Return the text of an old line, which left in this dream; in a proposal it has not left."""
    if line in old:
        return old[line]
    life = store.lineage.life(line)
    return life.text if life else ""


def _cited(store: Store, ids: Iterable[str]) -> dict[str, Cited]:
    """Return these crystals by id; those that are gone have no text."""
    wanted = set(ids)
    cited = {one: Cited(one, "", "", "", None) for one in wanted}
    for crystal in store.crystals.get(wanted):
        cited[crystal.id] = Cited(crystal.id, crystal.text, crystal.trust.value, crystal.speaker, crystal.created_at)
    return cited


def _refused(store: Store, refusal: Refusal) -> RefusedOperation:
    operation = refusal.operation
    plain = RefusedOperation(refusal.guard, refusal.scope, redacted(store, refusal.figures))
    if operation is None:
        return plain
    text = redacted(store, operation.text)
    return replace(plain, action=operation.action.value, section=operation.section.value, text=text)


def _diff(store: Store, record: Dream, number: int | None) -> str:
    old = f"version {record.number - 1}" if record.number > 1 else "before dreamd"
    new = "proposed" if number is None else f"version {number}"
    rows = unified_diff(record.before, record.after, old, new).splitlines()
    clean = _clean(store, record)
    # In runs of lines, since a key has several.
    runs = groupby(rows, lambda row: row.startswith(_HEADS) or row[1:].removeprefix("- ") in clean)
    shown = [text if is_clean else redacted(store, text) for is_clean, run in runs if (text := "\n".join(run))]
    return "\n".join(shown)


def _clean(store: Store, record: Dream) -> frozenset[str]:
    """Return the lines that certainly hold no secret: dreams wrote them from inputs that were redacted before.

    What the owner may have written is not among them. Redacting these once more would take most of the time.
    """
    if record.cause != _DREAM:
        return frozenset()
    lives = (store.lineage.life(line.id) for line, _ in record.left)
    gone = {life.text for life in lives if life is not None and life.trust is not Trust.OWNER}
    born = {line.text for line in record.came if line.trust is not Trust.OWNER}
    return frozenset(gone | born | {operation.text for operation in record.operations})


def _call(kept: KeptCall) -> ModelCall:
    return ModelCall(
        kept.at, kept.model, kept.tokens, kept.usd, kept.usable, _messages(kept.request), _reply(kept.reply)
    )


def _messages(request: str) -> tuple[Message, ...]:
    """Return the messages as they were kept; none if something else was put there."""
    try:
        return tuple(Message(str(one["role"]), str(one["content"])) for one in json.loads(request or "[]"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()


def _reply(reply: str) -> str:
    try:
        return decode(Answer, reply).text if reply else ""
    except StorageError:
        return ""
