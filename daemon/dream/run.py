"""Dream run: one dream from its input to its commit, and how it ended in the ledger."""

import gc
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from daemon.dream.answers import settle_answers
from daemon.dream.changes import settle
from daemon.dream.checkpoints import Reached, based_on, checkpoints, drop, reached, save, saver_of
from daemon.dream.consolidation import merge_duplicates
from daemon.dream.forgotten import unforget_written, withheld_lately
from daemon.dream.lines.agreements import propose_agreements
from daemon.dream.lines.brought_back import bring_back
from daemon.dream.memory import DryMemory, ProposingMemory, WorkspaceMemory
from daemon.dream.model import model_for
from daemon.dream.progress import Step, StepRecord, report_nodes
from daemon.dream.recall import recall_before, record_recall
from daemon.ingest.notes import BATCH, absorb_notes, blank_unread
from daemon.ingest.seed import migrate
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.sessions import hand_over, maintain
from daemon.workspace.document import settle_document
from daemon.workspace.stores import Store, utc_now
from graphs.dream import FIRST, build, walk
from graphs.graph_state import Dreaming
from graphs.ports import Ports
from state.codec import decode
from state.document.operations import Refusal
from state.dream import Dream, Kind, Reason, Snapshot
from state.errors import DreamdError, FencedError, NothingToDoError, RejectedError, StoppedError, StorageError
from state.stores.backup.archive import remove_unmoved
from state.stores.database.tables import Run
from state.stores.database.tombstones_copy import keep_copy
from state.stores.history.refused_inputs import RefusedInputs

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


# For these one new note is enough: somebody asked, or it was decided with thresholds of its own
# (`daemon.service.schedule`).
_IMPATIENT = {Reason.MANUAL, Reason.SESSION_END, Reason.FLOOR, Reason.PRESSURE, Reason.FIRST_BREATH}


# So many of the newest crystals are compared with the others before a dream; the rest waits for a pass.
COMPARED = 512


class Mode(StrEnum):
    """What becomes of a dream: committed, kept as a proposal, or only shown."""

    AUTO = "auto"
    PROPOSE = "propose"
    DRY = "dry"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a dream ended. `pending` notes wait for the next one; `more`: and others, which are not counted.

    `changes` wait for the owner, old ones too.
    """

    dream: Dream
    mode: Mode
    refused: tuple[Refusal, ...]
    resumed: bool
    pending: int
    more: bool = False
    changes: int = 0


def dream_now(store: Store, reason: Reason, mode: Mode, on_step: Callable[[Step], None] = lambda _: None) -> Outcome:
    """Go on with an interrupted dream, or run a new one.

    Raises NothingToDoError when there is too little that is new (the ledger says so), RejectedError when the guards
    refused it (nothing is consumed), and whatever the model or the disk failed with (likewise).
    """
    now, steps = utc_now(), StepRecord(store.steps, on_step, utc_now)
    if mode is not Mode.DRY and (outcome := _go_on(store, mode, steps)) is not None:
        return outcome
    dream = f"{now:%Y%m%dT%H%M%S%f}Z"
    if mode is not Mode.DRY:
        _ingest(store, now, steps)
        _require_input(store, dream, reason, now)
        store.ledger.begin(dream, reason.value, now)
        steps.begin(dream)
    elif not new_input(store):
        raise NothingToDoError("there is nothing new since the last dream", "add a note with 'dreamd note'")
    start: Dreaming = {"dream": dream, "reason": reason.value, "now": now.isoformat()}
    _keep_what_is_loaded()
    before = recall_before(store, now) if mode is Mode.AUTO else {}
    outcome = _run(store, dream, start, mode, on_step if mode is Mode.DRY else steps, resumed=False)
    record_recall(store, dream, before, utc_now())
    if mode is not Mode.DRY:
        store.copy_if_due(utc_now(), timedelta(hours=store.config.retention.copies_hours))
    return outcome


def _ingest(store: Store, now: datetime, on_step: Callable[[Step], None]) -> None:
    """Take in everything new before a dream: the owner's lines, transcripts, notes, sessions; then clean up."""
    settle_document(store)
    if lines := unforget_written(store):
        keep_copy(store.crystals.connection, store.disk, store.workspace.state)
        on_step(Step("forget", f"{lines} new lines of MEMORY.md hold what was forgotten: it is learnt again"))
    migrate(store, now)
    if settled := settle(store, now):
        on_step(Step("review", f"{settled} changes that nobody decided, or whose lines are gone, wait no longer"))
    if lines := bring_back(store):
        on_step(Step("notes", f"{lines} lines that a dream without a model had replaced are pending notes again"))
    propose_agreements(store, now)
    absorbed = absorb_transcripts(store, transcript_files(store), now, lambda line: on_step(Step("ingest", line)))
    store.unread = absorbed.problems
    store.notices += absorbed.problems
    notes = absorb_notes(store, now, most=BATCH)  # the oldest: a dream takes in no more of a long log
    items = maintain(store, now).delivered + hand_over(store, now)
    store.sweep(now)
    remove_unmoved(store.workspace, store.disk)
    if notes or absorbed.turns:
        on_step(Step("absorb", f"{notes} new notes, {absorbed.turns} new turns"))
    if items:
        on_step(Step("sessions", f"{items} items that left working memory"))
    if vectors := store.embed():
        on_step(Step("embed", f"{vectors} new vectors"))
    if merged := merge_duplicates(store, most=COMPARED)[1]:
        on_step(Step("compare", f"{merged} said before"))


