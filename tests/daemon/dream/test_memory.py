"""What a dream reads of the workspace, and tries, beside others that write."""

import sqlite3
from contextlib import closing
from pathlib import Path

from daemon.config.settings import Config
from daemon.dream.memory import WorkspaceMemory
from daemon.dream.snapshot import snapshot
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from state.dream import Reason
from state.stores.vectors.embedder import Unavailable
from tests.support.working import AT, working


def test_others_write_at_once_while_pointers_are_tried_and_the_trial_writes_nothing(tmp_path: Path) -> None:
    workspace, none = init_workspace(tmp_path), Embedding.given(Unavailable("not needed here"))
    with open_exclusive(workspace, Config(), "test", embedding=none) as store:
        store.crystals.upsert(
            [Crystal(f"Note {number} on the cluster", Origin.SCRATCH, utc_now()) for number in range(9)]
        )
        before = store.connection.total_changes
        leaving = Crystal("The passphrase of the north gate is quartz", Origin.LINE, utc_now())
        with (
            WorkspaceMemory(store).trial([leaving]) as trial,
            closing(sqlite3.connect(workspace.database, timeout=0, isolation_level=None)) as other,
        ):
            assert trial.first("quartz passphrase", 5) == (leaving.id,)
            other.execute("INSERT INTO meta VALUES ('another', 'wrote')")
            assert trial.frequency(["quartz", "cluster"]) == {"quartz": 1, "cluster": 9}
        assert store.connection.total_changes == before


def test_what_is_forgotten_is_not_tried(tmp_path: Path) -> None:
    workspace, none = init_workspace(tmp_path), Embedding.given(Unavailable("not needed here"))
    with open_exclusive(workspace, Config(), "test", embedding=none) as store:
        store.crystals.forgotten.block_texts(["the passphrase is quartz"], utc_now())
        withheld = store.crystals.forgotten.withheld()
        with WorkspaceMemory(store).trial([Crystal("the passphrase is quartz", Origin.LINE, utc_now())]) as trial:
            assert trial.first("quartz passphrase", 5) == ()
        assert store.crystals.forgotten.withheld() == withheld


def test_the_constraints_are_read_with_their_numbers_and_without_the_marks_of_lists(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        store.workspace.genome.write_text(
            "# Genome\n\n- 2FA must stay on\n* 30 days is the longest retention\n1. Never push to main\n"
            "12) Answer in English\n3.5 GB is the most memory\n-5 degrees is too cold\n**Never** lie\n-\n\n"
        )
        constraints = snapshot(store, (), (), "d", Reason.MANUAL, AT).genome
    assert constraints == (
        "2FA must stay on",
        "30 days is the longest retention",
        "Never push to main",
        "Answer in English",
        "3.5 GB is the most memory",
        "-5 degrees is too cold",
        "**Never** lie",
    )
