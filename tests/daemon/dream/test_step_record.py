"""Each finished step of a dream is kept; what is not kept, or where a dream is killed, costs no dream anything."""

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.dream.progress import Step
from daemon.dream.run import Mode, dream_now
from daemon.workspace.stores import Store
from state.dream import Reason
from state.errors import NothingToDoError
from state.scratch import Note
from tests.support.working import working

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
NODES = ["gather", "synthesize", "evict", "commit"]


class Killed(BaseException):
    """What nothing but the end of the process answers."""


def noted(store: Store) -> None:
    store.notes.inbox.append(Note("Ada prefers tea over coffee", AT, 0.8))


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

    store.crystals.connection.set_authorizer(may)


@pytest.mark.parametrize("at", NODES)
def test_a_dream_without_a_model_that_is_killed_after_a_step_is_run_again(tmp_path: Path, at: str) -> None:
    def kill(step: Step) -> None:
        if step.node == at:
            raise Killed

    with working(tmp_path / "agent") as store:
        noted(store)
        with suppress(Killed):
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
    tmp_path: Path, refused: int, kept: list[str]
) -> None:
    with working(tmp_path / "agent") as store:
        noted(store)
        deny(store, refused)
        told: list[str] = []
        done = dream_now(store, Reason.MANUAL, Mode.AUTO, lambda step: told.append(step.node))
        store.crystals.connection.set_authorizer(None)
        assert told == ["absorb", *NODES]
        assert steps_of(store, done.dream.id) == kept
        assert store.memory.has(1)


def test_what_is_skipped_leaves_no_step(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        noted(store)
        with pytest.raises(NothingToDoError):
            dream_now(store, Reason.INTERVAL, Mode.AUTO)
        assert store.ledger.runs(1)[0].outcome == "skipped"
        assert store.crystals.connection.execute("SELECT count(*) FROM steps").fetchone()[0] == 0
