"""The ledger: every run with its outcome and steps, the guards' rejections, paid calls, and people's acts."""

import json
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime

from state.budget import Spend
from state.document.operations import Refusal
from state.dream import OWNERS, Evidence
from state.errors import NotFoundError
from state.secrets.policy import DEFAULT, Redaction
from state.stores.database.connection import transaction, unsynced
from state.stores.database.meta import Meta
from state.stores.database.moments import from_text, optional_text, to_text
from state.stores.database.tables import Act, CallRow, RejectionRow, Run, StepRow

# The answers paid by a dream that was killed are used again.
_NEEDED = "SELECT id FROM dreams WHERE outcome = 'running'"
# The daemon counts failures among the latest runs, and the status shows the last run.
_LATEST = f"SELECT * FROM (SELECT id FROM dreams ORDER BY started_at DESC LIMIT 100) UNION {_NEEDED}"
# Paid since the previous step: all that the dream has paid minus the sum of its steps. So the steps add up to the
# dream's cost even if it was killed and resumed.
_ADD_STEP = """
INSERT INTO steps (dream, place, node, at, seconds, calls, tokens, figures)
SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3, ?4,
       (SELECT count(*) FROM calls WHERE dream = ?1) - coalesce(sum(calls), 0),
       (SELECT coalesce(sum(tokens), 0) FROM calls WHERE dream = ?1) - coalesce(sum(tokens), 0),
       ?5
FROM steps WHERE dream = ?1
"""
_FAILURES = """
SELECT id, (SELECT figures FROM steps WHERE dream = d.id AND node = 'gather' ORDER BY place DESC LIMIT 1),
    CASE WHEN NOT EXISTS (SELECT 1 FROM notes WHERE consumed_in IS NULL AND at <= d.started_at) THEN
        (SELECT started_at FROM dreams later WHERE started_at > d.started_at AND outcome = 'committed'
         AND NOT EXISTS (SELECT 1 FROM versions WHERE dream = later.id AND cause <> 'dream')
         ORDER BY started_at LIMIT 1) END
FROM dreams d WHERE outcome IN ('failed', 'rejected') AND id IN (SELECT value FROM json_each(?))
"""
_TOLD = """
SELECT * FROM (
    SELECT d.id, started_at, ended_at, d.reason, outcome, detail, version, times
    FROM dreams d LEFT JOIN versions v ON v.number = d.version
    WHERE (started_at, d.id) < (:at, :id) AND started_at >= :since AND started_at < :until
    AND :outcome IN ('', outcome) AND :kind IN ('', CASE
        WHEN outcome IN ('failed', 'rejected') THEN 'failed' WHEN outcome <> 'committed' THEN outcome
        WHEN version IS NULL THEN 'nothing'
        WHEN cause IN (SELECT value FROM json_each(:owners)) THEN 'owner' ELSE 'dream' END)
    ORDER BY started_at DESC, d.id DESC LIMIT :limit)
UNION ALL SELECT * FROM (
    SELECT '', at, at, cause, 'committed', '', number, 1 FROM versions
    WHERE dream = '' AND number > 0 AND cause IN (SELECT value FROM json_each(:owners))
    AND (at, '') < (:at, :id) AND at >= :since AND at < :until
    AND :outcome IN ('', 'committed') AND :kind IN ('', 'owner')
    ORDER BY at DESC LIMIT :limit)
ORDER BY started_at DESC, id DESC LIMIT :limit"""
# What versions did in each span of time, and what runs cost that made none; then the lines as they were at its end.
_HAPPENED = """
WITH spans AS (SELECT value ->> 0 AS start, value ->> 1 AS stop FROM json_each(?1)),
happened AS (
    SELECT start, stop, dream, is_new * (added + recalled) AS learnt, is_new * revised AS revised,
        is_new * evicted AS evicted, is_new * closed AS closed, usd, 0 AS failed,
        cause IN (SELECT value FROM json_each(?2)) AS yours
    FROM spans CROSS JOIN (SELECT *, cause NOT IN ('undo', 'restore') AS is_new FROM versions)
        ON at >= start AND at < stop WHERE number > 0
    UNION ALL
    SELECT start, stop, id, 0, 0, 0, 0, (SELECT coalesce(sum(usd), 0.0) FROM calls WHERE dream = dreams.id),
        outcome <> 'committed', 0
    FROM spans CROSS JOIN dreams ON started_at >= start AND started_at < stop
    WHERE outcome IN ('committed', 'failed', 'rejected') AND version IS NULL)
SELECT start, coalesce((SELECT sections FROM versions WHERE at < stop AND number > 0
        ORDER BY at DESC, number DESC LIMIT 1), '{}'),
    sum(learnt), sum(revised), sum(evicted), sum(closed), sum(usd), sum(failed), sum(yours), count(*),
    CASE WHEN count(*) = 1 AND NOT sum(yours) THEN max(dream) ELSE '' END
FROM happened GROUP BY start ORDER BY start"""
ENOUGH = 3
"""After a model has left an input out of this many dreams, none is asked about it again."""
# So many times that an input was left out are known; one left out longer ago may be tried again.
_MOST_REFUSED = 3_000
# In `meta`: the inputs over which the latest dreams failed.
_FAILED = "failed_inputs"


