"""Dream run: one dream from its input to its commit, with its outcome in the ledger."""

import gc
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from daemon.config.settings import Config
from daemon.dream.agreements import propose_agreements
from daemon.dream.answers import settle_answers
from daemon.dream.checkpoints import checkpoints, drop, saved, thread
from daemon.dream.consolidation import new_input
from daemon.dream.memory import DryMemory, Upto, WorkspaceMemory
from daemon.dream.model import Hide, model_for, reveal
from daemon.dream.progress import Step, StepRecord, answered, evicted, gathered
from daemon.dream.proposals import drop_stale
from daemon.ingest.notes import BATCH, absorb_notes
from daemon.ingest.seed import migrate
from daemon.ingest.transcripts import absorb_configured
from daemon.sessions import hand_over, maintain
from daemon.workspace.document import settle_document
from daemon.workspace.retention import copy_if_due, sweep
from daemon.workspace.searching import embed_waiting
from daemon.workspace.stores import Store, utc_now
from graphs import talk
from graphs.checks import FORGOTTEN
from graphs.dream import Dreamer, Ended, graph_of, has_news
from graphs.input_budget import capped
from graphs.ports import Ports
from graphs.suspects import Suspects, shown
from state.codec import decode, encode
from state.document.operations import Refusal
from state.dream import Dream, Kind, Reason, Snapshot
from state.errors import DreamdError, FencedError, NothingToDoError, RejectedError, StoppedError, StorageError
from state.stores.database.meta import Meta
from state.stores.database.moments import from_text
from state.stores.database.tables import Run
from state.stores.history.ledger import Ledger
from state.stores.history.memory import SESSION_ENDED
from state.text.words import counted

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver


# For these reasons one new note is enough: a person asked, or `daemon.engine.schedule` applied its own thresholds.
_IMPATIENT = {Reason.MANUAL, Reason.SESSION_END, Reason.FLOOR, Reason.PRESSURE, Reason.FIRST_BREATH}


MODEL_GONE = "was begun with a model and ends without one: model.name is no longer set"


class Mode(StrEnum):
    """Whether a dream is committed or only shown."""

    AUTO = "auto"
    DRY = "dry"


@dataclass(frozen=True, slots=True)
class _Begun:
    """A dream in progress. `saved`: the last checkpoint, if the dream was interrupted and is resumed.

    `problem`: why it ends without the model with which it was begun.
    """

    id: str
    reason: Reason
    at: datetime
    mode: Mode
    saved: Mapping[str, Any] | None = None
    hide: Hide = reveal
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a dream ended.

    `pending`: how many notes are left for the next dream; `more`: there are others, which were not counted.
    `proposals`: how many wait for the owner's yes, including those of earlier dreams.
    """

    dream: Dream
    mode: Mode
    refused: tuple[Refusal, ...]
    resumed: bool
    pending: int
    more: bool = False
    proposals: int = 0


def dream_now(
    store: Store,
    reason: Reason,
    mode: Mode,
    on_step: Callable[[Step], None] = lambda _: None,
    hide: Hide = reveal,
) -> Outcome:
    """Resume an interrupted dream, or run a new one.

    Raise NothingToDoError if there is too little new input (the ledger records it), RejectedError if the guards
    refused the dream, and any error of the model or the disk. After each of these every note is still pending. `hide`
    returns what is raised and recorded in place of a model's error.
    """
    now = utc_now()
    dream = f"{now:%Y%m%dT%H%M%S%f}Z"
    steps = StepRecord(store.ledger, dream, on_step, utc_now)
    if mode is not Mode.DRY and (outcome := _go_on(store, mode, steps, hide)) is not None:
        return outcome
    if mode is not Mode.DRY:
        _ingest(store, now, steps)
        _require_input(store, dream, reason, now)
        store.ledger.begin(dream, reason.value, now)
    elif not new_input(store):
        raise NothingToDoError("there is nothing new since the last dream", "add a note with 'dreamd note'")
    _keep_what_is_loaded()
    outcome = _narrowing(store, _Begun(dream, reason, now, mode, hide=hide), on_step, steps)
    if mode is not Mode.DRY:
        copy_if_due(store, utc_now(), timedelta(hours=store.config.retention.copies_hours))
    return outcome


def _narrowing(store: Store, begun: _Begun, on_step: Callable[[Step], None], steps: StepRecord) -> Outcome:
    """Run a dream; if it narrows suspects down and is refused, run the next one, until one is committed."""
    if begun.mode is Mode.DRY:
        return _run(store, begun, on_step)
    while True:
        is_narrowing = _suspects(store.ledger).are_narrowed
        try:
            return _run(store, begun, steps)
        except RejectedError:
            if not is_narrowing:
                raise
        now = utc_now()
        begun = replace(begun, id=f"{now:%Y%m%dT%H%M%S%f}Z", at=now)
        store.ledger.begin(begun.id, begun.reason.value, now)
        steps.dream = begun.id


def _ingest(store: Store, now: datetime, on_step: Callable[[Step], None]) -> None:
    """Take in everything new: the owner's edits, transcripts, notes and session items; then clean up."""
    settle_document(store)
    migrate(store, now)
    if dropped := drop_stale(store, now):
        on_step(Step("review", f"{counted(dropped, 'proposal')} dropped: not answered in time, or outdated"))
    propose_agreements(store, now)
    absorbed = absorb_configured(store, now, lambda line: on_step(Step("ingest", line)))
    for problem in absorbed.problems:
        store.notices.add(problem)
    notes = absorb_notes(store, now, most=BATCH)  # a dream takes no more than the oldest of a long log
    items = maintain(store, now).promoted + hand_over(store, now)
    sweep(store, now)
    if notes or absorbed.turns:
        on_step(Step("absorb", f"{counted(notes, 'new note')}, {counted(absorbed.turns, 'new turn')}"))
    if items:
        on_step(Step("sessions", f"{counted(items, 'item')} from working memory"))
    if vectors := embed_waiting(store):
        on_step(Step("embed", counted(vectors, "new vector")))


