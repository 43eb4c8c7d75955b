"""A house of several workspaces: what befalls one of them is not felt in the others."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.adoption import init_workspace
from daemon.config import Config, DreamSection
from daemon.operations.dreams import DREAM, DreamNow
from daemon.operations.notes import NOTE, TakeNote
from daemon.service import Service
from state.errors import BusyError, UsageError
from state.stores.lock import acquire
from state.stores.segments import Segments
from state.stores.workspace import Workspace
from tests.support.folders import PLACE

PATIENCE_SECONDS = 60.0
# An interval of a second: looks come often.
BUSTLING = Config(dream=DreamSection(interval_minutes=1 / 60))


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="dreamd-", dir=PLACE))
    (path / "run").mkdir()
    for name, where in (("XDG_STATE_HOME", "state"), ("XDG_RUNTIME_DIR", "run"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(path / where))
    monkeypatch.delenv("DREAMD_SOCKET", raising=False)
    yield path
    shutil.rmtree(path, ignore_errors=True)


class House:
    """A service, in this process."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder = folder
        self.service = Service(lambda: config, ())

    def workspace(self, name: str) -> tuple[str, Workspace]:
        workspace = init_workspace(self.folder / name)
        return self.service.adopt(workspace.root), workspace

    def looks(self, name: str) -> int:
        """How many looks at it came to nothing."""
        with self.service.desk(name, lambda _: None) as desk, desk.reading() as store:
            return sum(run.times for run in store.ledger.runs(10) if run.outcome == "skipped")

    def note(self, name: str, text: str) -> None:
        with self.service.desk(name, lambda _: None) as desk:
            NOTE.run(desk, TakeNote(note=text))


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    one = House(folder, BUSTLING)
    yield one
    assert one.service.stop(PATIENCE_SECONDS)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_free(workspace: Workspace) -> bool:
    try:
        acquire(workspace, "test").release()
    except BusyError:
        return False
    return True


def test_a_house_without_notes_looks_and_skips_and_says_so_in_one_row(house: House) -> None:
    name, workspace = house.workspace("quiet")
    house.service.start()

    until(lambda: house.looks(name) >= 3)
    with house.service.desk(name, lambda _: None) as desk, desk.reading() as store:
        (run,) = store.ledger.runs(10)
    assert (run.outcome, run.detail) == ("skipped", "0 new, 5 wanted")
    assert not workspace.document.exists()


def test_a_workspace_that_cannot_be_kept_is_not_tried_over_and_over_when_it_stirs(house: House) -> None:
    (bad, spoilt), (fine, other) = house.workspace("bad"), house.workspace("fine")
    house.service.start()
    house.service.release(bad)
    spoilt.database.write_bytes(b"this is no database, " * 500)
    for part in spoilt.state.glob("state.db-*"):
        part.unlink()
    house.service.adopt(spoilt.root)
    house.note(bad, "The cat is called Miez")
    tried = int(spoilt.fence.read_text())
    for number in range(5):
        house.note(fine, f"House {number} was repaired by Ada")
    until(other.document.exists)
    assert int(spoilt.fence.read_text()) <= tried + 2  # once in a tick
    assert len(Segments(spoilt).pending_notes()) == 1


def test_a_released_workspace_is_free_even_when_it_was_about_to_be_looked_at(house: House) -> None:
    kept = [house.workspace(f"agent-{number}") for number in range(12)]
    house.service.start()
    for number in range(4 * len(kept)):
        name, workspace = kept[number % len(kept)]
        house.service.reload()  # all are looked at
        house.service.release(name)
        assert is_free(workspace)
        house.service.adopt(workspace.root)
        assert [one.problem for one in house.service.household().workspaces] == [None] * len(kept)


def test_the_others_are_looked_at_while_somebody_is_at_one(house: House) -> None:
    (slow, _), (fine, _) = house.workspace("slow"), house.workspace("fine")
    house.service.start()
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with house.service.desk(slow, lambda _: None) as desk, desk.store():
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)

    staying = threading.Thread(target=stay)
    staying.start()
    assert entered.wait(PATIENCE_SECONDS)
    try:
        before = house.looks(fine)
        until(lambda: house.looks(fine) >= before + 3)
    finally:
        leave.set()
        staying.join(PATIENCE_SECONDS)


def test_the_status_of_the_house_is_told_when_a_workspace_was_deleted(house: House) -> None:
    (_, gone), (_, fine) = house.workspace("gone"), house.workspace("fine")
    house.service.start()
    shutil.rmtree(gone.root)
    assert [one.workspace for one in house.service.status().workspaces] == [str(fine.root)]
    house.service.reload()
    until(lambda: [one for one in house.service.household().workspaces if one.problem is not None])
    (refused,) = [one for one in house.service.household().workspaces if one.problem is not None]
    assert refused.root == str(gone.root)
    assert refused.problem is not None
    assert "does not exist" in refused.problem.what
    assert os.fspath(fine.root) in str(house.service.status())


def test_a_dry_run_that_nobody_waits_for_is_refused(house: House) -> None:
    name, workspace = house.workspace("agent")
    house.service.start()
    house.note(name, "The cat is called Miez")
    with house.service.desk(name, lambda _: None) as desk, pytest.raises(UsageError, match="nobody waits"):
        DREAM.run(desk, DreamNow.model_validate({"mode": "dry", "wait": False}))
    assert not workspace.document.exists()