@dataclass(frozen=True, slots=True)
class Call:
    """One paid try of a model. `reply` is the port's Answer as JSON, `usable` if it can be parsed.

    `request` holds the messages as they were sent, as JSON.
    """

    digest: str
    model: str
    reply: str
    usable: bool
    tokens: int
    usd: float
    request: str = ""


@dataclass(frozen=True, slots=True)
class KeptCall(Call):
    """A call as the ledger keeps it; its request and reply are empty once it is too old."""

    at: datetime = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Finished:
    """A step that ended at `at` and took this many seconds; `figures` say what it did."""

    node: str
    at: datetime
    seconds: float
    figures: str


@dataclass(frozen=True, slots=True)
class PaidStep(Finished):
    """A finished step with the model's calls and tokens since the previous step."""

    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Which:
    """Which runs: those that ended so, of this kind, and that began in this span of time; empty: all.

    The kinds are failed (also rejected), skipped, running, owner, dream (it changed something) and nothing.
    """

    outcome: str = ""
    kind: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """What happened in the hour, day or week that begins `at`; `lines` are those of each section at its end.

    `learnt` lines came or came back, `changed` ones were reworded, merged, moved or weighed, `put_away` ones left for
    crystals, `closed` ones were answered or deleted. `yours`: versions that the owner made. `dream` is the id of the
    run, if there was but one, and no act of the owner.
    What an undo or a restore did to lines is nothing new, and not counted.
    """

    at: datetime
    lines: dict[str, int]
    learnt: int
    changed: int
    put_away: int
    closed: int
    usd: float
    failed: int
    yours: int
    runs: int
    dream: str

    @property
    def total(self) -> int:
        """Return how many lines there were at its end."""
        return sum(self.lines.values())