@cache
def _keep_what_is_loaded() -> None:
    """Exempt modules and the embedding model from garbage collection, which saves a tenth of a second."""
    gc.freeze()


def _require_input(store: Store, dream: str, reason: Reason, now: datetime) -> None:
    new = new_input(store)
    wanted = 1 if reason in _IMPATIENT else store.config.dream.min_chunks
    if new >= wanted:
        return
    detail = f"{new} new, {wanted} wanted"
    store.ledger.skip(dream, reason.value, detail, now)
    if new == 0:
        _settle_session(store.meta, now)
        raise NothingToDoError("there is nothing new since the last dream", "add a note with 'dreamd note'")
    raise NothingToDoError(f"only {detail} (dream.min_chunks)", "'dreamd dream' by hand needs one")


def _settle_session(meta: Meta, upto: datetime) -> None:
    """Forget that a dream is due for the end of a session, unless that came after this moment."""
    if (ended := meta.get(SESSION_ENDED)) is not None and from_text(ended) <= upto:
        meta.remove(SESSION_ENDED)


def _go_on(store: Store, mode: Mode, steps: StepRecord, hide: Hide) -> Outcome | None:
    """Finish an interrupted commit, then resume an interrupted dream; return None if there is none to resume."""
    store.memory.recover()  # in a store that stays open, the last commit may have failed half way
    # There can be two: a dream that was killed, and a restore that was killed after it.
    while (unfinished := store.ledger.unfinished()) is not None:
        if (outcome := _resume(store, unfinished, mode, steps, hide)) is not None:
            return outcome
    return None


def _resume(store: Store, run: Run, mode: Mode, steps: StepRecord, hide: Hide) -> Outcome | None:
    """Resume a dream that was killed; return None if it was committed, or killed before its first checkpoint."""
    version = store.lineage.version_of(run.id)
    if version is not None:
        store.ledger.end(run.id, "committed", "finished after an interruption", utc_now(), version)
        store.notices.add(f"the interrupted dream {run.id} had committed version {version}")
        drop(store)
        return None
    if (last := saved(store, run.id)) is None:
        store.ledger.end(run.id, "failed", "interrupted before it had said anything", utc_now())
        drop(store)
        return None
    steps.dream = run.id
    begun = _Begun(run.id, Reason(run.reason), run.started_at, mode, last, hide)
    if store.config.model.name is None:
        begun = replace(begun, saved=None, problem=MODEL_GONE)
    steps(Step("resume", f"dream {run.id} was interrupted; it {begun.problem or 'goes on'}"))
    return _run(store, begun, steps)


