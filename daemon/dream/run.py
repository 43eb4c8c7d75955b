"""One dream from beginning to end: is it worth its cost, run it, and write down how it ended."""

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from daemon.config.paths import spent_folder
from daemon.config.settings import day_start
from daemon.dream.checkpoints import based_on, checkpoints, drop
from daemon.dream.memory import DryMemory, ProposingMemory, WorkspaceMemory
from daemon.dream.progress import Step, tell
from daemon.dream.withholding import forget_answers, lift_by_hand, withheld_lately
from daemon.ingest.notes import absorb_notes, forget_notes
from daemon.ingest.seed import migrate
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.sessions import hand_over, maintain
from daemon.workspace.stores import Store, utc_now
from graphs.graph_state import Dreaming
from graphs.ports import Answer, Model, Ports
from state.budget import Limits, Spend, check_day
from state.codec import decode, encode
from state.document.operations import Refusal
from state.dream import Dream, Reason, decode_record
from state.errors import DreamdError, FencedError, NothingToDoError, RejectedError, StoppedError, StorageError
from state.secrets.policy import Redaction
from state.stores.backup.manifest import remove_unmoved
from state.stores.database.tombstones_copy import keep_copy
from state.stores.history.daily_spend import daily_spend
from state.stores.history.ledger import Call, Run

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from daemon.models.metered import Call as PaidCall

# For these one new note is enough: somebody asked, or it was decided with thresholds of its own
# (`daemon.service.schedule`).
_IMPATIENT = {Reason.MANUAL, Reason.SESSION_END, Reason.FLOOR, Reason.PRESSURE, Reason.FIRST_BREATH}


# Of a proposal that its owner did not want: the dream itself did not fail.
DECLINED = "by the owner"