@cache
def _keep_what_is_loaded() -> None:
    """Let no collection of garbage look at modules and the model, which stay: that takes a tenth of a second."""
    gc.freeze()


def new_input(store: Store) -> int:
    """How much is new: pending notes, and crystals since the last dream; before the first one, the old MEMORY.md too.

    A thousand of each are counted. What dreams have passed over is no news: it comes along with what is.
    """
    return unseen_seeds(store) + new_crystals(store) + store.notes.count().notes


def new_crystals(store: Store) -> int:
    """How many crystals are new since the last dream, beside the pending notes."""
    return store.crystals.undreamt_count()


def unseen_seeds(store: Store) -> int:
    """How many crystals of the old MEMORY.md are new: all of them before the first dream, then none."""
    return 0 if store.lineage.last_version() else len(store.crystals.unseen_seeds())


def _require_input(store: Store, dream: str, reason: Reason, now: datetime) -> None:
    blank_unread(store)  # what waits may be nothing but what is forgotten: then no dream comes to take it out
    if store.config.dream.mode == "propose" and (waiting := store.ledger.proposals()):
        store.ledger.skip(dream, reason.value, f"proposal {waiting[0].dream} waits", now)
        raise NothingToDoError(f"proposal {waiting[0].dream} waits", "decide it with 'dreamd review' first")
    new = new_input(store)
    wanted = 1 if reason in _IMPATIENT else store.config.dream.min_chunks
    if new >= wanted:
        return
    detail = f"{new} new, {wanted} wanted"
    store.ledger.skip(dream, reason.value, detail, now)
    if new == 0:
        raise NothingToDoError("there is nothing new since the last dream", "add a note with 'dreamd note'")
    raise NothingToDoError(f"only {detail} (dream.min_chunks)", "'dreamd dream' by hand needs one")


def _go_on(store: Store, mode: Mode, steps: StepRecord) -> Outcome | None:
    """Finish an interrupted commit, then go on with an interrupted dream; None when there is none to go on with."""
    store.memory.recover()  # a store that stays open: what its last dream had decided and failed to finish
    # A restore that was killed after a killed dream leaves two.
    while (unfinished := store.ledger.unfinished()) is not None:
        if (outcome := _resume(store, unfinished, mode, steps)) is not None:
            return outcome
    return None


def _resume(store: Store, run: Run, mode: Mode, steps: StepRecord) -> Outcome | None:
    """Go on with a dream that was killed; None when it had not begun, or can no longer be finished."""
    read = based_on(store, run.id)
    version = store.lineage.version_of(run.id)
    if version is not None:
        store.ledger.end(run.id, "committed", "finished after an interruption", utc_now(), version)
        store.notices.append(f"the interrupted dream {run.id} had committed version {version}")
        drop(store, run.id)
        return None
    if read is None or store.lineage.is_overtaken(read + 1):
        how = "before it had read anything" if read is None else "and overtaken by a newer version"
        store.ledger.end(run.id, "failed", f"interrupted {how}", utc_now())
        drop(store, run.id)
        return None
    steps.begin(run.id)
    steps(Step("resume", f"dream {run.id} was interrupted; it goes on"))
    return _run(store, run.id, None, mode, steps, resumed=True)


