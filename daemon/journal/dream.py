"""Dream: everything known about one, from the ledger, its version and the crystals."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import unified_diff as _unified

from daemon.journal.story import Entry, entries_of
from daemon.workspace.stores import Store
from graphs.ports import Answer
from state.budget import Spend
from state.codec import decode
from state.document.operations import Refusal
from state.dream import Dream
from state.errors import NotFoundError, StorageError
from state.stores.database.tables import Run
from state.stores.history.ledger import KeptCall, Ledger, PaidStep
from state.stores.history.lineage import Lineage, Version

_BEGINNING = 120  # characters of a line


@dataclass(frozen=True, slots=True)
class DreamRun:
    """A run of the ledger, the version it made, and its cost; without a model, `model` is extractive.

    `about` are the beginnings of some lines that it wrote or evicted. Of a run that failed, `notes` is how many it
    had read, and `taken_at` when a later dream took them in; None: they are pending.
    """

    run: Run
    version: Version | None
    model: str
    spent: Spend
    seconds: float
    about: tuple[str, ...] = ()
    notes: int = 0
    taken_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call that was paid for, with prompt and answer as sent; both are empty after their retention."""

    at: datetime
    model: str
    tokens: int
    usd: float
    usable: bool
    request: tuple[Message, ...]
    reply: str


@dataclass(frozen=True, slots=True)
class DreamDetails:
    """One dream. Fields that are not known, or no longer, are empty.

    `proposals` are the numbers of its proposals that wait. `before` and `itself` are the versions that `restore` can
    bring back: the one before the dream, and its own. `more` counts what each list leaves out, by its name.
    """

    run: DreamRun
    steps: tuple[PaidStep, ...]
    changes: tuple[Entry, ...]
    refusals: tuple[Refusal, ...]
    diff: str
    calls: tuple[ModelCall, ...]
    proposals: tuple[int, ...]
    before: int | None
    itself: int | None
    more: dict[str, int]


def described(store: Store, runs: Iterable[Run]) -> tuple[DreamRun, ...]:
    """Return the runs with their versions and costs, and what they were about."""
    every = tuple(runs)
    numbers = [run.version for run in every if run.version is not None]
    versions, about = store.lineage.versions_by_number(numbers), store.lineage.topics(numbers)
    paid, failed = store.ledger.paid(run.id for run in every), store.ledger.failures(run.id for run in every)
    found = []
    for run in every:
        version, (model, spent) = versions.get(run.version or 0), paid.get(run.id, ("", None))
        lasted = (run.ended_at or run.started_at) - run.started_at
        seconds = 0.0 if run.outcome == "skipped" else max(0.0, lasted.total_seconds())
        if version is not None:
            spent = spent or Spend(version.calls, version.tokens, version.usd)
            model, seconds = version.model or model, version.seconds or seconds
        texts = about.get(version.number, ()) if version is not None else ()
        topics = tuple(store.shown(text)[:_BEGINNING] for text in texts)
        notes, taken_at = failed.get(run.id, (0, None))
        found.append(DreamRun(run, version, model, spent or Spend(), seconds, topics, notes, taken_at))
    return tuple(found)


def run_of_version(lineage: Lineage, ledger: Ledger, number: int) -> Run:
    """Return the run that made this version, reconstructed from the version if the ledger has none.

    Raise NotFoundError if there is no such version.
    """
    version = lineage.versions_by_number([number]).get(number)
    if version is None:
        raise NotFoundError(f"there is no version {number}", "'dreamd history' lists them")
    try:
        return replace(ledger.run(version.dream or "?"), version=number)
    except NotFoundError:
        at, reason = version.at, version.reason or version.cause
        return Run(id=version.dream, started_at=at, ended_at=at, reason=reason, outcome="committed", version=number)


def details(store: Store, run: Run, limit: int) -> DreamDetails:
    """Return everything known about this run, with at most `limit` entries in each list."""
    number = run.version if run.version is not None else store.lineage.version_of(run.id)
    record = store.memory.readable_version(number or 0)
    (shown,) = described(store, [replace(run, version=number)])
    changes = entries_of(store, record) if record else ()
    refused = (record.refused if record else ()) or tuple(store.ledger.rejections(run.id))
    proposals = tuple(one.number for one in store.proposals.of(run.id))
    calls = tuple(map(_call, store.ledger.calls(run.id, limit)))
    left = {
        "steps": store.ledger.count_steps(run.id) - limit,
        "changes": len(changes) - limit,
        "refusals": len(refused) - limit,
        "calls": shown.spent.calls - len(calls),
        "proposals": len(proposals) - limit,
    }
    return DreamDetails(
        run=shown,
        steps=tuple(store.ledger.steps(run.id, limit)),
        changes=changes[:limit],
        refusals=tuple(_refused(store.shown, one) for one in refused[:limit]),
        diff=_diff(store, record, number) if record else "",
        calls=calls,
        proposals=proposals[:limit],
        before=number - 1 if number is not None and store.lineage.text(number - 1) else None,
        itself=number if number is not None and store.lineage.text(number) else None,
        more={name: count for name, count in left.items() if count > 0},
    )


def _refused(shown: Callable[[str], str], refusal: Refusal) -> Refusal:
    one = refusal.operation
    one = replace(one, text=shown(one.text), keywords=shown(one.keywords)) if one else None
    return replace(refusal, figures=shown(refusal.figures), operation=one)


def unified_diff(before: str, after: str, old: str, new: str) -> str:
    """Return a unified diff of two texts of MEMORY.md, without a final line break."""
    sides = (before.splitlines(), after.splitlines())
    return "\n".join(_unified(*sides, f"MEMORY.md ({old})", f"MEMORY.md ({new})", lineterm=""))


def _diff(store: Store, record: Dream, number: int | None) -> str:
    """Return the diff of the dream, redacted, as text that the owner wrote by hand is not redacted on disk."""
    old = f"version {record.number - 1}" if record.number > 1 else "before dreamd"
    before, after = map(store.shown_memory, (record.before, record.after))
    diff = unified_diff(before, after, old, f"version {number}")
    return store.crystals.forgotten.tombstones().without(diff)


def _call(kept: KeptCall) -> ModelCall:
    """Return the call, without texts if they were erased or replaced."""
    request, reply = tuple[Message, ...](), ""
    with suppress(StorageError):
        request = decode(tuple[Message, ...], kept.request or "[]")
    with suppress(StorageError):
        reply = decode(Answer, kept.reply).text if kept.reply else ""
    return ModelCall(kept.at, kept.model, kept.tokens, kept.usd, kept.usable, request, reply)