def _run(store: Store, begun: _Begun, on_step: Callable[[Step], None]) -> Outcome:
    dream, is_dry = begun.id, begun.mode is Mode.DRY
    try:
        begun, snapshot, ended = _dreamt(store, begun, on_step)
    except (FencedError, StoppedError, sqlite3.OperationalError):
        # The run stays open, and the next dream resumes it: another process took over, the daemon is stopping, or
        # state.db was full or busy.
        raise
    except Exception as error:
        # If the version is committed, the next dream finishes the rest and ends this run.
        if not is_dry and store.lineage.version_of(dream) is None:
            code = error.code if isinstance(error, DreamdError) else type(error).__name__
            store.ledger.end(dream, "failed", f"{code}: {error}", utc_now())
            settle_answers(store, dream)
            drop(store)
        if begun.saved and not isinstance(error, DreamdError):  # damaged checkpoints may raise anything
            raise StorageError(
                f"the interrupted dream {dream} cannot go on ({type(error).__name__}: {error}) and is given up",
                "nothing was consumed, run 'dreamd dream' again",
            ) from error
        raise
    try:
        return _conclude(store, begun, snapshot, ended)
    finally:
        if not is_dry:
            settle_answers(store, dream)
            drop(store)


def _dreamt(store: Store, begun: _Begun, on_step: Callable[[Step], None]) -> tuple[_Begun, Snapshot, Ended]:
    """Run the dream; return what it read and how it ended.

    Without a model, or without new input, there is no conversation and LangGraph is not used. A resumed dream begins
    anew, and is returned as not resumed, if what it had read is no longer what is there.
    """
    dream, mode = begun.id, begun.mode
    model = model_for(store.config, store.ledger, dream, begun.hide)
    window = model.context_window if model else None
    memory = (DryMemory if mode is Mode.DRY else WorkspaceMemory)(store, window)
    upto, told = None, list[talk.Message]()
    if begun.saved is not None:
        upto, told = Upto(*begun.saved["upto"]), begun.saved["messages"][:2]
    suspects = _suspects(store.ledger) if model is not None else Suspects()
    snapshot = suspects.narrowed(capped(memory.read(dream, begun.reason, begun.at, upto), window))
    if upto is not None and (upto.next_line, told) != (snapshot.next_line, talk.opening(snapshot)):
        on_step(Step("resume", "what it has read is not what stands there now: it begins anew"))
        drop(store)
        begun = replace(begun, saved=None)
        snapshot = suspects.narrowed(capped(memory.read(dream, begun.reason, begun.at), window))
    on_step(gathered(snapshot))
    dreamer = Dreamer(Ports(memory, model, utc_now, store.config.model.on_failure), snapshot)
    if model is None or not has_news(snapshot):
        dreamer.ended = dreamer.without_model(begun.problem)
        if (made := dreamer.ended.dream) is not None:
            on_step(Step("synthesize", f"{counted(len(made.operations), 'operation')} by {made.author}"))
        _report_end(dreamer.ended, on_step)
        dreamer.commit()
    elif mode is Mode.DRY:
        _streamed(dreamer, None, begun, on_step)
    else:
        with checkpoints(store) as saver:
            _streamed(dreamer, saver, begun, on_step)
    assert dreamer.ended is not None
    if dreamer.ended.dream is not None and mode is not Mode.DRY:
        on_step(Step("commit", f"version {dreamer.ended.dream.number}"))
    return begun, dreamer.snapshot, dreamer.ended


