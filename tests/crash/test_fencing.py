"""Two owners: one that was stopped in the middle of its commit and displaced changes nothing any more."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from state.errors import FencedError
from state.stores.disk.workspace import Workspace
from tests.support.committing import FURTHER, NEW_NOTES, OLD_NOTES, Prepared, dreamt, lines, opened, places, prepared
from tests.support.faults import Fault, FaultySystem, every_fault, share
from tests.support.long_variants import is_whole

LAST = "The cat is called Miez"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("fencing") / "agent")


def displace(workspace: Workspace) -> None:
    """What a new owner does to the lock of a stopped one: another file takes its name."""
    fresh = workspace.lock.with_name("lock.new")
    fresh.touch(mode=0o600)
    fresh.replace(workspace.lock)


@dataclass
class Overtaken(FaultySystem):
    """At the chosen call this process is stopped for a while: what `meanwhile` does happens before the call."""

    meanwhile: Callable[[], None] = field(default=lambda: None)

    def _meet(self, name: str, _torn: Callable[[], None]) -> None:
        chosen = self._is_next()
        self.calls.append(name)
        if chosen:
            self.meanwhile()


def assert_consistent(workspace: Workspace, *notes: str) -> None:
    """The file is the last version's text, no line was taken for deleted, each note was consumed once."""
    with opened(workspace) as store:
        assert workspace.document.read_text(encoding="utf-8") == store.memory.text(store.lineage.last_version())
        dreamt(store, LAST)
        assert {FURTHER, LAST, *NEW_NOTES} <= set(lines(workspace))
        assert store.lineage.tombstones() == []
        assert tuple(store.notes.each_pending()) == ()
        assert places(store) == dict.fromkeys((*OLD_NOTES, *NEW_NOTES, *notes, LAST), 1)
        assert all(run.outcome == "committed" for run in store.ledger.runs(10))


@pytest.mark.full
def test_an_owner_that_is_displaced_before_any_call_of_its_commit_changes_nothing(
    ready: Prepared, tmp_path: Path
) -> None:
    fenced = 0

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        nonlocal fenced
        workspace = ready.copy(tmp_path / str(fail_at))

        def meanwhile() -> None:
            displace(workspace)
            with opened(workspace) as new_owner:
                # Finishes what was decided, or goes on with the dream that was under way; then dreams again.
                with suppress(FencedError):
                    new_owner.memory.commit(ready.dream)
                dreamt(new_owner, FURTHER)

        system = Overtaken(workspace.root, fail_at, fault, meanwhile=meanwhile)
        with opened(workspace, system) as store:
            try:
                store.memory.commit(ready.dream)
            except FencedError:
                fenced += 1
        if not system.met:
            with opened(workspace) as store:
                dreamt(store, FURTHER)
        assert_consistent(workspace, FURTHER)
        shutil.rmtree(workspace.root)
        return system

    runs = every_fault((Fault.CRASH,), scenario)
    assert runs > share(15)
    assert fenced > (runs / 2 if is_whole() else share(15))


def test_a_version_that_was_made_in_the_meantime_is_not_overwritten_and_the_next_dream_works(
    ready: Prepared, tmp_path: Path
) -> None:
    workspace = ready.copy(tmp_path / "agent")
    with opened(workspace) as store:
        store.memory.commit(ready.dream)
        with pytest.raises(FencedError, match="version 3 was committed by another process"):
            store.memory.commit(replace(ready.dream, id="another"))
        dreamt(store, FURTHER)
    assert_consistent(workspace, FURTHER)
