"""The ledger keeps each finished step of a dream and forgets what is over; what was remembered stays."""

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.dream.consolidation import consolidate
from daemon.dream.progress import Step
from daemon.dream.run import Mode, dream_now
from daemon.journal.restore import restore
from daemon.journal.story import story_of_line
from daemon.workspace.adoption import init_workspace
from daemon.workspace.retention import sweep
from daemon.workspace.stores import Store, utc_now
from state.dream import Reason
from state.errors import NothingToDoError
from state.scratch import Note
from state.signals.curiosity import Cause
from state.signals.hormones import Feeling
from state.stores.database.table import layouts_of
from tests.support.committing import dreamt, thinking
from tests.support.faults import PowerCut
from tests.support.forgettable import quick
from tests.support.notes import noted

# What the promises rest on.
KEPT = "crystals occurrences versions lines evidence pointers tombstones forgotten items".split()


def test_after_years_of_sweeping_every_version_and_every_line_is_still_explained_and_restored(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "here")
    with quick(workspace) as store:
        committed = {}
        for number in range(4):
            store.notes.inbox.append(
                Note(f"We decided that release {number} ships on day {number + 3}", utc_now(), 0.9)
            )
            store.feelings.feel([Feeling.REWARD], "a release", utc_now())
            store.questions.raise_(f"When does release {number} ship?", Cause.MISS, utc_now())
            version = dream_now(store, Reason.MANUAL, Mode.AUTO).dream.number
            committed[version] = store.memory.text(version)
        connection = store.connection
        before = {
            table: connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
            for table in layouts_of(connection)
        }
        assert sweep(store, utc_now() + timedelta(days=10_000)) > 0
        for table in KEPT:
            assert before[table] == connection.execute(f"SELECT * FROM {table}").fetchall(), table  # noqa: S608
        assert connection.execute("SELECT count(*) FROM feelings").fetchone()[0] == 0
        line = story_of_line(store, "We decided that release 0")[0]
        assert line.writing is not None
        assert line.writing.evidence
        for version, text in committed.items():
            assert store.memory.text(version) == text
        restored = restore(store, 1)
        assert store.memory.text(restored.number).splitlines()[2:] == committed[1].splitlines()[2:]


def test_a_pass_sweeps_and_one_with_nothing_to_sweep_changes_nothing(tmp_path: Path) -> None:
    with quick(init_workspace(tmp_path / "here")) as store:
        store.questions.raise_("What was missed?", Cause.MISS, utc_now())
        consolidate(store, utc_now())
        assert len(store.questions.open(9)) == 1
        changes = store.connection.total_changes
        consolidate(store, utc_now())
        assert store.connection.total_changes == changes
        consolidate(store, utc_now() + timedelta(days=400))
        assert store.questions.open(9) == []


@pytest.mark.full
def test_the_checkpoints_are_gone_after_a_dream(tmp_path: Path) -> None:
    with thinking(tmp_path / "here") as (model, store):
        dreamt(store, *(f"Step {number}: " + "the gateway was moved again. " * 60 for number in range(60)))
        assert model.requests
        assert not (store.workspace.checkpoints / "dreams.db").exists()


AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)

NODES = ["gather", "synthesize", "evict", "commit"]


def steps_of(store: Store, dream: str) -> list[str]:
    return [one.node for one in store.ledger.steps(dream, 100)]


def deny(store: Store, times: int) -> None:
    """State.db refuses so many statements that write a step."""
    left = [times]

    def may(action: int, table: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_INSERT and table == "steps" and left[0]:
            left[0] -= 1
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    store.connection.set_authorizer(may)


@pytest.mark.parametrize("at", NODES)
def test_a_dream_without_a_model_that_is_killed_after_a_step_is_run_again(store: Store, at: str) -> None:
    def kill(step: Step) -> None:
        if step.node == at:
            raise PowerCut

    noted(store, "Ada prefers tea over coffee")
    with suppress(PowerCut):
        dream_now(store, Reason.MANUAL, Mode.AUTO, kill)
    with suppress(NothingToDoError):
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    latest, *others = store.ledger.runs(9)
    if at == "commit":  # there was nothing left to do
        latest, *others = others
    assert [one.outcome for one in others] == ([] if at == "commit" else ["failed"])
    assert (latest.outcome, steps_of(store, latest.id)[-4:]) == ("committed", NODES)
    assert store.lineage.last_version() == 1


@pytest.mark.parametrize(("refused", "kept"), [(1, ["absorb", *NODES]), (3, ["absorb", *NODES]), (10_000, [])])
def test_a_step_that_cannot_be_kept_waits_for_the_next_and_fails_no_dream(
    store: Store, refused: int, kept: list[str]
) -> None:
    noted(store, "Ada prefers tea over coffee")
    deny(store, refused)
    told: list[str] = []
    done = dream_now(store, Reason.MANUAL, Mode.AUTO, lambda step: told.append(step.node))
    store.connection.set_authorizer(None)
    assert told == ["absorb", *NODES]
    assert steps_of(store, done.dream.id) == kept
    assert store.lineage.text(1)


def test_what_is_skipped_leaves_no_step(store: Store) -> None:
    noted(store, "Ada prefers tea over coffee")
    with pytest.raises(NothingToDoError):
        dream_now(store, Reason.INTERVAL, Mode.AUTO)
    assert store.ledger.runs(1)[0].outcome == "skipped"
    assert store.connection.execute("SELECT count(*) FROM steps").fetchone()[0] == 0