def _run(
    store: Store, dream: str, start: Dreaming | None, mode: Mode, on_step: Callable[[Step], None], *, resumed: bool
) -> Outcome:
    model = model_for(store, dream)
    kind = {Mode.DRY: DryMemory, Mode.PROPOSE: ProposingMemory, Mode.AUTO: WorkspaceMemory}[mode]
    ports = Ports(
        kind(store, model.context_window if model else None),
        model,
        utc_now,
        store.config.model.on_failure,
        store.config.limits.calls_per_dream > 1,
    )
    values: dict[str, Any] = {}
    try:
        updates = _walked(ports, start) if mode is Mode.DRY and start else _saved(store, dream, start, ports, values)
        for update in updates:
            report_nodes(update, values, mode.value, on_step)
    except (FencedError, StoppedError, sqlite3.OperationalError):
        # The next dream goes on with this run: it is the next owner's, the daemon's after its restart, or state.db
        # was full or busy.
        raise
    except Exception as error:
        # What is decided is finished by the next dream, which then ends this run.
        if mode is not Mode.DRY and not store.memory.is_committed(dream):
            code = error.code if isinstance(error, DreamdError) else type(error).__name__
            store.ledger.end(dream, "failed", f"{code}: {error}", utc_now())
            settle_answers(store, dream)
            drop(store, dream)
        if resumed and not isinstance(error, DreamdError):  # of damaged, or forged, checkpoints everything may come
            raise StorageError(
                f"the interrupted dream {dream} cannot go on ({type(error).__name__}: {error}) and is given up",
                "nothing was consumed, run 'dreamd dream' again",
            ) from error
        raise
    try:
        return _conclude(store, dream, values, mode, resumed=resumed)
    finally:
        if mode is not Mode.DRY:
            settle_answers(store, dream)
            drop(store, dream)


def _walked(
    ports: Ports, state: Dreaming, node: str = FIRST, save: Callable[[Dreaming, str], None] = lambda *_: None
) -> Iterator[dict[str, Any]]:
    for name, step, following in walk(ports, state, node):
        state = {**state, **step}
        save(state, following)
        yield {name: step}


def _saved(
    store: Store, dream: str, start: Dreaming | None, ports: Ports, values: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """What the nodes return, each once its checkpoint is saved; of a dream that goes on (no `start`), the rest.

    What it had come to goes into `values`. One without a model is walked: LangGraph would take longer to import.
    """
    with checkpoints(store, dream) as connection:
        known = reached(connection, dream) if start is None else None
        if known is None and start is not None and ports.model is None:
            known = Reached(start, FIRST)
        if known is not None:
            values |= known.values
            yield from _walked(ports, known.values, known.node, lambda *to: save(connection, dream, Reached(*to)))
            return
        config: RunnableConfig = {"configurable": {"thread_id": dream}}
        graph = build(ports, saver_of(connection))
        values |= graph.get_state(config).values if start is None else {}
        yield from graph.stream(start, config, stream_mode="updates", durability="sync")


def _count_refused(store: Store, values: dict[str, Any], refusals: Iterable[Refusal]) -> None:
    """Count over which inputs a model was refused: all that it was shown, when the whole dream was, or took none in.

    Else those that come again, though what it said of them was refused: notes and crystals are taken in.
    """
    snapshot = decode(Snapshot, values["snapshot"])
    pieces = [piece for piece in snapshot.evidence if piece.id not in snapshot.unasked]
    record = decode(Dream, values["record"]) if values.get("outcome") != "refused" else None
    if record is not None and record.dreamt:
        applied = {cite for one in record.operations for cite in one.cites}
        cited = {cite for one in refusals if one.operation for cite in one.operation.cites} - applied
        pieces = [piece for piece in pieces if piece.id in cited and piece.kind in {Kind.GAP, Kind.OLD_TEXT}]
    if pieces and store.config.model.name is not None:
        RefusedInputs(store.crystals.connection).count(pieces)


def _conclude(store: Store, dream: str, values: dict[str, Any], mode: Mode, *, resumed: bool) -> Outcome:
    refusals = tuple(decode(Refusal, one) for one in values.get("refusals", []))
    if mode is not Mode.DRY:
        store.ledger.reject(dream, refusals, utc_now())
    if mode is not Mode.DRY:
        _count_refused(store, values, refusals)
    if values.get("outcome") == "refused":
        reason = next((str(one) for one in values.get("feedback", [])), "a guard refused it")
        if mode is not Mode.DRY:
            store.ledger.end(dream, "rejected", reason, utc_now())
        raise RejectedError(
            f"the dream was refused ({reason})",
            "MEMORY.md stands as it was and every note is pending. 'dreamd status' shows the figures",
        )
    record = decode(Dream, values["record"])
    if mode is Mode.AUTO:
        detail = withheld_lately(store, refusals) or ("it changed nothing" if record.changes_nothing else "")
        store.ledger.end(dream, "committed", detail, utc_now(), record.number)
    elif mode is Mode.PROPOSE:
        store.ledger.end(dream, "proposed", "waits for 'dreamd review'", utc_now())
    pending = store.notes.count()
    changes = store.changes.counts().waiting
    return Outcome(record, mode, refusals, resumed, pending.notes, pending.more, changes)