class Ledger:
    """What was done in one workspace, in state.db. Texts that may quote something are redacted."""

    def __init__(self, connection: sqlite3.Connection, redaction: Redaction = DEFAULT) -> None:
        self._connection = connection
        self._redaction = redaction

    def begin(self, dream: str, reason: str, at: datetime) -> None:
        """Record the start of a run."""
        run = Run(id=dream, started_at=at, reason=reason)
        Run.table.add(self._connection, run, "INSERT OR IGNORE")

    def end(self, dream: str, outcome: str, detail: str, at: datetime, version: int | None = None) -> None:
        """Record the end of a run with its outcome."""
        detail = self._redaction.of(detail)
        Run.table.change(
            self._connection, "id = ?", dream, ended_at=at, outcome=outcome, detail=detail, version=version
        )

    def skip(self, dream: str, reason: str, detail: str, at: datetime) -> None:
        """Record a skipped run, without its steps; consecutive skips for the same reason share a row with a count."""
        with transaction(self._connection):
            self.remove_steps(dream)
            (last,) = self.runs(1) or (None,)
            if last and last.outcome == "skipped" and (last.reason, last.detail) == (reason, detail):
                Run.table.change(self._connection, "id = ?", last.id, times=last.times + 1, ended_at=at)
                return
            run = Run(id=dream, started_at=at, ended_at=at, reason=reason, outcome="skipped", detail=detail)
            Run.table.add(self._connection, run)

    def unfinished(self) -> Run | None:
        """Return the latest run without an end: it was killed or is still running."""
        return next(iter(self._runs("WHERE outcome = 'running' ORDER BY started_at DESC LIMIT 1")), None)

    def runs(self, limit: int) -> list[Run]:
        """Return the last runs, newest first."""
        return self._runs("ORDER BY started_at DESC, id DESC LIMIT ?", limit)

    def told(self, limit: int, which: Which, before: tuple[str, str] = ("9", "")) -> list[Run]:
        """Return the last runs before this moment and id, and what the owner saved in an editor, newest first."""
        given = {
            "at": before[0],
            "id": before[1],
            "outcome": which.outcome,
            "kind": which.kind,
            "since": optional_text(which.since) or "",
            "until": optional_text(which.until) or "9",  # sorts after every timestamp
            "limit": limit,
            "owners": json.dumps(sorted(OWNERS)),
        }
        return [Run.table.value(Run, row) for row in self._connection.execute(_TOLD, given)]

    def run(self, dream: str) -> Run:
        """Return the run with this id, or the only run whose id has this prefix. Raise NotFoundError."""
        found = self._runs("WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 2", dream)
        if not found or (len(found) > 1 and found[0].id != dream):
            what = "more than one dream begins" if found else "no dream in the ledger begins"
            raise NotFoundError(f"{what} with {dream!r:.60}", "'dreamd history' lists those that made a version")
        return found[0]

    def reject(self, dream: str, refusals: Iterable[Refusal], at: datetime) -> None:
        """Record the guards' refusals with figures, replacing earlier ones of this dream."""
        with transaction(self._connection):
            RejectionRow.table.delete(self._connection, "dream = ?", dream)
            for one in refusals:
                figures = self._redaction.of(one.figures)
                RejectionRow.table.add(self._connection, one, dream=dream, at=at, figures=figures)

    def rejections(self, dream: str) -> list[Refusal]:
        """Return the guards' refusals in this dream."""
        return RejectionRow.table.read(Refusal, self._connection, "WHERE dream = ? ORDER BY key", dream)

    def versions_with_refusals(self) -> list[int]:
        """Return the last versions whose dreams had refusals, latest first; at most twenty."""
        rows = self._connection.execute(
            "SELECT version FROM dreams d WHERE version IS NOT NULL"
            " AND EXISTS (SELECT 1 FROM rejections WHERE dream = d.id) ORDER BY started_at DESC LIMIT 20"
        )
        return [int(row["version"]) for row in rows]

    def record_call(self, dream: str, call: Call, at: datetime) -> int:
        """Record a call of a model, durably; return its number for `settle_call`."""
        return CallRow.table.add(self._connection, call, dream=dream, at=at).lastrowid or 0

    def settle_call(self, number: int, call: Call | None) -> None:
        """Record what a call has become, durably, before its answer is used. None: it cost nothing."""
        if call is None:
            CallRow.table.delete(self._connection, "key = ?", number)
        else:
            CallRow.table.change(self._connection, "key = ?", number, **asdict(call))

    def calls(self, dream: str, limit: int) -> list[KeptCall]:
        """Return the first calls of this dream, in order."""
        return CallRow.table.read(KeptCall, self._connection, "WHERE dream = ? ORDER BY key LIMIT ?", dream, limit)

    def paid(self, dreams: Iterable[str]) -> dict[str, tuple[str, Spend]]:
        """Return the model and the spend of each of these dreams that called one."""
        rows = self._connection.execute(
            "SELECT dream, max(model), count(*), sum(tokens), sum(usd) FROM calls"
            " WHERE dream IN (SELECT value FROM json_each(?)) GROUP BY dream",
            (json.dumps(list(dreams)),),
        )
        return {dream: (model, Spend(*spent)) for dream, model, *spent in rows}

    def failures(self, dreams: Iterable[str]) -> dict[str, tuple[int, datetime | None]]:
        """Return how many notes each of these dreams that failed had read, and when a later one took them in.

        None: a note from before it is pending.
        """
        found = dict[str, tuple[int, datetime | None]]()
        for dream, figures, taken_at in self._connection.execute(_FAILURES, (json.dumps(list(dreams)),)):
            read = re.search(r"(\d[\d,]*) notes?\b", figures or "")
            notes = int(read[1].replace(",", "")) if read else 0
            found[dream] = notes, from_text(taken_at) if taken_at else None
        return found

    def happened(self, spans: Iterable[tuple[datetime, datetime]]) -> list[Span]:
        """Return what happened in these spans of time, in their order; nothing of one in which nothing did."""
        given = json.dumps([[to_text(start), to_text(stop)] for start, stop in spans])
        rows = self._connection.execute(_HAPPENED, (given, json.dumps(sorted(OWNERS))))
        return [Span(from_text(start), json.loads(lines), *counts) for start, lines, *counts in rows]

    def first(self) -> datetime | None:
        """Return when the first version was made that is known, or the first run began; None before both."""
        (at,) = self._connection.execute(
            "SELECT min(at) FROM (SELECT min(at) AS at FROM versions WHERE number > 0"
            " UNION ALL SELECT min(started_at) FROM dreams)"
        ).fetchone()
        return from_text(at) if at else None

    def replay(self, dream: str, digest: str) -> str | None:
        """Return the stored usable answer to this dream's request; None if there is none."""
        query = (
            "SELECT reply FROM calls WHERE dream = ? AND digest = ? AND usable AND reply <> '' ORDER BY key LIMIT 1"
        )
        row = self._connection.execute(query, (dream, digest)).fetchone()
        return row["reply"] if row else None

    def spent(self, *, dream: str | None = None, since: datetime | None = None) -> Spend:
        """Return what was paid by one dream, or by all since a moment."""
        conditions = [("dream = ?", dream)] if dream is not None else []
        conditions += [("at >= ?", to_text(since))] if since is not None else []
        where = " AND ".join(condition for condition, _ in conditions) or "1"
        row = self._connection.execute(
            f"SELECT count(*), coalesce(sum(tokens), 0), coalesce(sum(usd), 0) FROM calls WHERE {where}",
            [value for _, value in conditions],
        ).fetchone()
        return Spend(row[0], row[1], row[2])

    # Steps, redacted.

    def add_steps(self, dream: str, steps: Iterable[Finished]) -> bool:
        """Append steps to those of this dream; return whether state.db took them.

        A full, busy or damaged state.db must not fail a dream: the caller may try again later. A power failure may
        lose the last steps.
        """
        rows = [(dream, one.node, to_text(one.at), one.seconds, self._redaction.of(one.figures)) for one in steps]
        try:
            with unsynced(self._connection), transaction(self._connection):
                self._connection.executemany(_ADD_STEP, rows)
        except sqlite3.Error:
            return False
        return True

    def steps(self, dream: str, limit: int) -> list[PaidStep]:
        """Return the first steps of this dream, in order."""
        return StepRow.table.read(PaidStep, self._connection, "WHERE dream = ? ORDER BY place LIMIT ?", dream, limit)

    def steps_after(self, at: datetime) -> list[PaidStep]:
        """Return the steps that ended after this moment, of whichever dream; none while state.db cannot be read."""
        try:
            return StepRow.table.read(PaidStep, self._connection, "WHERE at > ? ORDER BY at", at)
        except sqlite3.Error:
            return []

    def remove_steps(self, dream: str) -> None:
        """Remove the steps of this dream."""
        StepRow.table.delete(self._connection, "dream = ?", dream)

    def count_steps(self, dream: str) -> int:
        """Return how many steps this dream has."""
        return StepRow.table.count(self._connection, "dream = ?", dream)

    # Inputs that a model left out, and those over which its answers failed, by `Evidence.key`.

    def refuse(self, pieces: Iterable[Evidence]) -> None:
        """Count one more dream that left these inputs out."""
        with transaction(self._connection) as connection:
            keys = [(key,) for key in dict.fromkeys(piece.key for piece in pieces)]
            connection.executemany("INSERT INTO refused_inputs (input) VALUES (?)", keys)
            oldest = f"(SELECT max(number) - {_MOST_REFUSED} FROM refused_inputs)"
            connection.execute(f"DELETE FROM refused_inputs WHERE number <= {oldest}")

    def refused(self, pieces: Iterable[Evidence]) -> tuple[str, ...]:
        """Return the ids of the inputs that three or more dreams left out."""
        query = "SELECT input FROM refused_inputs GROUP BY input HAVING count(*) >= ?"
        known = {row[0] for row in self._connection.execute(query, (ENOUGH,))}
        return tuple(piece.id for piece in pieces if known and piece.key in known)

    def failed(self) -> str:
        """Return the inputs over which the latest dreams failed, as they were put."""
        return Meta(self._connection).get(_FAILED) or ""

    def put_failed(self, inputs: str) -> None:
        """Store the inputs over which the latest dreams failed; nothing is written if they are the same."""
        if inputs != self.failed():
            with transaction(self._connection) as connection:
                Meta(connection).put(_FAILED, inputs)

    # Acts of a person in a window.

    def record_act(self, act: Act) -> None:
        """Record an act."""
        Act.table.add(self._connection, act)

    def acts(self, limit: int, before: int | None = None) -> list[Act]:
        """Return the latest acts, newest first; only those with a number below `before`, if given."""
        below = 2**63 - 1 if before is None else before
        return Act.table.read(Act, self._connection, "WHERE number < ? ORDER BY number DESC LIMIT ?", below, limit)

    def sweep(self, before: datetime, answers_before: datetime) -> int:
        """Delete old prompts and answers, then old runs with all that belongs to them; return the number of rows.

        A running dream, and the calls of the latest runs, stay. In the caller's transaction.
        """
        execute, old = self._connection.execute, to_text(before)
        done = execute(
            f"UPDATE calls SET reply = '', request = '' WHERE at < ? AND reply <> '' AND dream NOT IN ({_NEEDED})",
            (to_text(answers_before),),
        ).rowcount
        done += execute(f"DELETE FROM dreams WHERE started_at < ? AND id NOT IN ({_LATEST})", (old,)).rowcount
        for table in ("rejections", "calls", "steps"):
            statement = f"DELETE FROM {table} WHERE at < ? AND dream NOT IN (SELECT id FROM dreams)"
            done += execute(statement, (old,)).rowcount
        return done + Act.table.delete(self._connection, "at < ?", before)

    def _runs(self, rest: str, *values: object) -> list[Run]:
        return Run.table.read(Run, self._connection, rest, *values)
