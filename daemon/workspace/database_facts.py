"""Database facts: the part of a workspace's status that is in state.db, read without the lock."""

import sqlite3
from dataclasses import dataclass, field
from datetime import datetime

from daemon.config.settings import day_start
from state.budget import Spend
from state.document.operations import Refusal
from state.errors import StorageError
from state.stores.database.connection import explained, open_unmigrated
from state.stores.database.schema import SCHEMA_VERSION
from state.stores.database.tables import Run
from state.stores.database.tombstones import TombstoneStore
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import is_unfinished
from state.stores.history.changes import Changes, OpenChanges
from state.stores.history.ledger import Ledger
from state.stores.history.lineage import Lineage

_WITH_CHANGES = 6  # the first schema that had them
NO_HELP = 3
# The latest dreams in which a model answered: which one, and whether it is the author of what became of them.
_ANSWERED = """SELECT asked.model, author.model IS asked.model AS helped
    FROM dreams JOIN (SELECT dream, max(model) AS model FROM calls GROUP BY dream) asked ON asked.dream = dreams.id
    LEFT JOIN versions author ON author.number = dreams.version
    WHERE outcome IN ('committed', 'rejected')
    ORDER BY started_at DESC LIMIT ?"""


@dataclass(frozen=True, slots=True)
class LastDream:
    """The last run that was more than a skip. `version` is None when it committed none; dollars 0: not known."""

    id: str
    at: datetime
    reason: str
    outcome: str
    detail: str
    version: int | None
    model: str
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The facts in state.db; the defaults are those of a workspace without one.

    `no_help` names a model that answered in the last `NO_HELP` dreams and is the author of none.
    """

    version: int = 0
    last_dream: LastDream | None = None
    crystals: dict[str, int] = field(default_factory=dict)
    waiting_embeddings: int = 0
    changes: OpenChanges = field(default_factory=OpenChanges)
    spent: Spend = field(default_factory=Spend)
    rejections: tuple[Refusal, ...] = ()
    withheld: int = 0
    forgetting_unfinished: bool = False
    no_help: str = ""


def read_facts(workspace: Workspace, now: datetime) -> DatabaseFacts:
    """Read the facts as of one moment. Raise StorageError when state.db cannot be read or is of a newer dreamd."""
    path = workspace.database
    if not path.exists():
        return DatabaseFacts()
    try:
        with open_unmigrated(path) as connection:
            schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if schema > SCHEMA_VERSION:
                raise StorageError(f"{path}: written by a newer dreamd (schema {schema})", "upgrade this one")
            connection.execute("BEGIN")  # one moment for all that follows
            return _facts(connection, now, schema) if schema else DatabaseFacts()
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _facts(connection: sqlite3.Connection, now: datetime, schema: int) -> DatabaseFacts:
    ledger, lineage = Ledger(connection), Lineage(connection)
    run = ledger.last_dream()
    waiting = connection.execute("SELECT count(*) FROM to_embed").fetchone()[0]
    return DatabaseFacts(
        version=lineage.standing()[0],
        last_dream=_last_dream(run, ledger, lineage) if run else None,
        crystals=_lifecycles(connection),
        waiting_embeddings=waiting,
        changes=Changes(connection).counts() if schema >= _WITH_CHANGES else OpenChanges(),
        spent=ledger.spent(since=day_start(now)),
        rejections=tuple(ledger.rejections(run.id)) if run else (),
        withheld=TombstoneStore(connection).withheld(),
        forgetting_unfinished=is_unfinished(connection),
        no_help=_no_help(connection) if schema >= _WITH_CHANGES else "",
    )


def _no_help(connection: sqlite3.Connection) -> str:
    last = connection.execute(_ANSWERED, (NO_HELP,)).fetchall()
    models = {row["model"] for row in last}
    if len(last) < NO_HELP or len(models) > 1 or any(row["helped"] for row in last):
        return ""
    return str(models.pop())


def _lifecycles(connection: sqlite3.Connection) -> dict[str, int]:
    stages = connection.execute("SELECT lifecycle, count(*) FROM crystals GROUP BY lifecycle ORDER BY lifecycle")
    return {row[0]: row[1] for row in stages}


def _last_dream(run: Run, ledger: Ledger, lineage: Lineage) -> LastDream:
    spend = ledger.spent(dream=run.id)
    committed = next((one for one in lineage.versions(1) if one.number == run.version), None)
    return LastDream(
        id=run.id,
        at=run.ended_at or run.started_at,
        reason=run.reason,
        outcome=run.outcome,
        detail=run.detail,
        version=run.version,
        model=committed.model if committed else "",
        tokens=spend.tokens,
        usd=spend.usd,
    )
