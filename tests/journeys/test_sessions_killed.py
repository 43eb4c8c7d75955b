"""A random run over all four policies is killed at any statement: the sessions reopen to what was acknowledged.

The operation that was under way may have been done (its COMMIT was the last thing that happened); nothing else may
differ, in no table.
"""

import random
from pathlib import Path

import pytest

from daemon import sessions
from tests.crash.session_life import lived, moment, perform, state, statements
from tests.support.long_variants import variants
from tests.support.working import working

OPERATIONS = 500


@pytest.mark.full
@pytest.mark.parametrize("lives", variants(8, 120))
def test_a_killed_run_reopens_to_the_acknowledged_prefix(tmp_path: Path, lives: int) -> None:
    for seed in range(2 if lives < 20 else 6):
        made, _ = statements(tmp_path / f"counted {seed}", perform, seed, OPERATIONS)
        rng = random.Random(seed)
        for life in range(4 if lives < 20 else lives // 2):
            killed_and_opened(tmp_path / f"{seed} {life}", seed, rng.randrange(len(made)))


def killed_and_opened(folder: Path, seed: int, kill_at: int) -> None:
    folder.mkdir()
    done = lived(folder / "killed", perform, seed, OPERATIONS, kill_at, folder / "told")
    assert done < OPERATIONS
    rng = random.Random(seed)
    with working(folder / "killed") as killed, working(folder / "whole") as whole:
        for number in range(done):
            perform(whole, number, rng)
        left = state(killed)
        if left != state(whole):
            perform(whole, done, rng)
            wanted = state(whole)
            # What was under way is several transactions when it tends several sessions: those that are missing are
            # made up for by the next maintenance.
            if left != wanted:
                sessions.maintain(killed, moment(done))
            assert wanted in (left, state(killed)), (seed, kill_at, done)
        assert killed.crystals.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        for number in range(done + 1, done + 20):  # and it goes on
            perform(killed, number, rng)


def test_a_run_that_is_not_killed_acknowledges_everything(tmp_path: Path) -> None:
    assert lived(tmp_path / "w", perform, 1, 40, None, tmp_path / "told") == 40