class Mode(StrEnum):
    """What becomes of a dream."""

    AUTO = "auto"
    PROPOSE = "propose"
    DRY = "dry"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a dream ended. `pending` notes came while it ran."""

    dream: Dream
    mode: Mode
    refused: tuple[Refusal, ...]
    resumed: bool
    pending: int


def dream_now(store: Store, reason: Reason, mode: Mode, told: Callable[[Step], None] = lambda _: None) -> Outcome:
    """One dream now.

    Raises NothingToDoError when there is too little that is new (the ledger says so), RejectedError when the guards
    refused it (nothing is consumed), and whatever the model or the disk failed with (likewise).
    """
    now = utc_now()
    if mode is not Mode.DRY and (outcome := _gone_on(store, mode, told)) is not None:
        return outcome
    dream = f"{now:%Y%m%dT%H%M%S%f}Z"
    if mode is not Mode.DRY:
        if lifted := lift_by_hand(store):
            keep_copy(store.crystals.connection, store.disk, store.workspace.state)
            told(Step("forget", f"{lifted} new lines of MEMORY.md hold what was forgotten: it is learnt again"))
        migrate(store, now)
        found = absorb_transcripts(store, transcript_files(store), now, lambda line: told(Step("ingest", line)))
        store.unread = found.problems
        for problem in found.problems:
            store.notices.append(problem)
        notes = absorb_notes(store, now)
        left = maintain(store, now).delivered + hand_over(store, now)
        store.segments.sweep(now)
        store.sweep(now)
        remove_unmoved(store.workspace, store.disk)
        if notes or found.turns:
            told(Step("absorb", f"{notes} new notes, {found.turns} new turns"))
        if left:
            told(Step("sessions", f"{left} items that left working memory"))
        if vectors := store.embed():
            told(Step("embed", f"{vectors} new vectors"))
        store.index()  # built here, if it has to be: a search does not wait for that
        _require_input(store, dream, reason, now)
        store.ledger.begin(dream, reason.value, now)
    elif not new_input(store):
        raise NothingToDoError("there is nothing new since the last dream", "add a note with 'dreamd note'")
    start: Dreaming = {"dream": dream, "reason": reason.value, "now": now.isoformat()}
    return _run(store, dream, start, mode, told, resumed=False)


def approve(store: Store, dream: str) -> Dream:
    """Commit a waiting proposal.

    Raises RejectedError when MEMORY.md has a newer version than the one it was made for.
    """
    proposal = store.ledger.proposal(dream)
    record = decode_record(proposal.record, f"proposal {proposal.dream}")
    # Decided before a crash: the commit was finished since, or is now.
    if not store.journal.decided(record.id) and record.number != store.lineage.last_version() + 1:
        store.ledger.decide(record.id, "outdated")
        store.ledger.end(record.id, "rejected", "outdated: there is a newer version", utc_now())
        raise RejectedError(
            f"proposal {record.id} was made for version {record.number - 1} and there is a newer one",
            "its notes are pending, run 'dreamd dream'",
        )
    done = WorkspaceMemory(store).commit(record)
    store.ledger.decide(record.id, "approved")
    store.ledger.end(record.id, "committed", "approved", utc_now(), done.number)
    return done


def decline(store: Store, dream: str) -> str:
    """Reject a waiting proposal; its notes stay pending. Returns its id."""
    proposal = store.ledger.proposal(dream)
    store.ledger.decide(proposal.dream, "rejected")
    store.ledger.end(proposal.dream, "rejected", DECLINED, utc_now())
    return proposal.dream


def new_input(store: Store) -> int:
    """How much is new: notes and crystals that no dream has taken in; before the first one, the old MEMORY.md too."""
    return unseen_seeds(store) + max(store.crystals.undreamt_count(), len(store.segments.pending_notes()))


def unseen_seeds(store: Store) -> int:
    """How much of the old MEMORY.md is new: all of it, before the first dream."""
    return 0 if store.lineage.last_version() else len(store.crystals.unseen_seeds())


def _require_input(store: Store, dream: str, reason: Reason, now: datetime) -> None:
    forget_notes(store)  # what waits may be nothing but what is forgotten: then no dream comes to take it out
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


def _gone_on(store: Store, mode: Mode, told: Callable[[Step], None]) -> Outcome | None:
    """Finish what was interrupted: a commit, and the dream that goes on from where it was; None when none does."""
    store.journal.recover()  # a store that stays open: what its last dream had decided and failed to finish
    # A restore that was killed after a killed dream leaves two.
    while (unfinished := store.ledger.unfinished()) is not None:
        if (outcome := _resumed(store, unfinished, mode, told)) is not None:
            return outcome
    return None


def _resumed(store: Store, run: Run, mode: Mode, told: Callable[[Step], None]) -> Outcome | None:
    """Go on with a dream that was killed; None when it had not begun, or can no longer be finished."""
    read = based_on(store, run.id)
    version = store.lineage.version_of(run.id)
    if version is not None:
        store.ledger.end(run.id, "committed", "finished after an interruption", utc_now(), version)
        store.notices.append(f"the interrupted dream {run.id} had committed version {version}")
        drop(store, run.id)
        return None
    if read is None or read != store.lineage.last_version():
        how = "before it had read anything" if read is None else "and overtaken by a newer version"
        store.ledger.end(run.id, "failed", f"interrupted {how}", utc_now())
        drop(store, run.id)
        return None
    told(Step("resume", f"dream {run.id} was interrupted; it goes on"))
    return _run(store, run.id, None, mode, told, resumed=True)


def _run(
    store: Store, dream: str, start: Dreaming | None, mode: Mode, told: Callable[[Step], None], *, resumed: bool
) -> Outcome:
    from graphs.dream import build

    memory = {Mode.DRY: DryMemory, Mode.PROPOSE: ProposingMemory, Mode.AUTO: WorkspaceMemory}[mode](store)
    ports = Ports(
        memory, _model(store, dream), utc_now, store.config.model.on_failure, store.config.limits.calls_per_dream > 1
    )
    config: RunnableConfig = {"configurable": {"thread_id": dream}}
    values: dict[str, Any] = {}
    try:
        if mode is Mode.DRY:
            for update in build(ports).stream(start, config, stream_mode="updates"):
                tell(update, values, mode.value, told)
        else:
            with checkpoints(store, dream) as saver:
                graph = build(ports, saver)
                values |= graph.get_state(config).values if resumed else {}
                for update in graph.stream(start, config, stream_mode="updates", durability="sync"):
                    tell(update, values, mode.value, told)
    except (FencedError, StoppedError, sqlite3.OperationalError):
        # The next dream goes on with this run: it is the next owner's, the daemon's after its restart, or state.db
        # was full or busy.
        raise
    except Exception as error:
        # What is decided is finished by the next dream, which then ends this run.
        if mode is not Mode.DRY and not store.journal.decided(dream):
            code = error.code if isinstance(error, DreamdError) else type(error).__name__
            store.ledger.end(dream, "failed", f"{code}: {error}", utc_now())
            forget_answers(store, dream)
            drop(store, dream)
        if resumed and not isinstance(error, DreamdError):  # of damaged, or forged, checkpoints everything may come
            raise StorageError(
                f"the interrupted dream {dream} cannot go on ({type(error).__name__}: {error}) and is given up",
                "nothing was consumed, run 'dreamd dream' again",
            ) from error
        raise
    try:
        return _concluded(store, dream, values, mode, resumed=resumed)
    finally:
        if mode is not Mode.DRY:
            forget_answers(store, dream)
            drop(store, dream)


def _concluded(store: Store, dream: str, values: dict[str, Any], mode: Mode, *, resumed: bool) -> Outcome:
    refusals = tuple(decode(Refusal, one) for one in values.get("refusals", []))
    if mode is not Mode.DRY:
        store.ledger.reject(dream, refusals, utc_now())
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
        store.ledger.end(dream, "committed", withheld_lately(store, refusals), utc_now(), record.number)
    elif mode is Mode.PROPOSE:
        store.ledger.end(dream, "proposed", "waits for 'dreamd review'", utc_now())
    return Outcome(record, mode, refusals, resumed, len(store.segments.pending_notes()))


def _model(store: Store, dream: str) -> Model | None:
    """The configured model behind the ceilings of this workspace and of all; None when none is configured."""
    section, limits = store.config.model, store.config.limits
    if section.name is None:
        return None
    from daemon.models.litellm_model import LitellmModel
    from daemon.models.metered import Metered
    from daemon.models.retrying import Retrying

    together = daily_spend(spent_folder(os.environ))

    def allow(about_to: Spend) -> None:
        check_day(store.config.daemon.limits, today=together.of(utc_now()), about_to=about_to)

    def record(call: "PaidCall") -> None:
        spend = call.spend
        answer = replace(call.answer, text=without_secrets(call.answer.text, store.config.secrets.redaction))
        kept = Call(call.digest, answer.model, encode(answer), call.usable, spend.tokens, spend.usd)
        store.ledger.record_call(dream, kept, utc_now())
        together.add(spend, utc_now())

    def replay(digest: str) -> Answer | None:
        known = store.ledger.replay(dream, digest)
        return decode(Answer, known) if known is not None else None

    model = LitellmModel(
        section.name,
        api_base=section.api_base,
        timeout_seconds=section.timeout_seconds,
        max_output_tokens=section.max_output_tokens,
    )
    metered = Metered(
        model,
        Limits(**limits.model_dump()),
        record=record,
        replay=replay,
        today=lambda: store.ledger.spent(since=day_start(utc_now())),
        before=store.ledger.spent(dream=dream),
        allow=allow,
    )
    return Retrying(metered)


def without_secrets(answer: str, redaction: Redaction) -> str:
    """An answer as it is kept: of JSON each text by itself, so that it stays JSON."""

    def walked(value: object) -> object:
        if isinstance(value, dict):
            return {key: walked(one) for key, one in value.items()}
        if isinstance(value, list):
            return [walked(one) for one in value]
        return redaction.of(value) if isinstance(value, str) else value

    if redaction.of(answer) == answer:
        return answer
    try:
        return json.dumps(walked(json.loads(answer)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return redaction.of(answer)