def _streamed(dreamer: Dreamer, saver: "SqliteSaver | None", begun: _Begun, on_step: Callable[[Step], None]) -> None:
    """Run the nodes with LangGraph; report each result after its checkpoint is saved."""
    graph, its = graph_of(dreamer, saver), thread(begun.id)
    start: Any = None if begun.saved else {"messages": [], "usage": [], "failure": "", "unusable": "", "upto": []}
    durability: Any = {"durability": "sync"} if saver else {}
    messages = list(begun.saved["messages"]) if begun.saved else []
    for update in graph.stream(start, its, stream_mode="updates", **durability):
        for node, step in update.items():
            messages += step.get("messages", ()) if isinstance(step, dict) else ()
            if node == "synthesize":
                on_step(
                    Step(node, f"{len(messages[-1]['content']):,} characters" if step.get("messages") else "failed")
                )
            elif node == "guard":
                on_step(answered(node, talk.heard(dreamer.snapshot, messages)))
            elif node == "evict" and dreamer.ended is not None:
                _report_end(dreamer.ended, on_step)


def _report_end(ended: Ended, on_step: Callable[[Step], None]) -> None:
    on_step(evicted(ended.dream) if ended.dream is not None else Step("evict", f"refused: {ended.why}"))


def _count_refused(config: Config, ledger: Ledger, snapshot: Snapshot, dream: Dream | None) -> None:
    """Remember over which inputs a dream was refused, or which of them a model did not use.

    After three times without use a model is not asked about an input again.
    """
    if dream is None:
        failed = _suspects(ledger).after_failure(piece.key for piece in shown(snapshot))
        ledger.put_failed(encode(failed))
        return
    ledger.put_failed(encode(_suspects(ledger).after_commit(piece.key for piece in snapshot.evidence)))
    taken = {*dream.dreamt, *(one.crystal for one in dream.shown)}
    cited = {cite for one in dream.operations for cite in one.cites}
    again = {Kind.NOTE, Kind.GAP, Kind.OLD_TEXT}
    refused = {cite for one in dream.refused if one.operation for cite in one.operation.cites} - cited
    pieces = [
        piece
        for piece in snapshot.evidence
        if piece.id not in snapshot.unasked
        and piece.kind in again
        and (piece.crystal not in taken if piece.kind is Kind.NOTE else piece.id in refused)
    ]
    if pieces and config.model.name is not None:
        ledger.refuse(pieces)


def _suspects(ledger: Ledger) -> Suspects:
    return decode(Suspects, said) if (said := ledger.failed()) else Suspects()


def _not_asked(config: Config, snapshot: Snapshot) -> tuple[Refusal, ...]:
    if config.model.name is None:
        return ()
    failing = len(snapshot.failing)
    reasons = (
        (len(snapshot.unasked) - failing, "which left them out of three dreams"),
        (failing, "whose answers failed over them again and again"),
    )
    return tuple(
        Refusal("refused before", "inputs", f"{counted(count, 'input')} taken in without the model, {why}")
        for count, why in reasons
        if count
    )


def _conclude(store: Store, begun: _Begun, snapshot: Snapshot, ended: Ended) -> Outcome:
    dream, mode, record = begun.id, begun.mode, ended.dream
    if mode is not Mode.DRY:
        store.ledger.reject(dream, (*_not_asked(store.config, snapshot), *ended.refused), utc_now())
        _count_refused(store.config, store.ledger, snapshot, record)
    if record is None:
        if mode is not Mode.DRY:
            store.ledger.end(dream, "rejected", ended.why, utc_now())
        raise RejectedError(
            f"the dream was refused ({ended.why})",
            "MEMORY.md stands as it was and every note is pending",
            "'dreamd status' shows the figures",
        )
    if mode is not Mode.DRY:
        store.crystals.forgotten.count(sum(one.figures == FORGOTTEN for one in ended.refused))
        forgotten = store.crystals.forgotten.withheld_lately()
        detail = ended.why or ("it changed nothing" if record.changes_nothing else "")
        if forgotten:
            detail = f"{counted(forgotten, 'text')} withheld: forgotten"
        store.ledger.end(dream, "committed", detail, utc_now(), store.lineage.version_of(dream))
        _settle_session(store.meta, begun.at)
    pending = store.notes.count()
    proposals = store.proposals.count()
    return Outcome(record, mode, ended.refused, begun.saved is not None, pending.notes, pending.more, proposals)
