"""Whatever is broken in a workspace: after a repair it works, and no note and no line of MEMORY.md is lost."""

import itertools
import os
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.upkeep.examine import Level
from daemon.upkeep.repair.run import survey
from daemon.workspace.stores import utc_now
from state.errors import StorageError
from state.scratch import Note
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from tests.support.breaking import (
    DAMAGE,
    NOTED,
    SAID,
    WORDS_ONLY,
    Chance,
    about,
    assert_works,
    content,
    copied,
    found,
    lost,
    repaired,
)
from tests.support.faults import Fault, FaultySystem, PowerCut
from tests.support.long_variants import variants

# ------------------------------------------------------------------- random damage


def files_of(workspace: Workspace) -> list[Path]:
    every = [workspace.document, *workspace.history.glob("*.json"), *workspace.state.glob("inbox*.md")]
    return [*[workspace.database] * 6, *workspace.copies.glob("*.db"), workspace.checkpoints / "dreams.db", *every]


def assert_mended(workspace: Workspace, chance: Chance, what: object) -> None:
    """A repair loses nothing but what stood in state.db alone, leaves nothing broken, and the next finds nothing."""
    done = repaired(workspace)
    assert lost(workspace).notes == (), what
    assert [one for one in done.left if one.level is Level.PROBLEM] == [], what
    before = content(workspace)
    assert repaired(workspace).mends == (), what
    assert content(workspace) == before, what
    if done.kept:
        assert all((workspace.root / name).exists() for name in done.kept)
    assert_works(workspace)
    assert lost(workspace).said == (), what
    assert found(workspace, tuple(chance.sample(NOTED + SAID, 3))) == [], what


@pytest.mark.full
@pytest.mark.parametrize("seeds", variants(8, 800))
def test_damage_of_every_kind_to_any_file_loses_nothing_that_stands_elsewhere(
    origin: Workspace, tmp_path: Path, seeds: int
) -> None:
    for seed in range(seeds):
        chance = random.Random(seed)
        workspace = copied(origin, tmp_path / str(seed))
        path, damage = chance.choice(files_of(workspace)), DAMAGE[seed % len(DAMAGE)]
        damage(path, chance)
        assert_mended(workspace, chance, (seed, damage.__name__, path.name))


@pytest.mark.full
@pytest.mark.parametrize("seeds", variants(2, 600))
def test_damage_to_several_files_at_once_does_not_either(origin: Workspace, tmp_path: Path, seeds: int) -> None:
    for seed in range(seeds):
        chance = random.Random(f"several {seed}")
        workspace = copied(origin, tmp_path / str(seed))
        done = []
        for _ in range(chance.choice((2, 3, 5))):
            path, damage = chance.choice(files_of(workspace)), chance.choice(DAMAGE)
            if path.exists() and path.stat().st_size:
                damage(path, chance)
                done.append((damage.__name__, path.name))
        assert_mended(workspace, chance, (seed, done))


# ----------------------------------------------------------------------- cut off anywhere


def broken_everywhere(workspace: Workspace) -> None:
    os.truncate(workspace.database, workspace.database.stat().st_size // 2)
    workspace.document.write_bytes(bytes(300))
    NoteInbox(workspace).append(Note("The oars are new", utc_now()))
    with workspace.scratch.open("ab") as scratch:
        scratch.write(bytes(50) + b"\n")
    (workspace.checkpoints / "dreams.db").write_bytes(b"\xff" * 5_000)


@pytest.mark.full
@pytest.mark.parametrize("step", variants(14, 1))
def test_a_repair_that_is_cut_off_at_any_change_of_the_disk_is_done_by_the_next(
    origin: Workspace, tmp_path: Path, step: int
) -> None:
    killed = copied(origin, tmp_path / "killed")
    broken_everywhere(killed)
    for fail_at in itertools.count(0, step):
        workspace = copied(killed, tmp_path / f"at {fail_at}")
        fault = (Fault.CRASH, Fault.TORN_CRASH, Fault.ERROR)[fail_at // step % 3]
        system = FaultySystem(workspace.root, fail_at, fault)
        try:
            repaired(workspace, workspace.disk(system))
        except (PowerCut, StorageError):
            assert system.met
        repaired(workspace)
        gone = lost(workspace)
        assert (gone.notes, gone.said) == ((), ()), (fail_at, system.calls)
        assert repaired(workspace).mends == ()
        assert_works(workspace)
        if not system.met:
            break
    assert len(system.calls) > 20


@pytest.mark.parametrize("runs", variants(0, 60))
def test_a_repair_that_is_killed_at_any_time_is_done_by_the_next(
    origin: Workspace, tmp_path: Path, runs: int
) -> None:
    killed = copied(origin, tmp_path / "killed")
    broken_everywhere(killed)
    for run in range(runs):
        workspace = copied(killed, tmp_path / f"run {run}")
        process = subprocess.Popen(
            [sys.executable, "-m", "daemon", "doctor", str(workspace.root), "--repair"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05 * (run + 1))
        process.kill()
        process.wait()
        repaired(workspace)
        gone = lost(workspace)
        assert (gone.notes, gone.said) == ((), ()), run
        assert repaired(workspace).mends == ()
        assert_works(workspace)


def test_a_survey_writes_nothing(here: Workspace) -> None:
    broken_everywhere(here)
    before = content(here)
    planned = survey(here, Config(), lambda: None, WORDS_ONLY)
    assert {"state.db", "MEMORY.md", "checkpoints"} <= about(planned)
    assert planned.dry
    assert content(here) == before
