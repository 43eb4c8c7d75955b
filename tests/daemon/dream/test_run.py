"""Proposals: what becomes of one that came too late."""

from pathlib import Path

import pytest

from daemon.dream.changes import approve
from daemon.dream.restore import restore
from daemon.dream.run import Mode, dream_now
from state.dream import Reason
from state.errors import RejectedError
from state.scratch import Note
from tests.support.working import AT, working


def test_a_proposal_that_is_overtaken_is_rejected_and_so_is_its_run(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        store.notes.inbox.append(Note("Ada prefers tea over coffee", AT))
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        store.notes.inbox.append(Note("The deployment runs on port 8443", AT))
        dream = dream_now(store, Reason.MANUAL, Mode.PROPOSE).dream.id
        restore(store, 1)
        with pytest.raises(RejectedError, match="there is a newer one"):
            approve(store, dream)
        assert {run.id: run.outcome for run in store.ledger.runs(10)}[dream] == "rejected"
        assert store.ledger.proposals() == []
