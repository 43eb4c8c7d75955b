"""What a dream reads and tries: beside others that write."""

import sqlite3
from contextlib import closing
from pathlib import Path

from daemon.config.settings import Config
from daemon.dream.memory import WorkspaceMemory
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from state.stores.vectors.embedder import Unavailable


def test_others_write_at_once_while_pointers_are_tried_and_the_trial_writes_nothing(tmp_path: Path) -> None:
    workspace, none = init_workspace(tmp_path), Embedding.given(Unavailable("not needed here"))
    with open_exclusive(workspace, Config(), "test", embedding=none) as store:
        store.crystals.upsert(
            [Crystal(f"Note {number} on the cluster", Origin.SCRATCH, utc_now()) for number in range(9)]
        )
        before = store.crystals.connection.total_changes
        leaving = Crystal("The passphrase of the north gate is quartz", Origin.EVICTED, utc_now())
        with (
            WorkspaceMemory(store).trial([leaving]) as trial,
            closing(sqlite3.connect(workspace.database, timeout=0, isolation_level=None)) as other,
        ):
            assert trial.first("quartz passphrase", 5) == (leaving.id,)
            other.execute("INSERT INTO meta VALUES ('another', 'wrote')")
            assert trial.frequency(["quartz", "cluster"]) == {"quartz": 1, "cluster": 9}
        assert store.crystals.connection.total_changes == before


def test_what_is_forgotten_is_not_tried(tmp_path: Path) -> None:
    workspace, none = init_workspace(tmp_path), Embedding.given(Unavailable("not needed here"))
    with open_exclusive(workspace, Config(), "test", embedding=none) as store:
        store.crystals.forgotten.block_texts(["the passphrase is quartz"], utc_now())
        withheld = store.crystals.forgotten.withheld()
        with WorkspaceMemory(store).trial([Crystal("the passphrase is quartz", Origin.EVICTED, utc_now())]) as trial:
            assert trial.first("quartz passphrase", 5) == ()
        assert store.crystals.forgotten.withheld() == withheld
