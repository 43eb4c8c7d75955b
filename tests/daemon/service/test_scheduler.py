"""A house of several workspaces: what befalls one of them is not felt in the others."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.api.operations.dreams import dream_now
from daemon.api.operations.notes import working_memory_note
from daemon.config import registry
from daemon.config.paths import registry_path
from daemon.config.settings import Config, DreamSection
from daemon.dream.run import Mode
from daemon.http.calls import Call, perform
from daemon.service import daemon as service_module
from daemon.service import roster
from daemon.service import scheduler as scheduler_module
from daemon.service.daemon import Daemon
from daemon.service.roster import ManagedWorkspace
from daemon.service.schedule import Action, Decision
from daemon.service.watcher import Change, Watcher
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.scan import Pattern, View, scan
from daemon.workspace.status import status
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import BusyError, NothingToDoError, NotKeptError, UsageError
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import intend
from state.stores.erasing.plan import Erasure
from tests.support.folders import PLACE
from tests.support.notes import pending_notes

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

    def __init__(self, folder: Path, config: Config, opening: Callable[[Path], Workspace] = open_workspace) -> None:
        self.folder = folder
        self.service = Daemon(lambda: config, (), opening)

    def workspace(self, name: str) -> tuple[str, Workspace]:
        workspace = init_workspace(self.folder / name)
        return self.service.register(workspace.root), workspace

    def looks(self, name: str) -> int:
        """How many looks at it came to nothing."""
        with self.service.open(name, lambda _: None) as access, access.read() as store:
            return sum(run.times for run in store.ledger.runs(10) if run.outcome == "skipped")

    def note(self, name: str, text: str) -> None:
        with self.service.open(name, lambda _: None) as access:
            working_memory_note.run(access, note=text)


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


class Disk:
    """Opens workspaces; of those below `hung` it says nothing before it is back, as a drive of the network may."""

    def __init__(self, hung: Path) -> None:
        self.hung = hung
        self.back = threading.Event()
        self.waiting = 0

    def open(self, root: Path) -> Workspace:
        self._wait(root)
        return open_workspace(root)

    def scan(self, root: Path, patterns: tuple[Pattern, ...]) -> View:
        self._wait(root)
        return scan(root, patterns)

    def _wait(self, path: Path) -> None:
        if path.is_relative_to(self.hung):
            self.waiting += 1
            assert self.back.wait(PATIENCE_SECONDS)


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
    with house.service.open(name, lambda _: None) as access, access.read() as store:
        (run,) = store.ledger.runs(10)
    assert (run.outcome, run.detail) == ("skipped", "0 new, 5 wanted")
    assert not workspace.document.exists()


def test_a_workspace_that_cannot_be_kept_is_not_tried_over_and_over_when_it_stirs(house: House) -> None:
    (bad, spoilt), (fine, other) = house.workspace("bad"), house.workspace("fine")
    house.service.start()
    house.service.unregister(bad)
    spoilt.database.write_bytes(b"this is no database, " * 500)
    for part in spoilt.state.glob("state.db-*"):
        part.unlink(missing_ok=True)  # SQLite may be closing the file
    house.service.register(spoilt.root)
    house.note(bad, "The cat is called Miez")
    tried = int(spoilt.fence.read_text())
    for number in range(5):
        house.note(fine, f"House {number} was repaired by Ada")
    until(other.document.exists)
    assert int(spoilt.fence.read_text()) <= tried + 2  # once in a tick
    assert len(pending_notes(spoilt)) == 1


def test_a_released_workspace_is_free_even_when_it_was_about_to_be_looked_at(house: House) -> None:
    kept = [house.workspace(f"agent-{number}") for number in range(12)]
    house.service.start()
    for number in range(4 * len(kept)):
        name, workspace = kept[number % len(kept)]
        house.service.reload()  # all are looked at
        house.service.unregister(name)
        assert is_free(workspace)
        house.service.register(workspace.root)
        assert [one.problem for one in house.service.info().workspaces] == [None] * len(kept)


def test_the_others_are_looked_at_while_somebody_is_at_one(house: House) -> None:
    (slow, _), (fine, _) = house.workspace("slow"), house.workspace("fine")
    house.service.start()
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with house.service.open(slow, lambda _: None) as access, access.write():
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
    gone.root.rename(house.folder / "elsewhere")
    assert [one.workspace for one in house.service.status().workspaces] == [str(fine.root)]
    house.service.reload()
    until(lambda: "does not exist" in str(house.service.info().workspaces))
    (refused,) = [one for one in house.service.info().workspaces if one.problem is not None]
    assert refused.root == str(gone.root)
    assert os.fspath(fine.root) in str(house.service.status())


def test_a_dry_run_that_nobody_waits_for_is_refused(house: House) -> None:
    name, workspace = house.workspace("agent")
    house.service.start()
    house.note(name, "The cat is called Miez")
    with house.service.open(name, lambda _: None) as access, pytest.raises(UsageError, match="nobody waits"):
        dream_now.answer(access, dream_now.bind(mode=Mode.DRY, wait=False))
    assert not workspace.document.exists()


def test_a_workspace_never_stands_in_for_another_one_of_its_name(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_DIGITS", 1)  # twins of twelve digits are not to be had
    first, second = twins(house.folder)
    name = house.service.register(first.root)
    house.service.start()
    with pytest.raises(UsageError, match="rename one of the folders"):
        house.service.register(second.root)
    assert registry.known(registry_path(os.environ)) == (first.root,)
    with registry_path(os.environ).open("a") as file:  # and of one that is there by hand, the daemon says so
        file.write(f"{second.root}\n")
    house.service.reload()
    assert [one.root for one in house.service.info().workspaces] == [str(first.root)]
    until(lambda: [one for one in house.service.info().problems if str(second.root) in one.what])

    secret = working_memory_note.bind(note="The second one alone knows this")
    ended = perform(house.service, Call(name, second.root, working_memory_note, secret), lambda _: None)
    assert ended.error is not None
    assert ended.error.code == "UNKNOWN_WORKSPACE"
    assert pending_notes(first) == ()
    assert perform(house.service, Call(name, first.root, working_memory_note, secret), lambda _: None).error is None


def twins(folder: Path) -> tuple[Workspace, Workspace]:
    """Two workspaces of one name."""
    found: dict[str, Path] = {}
    for number in range(100):
        root = folder / str(number) / "memory"
        if (name := registry.name_of(root)) in found:
            return init_workspace(found[name]), init_workspace(root)
        found[name] = root
    raise AssertionError


def test_a_disk_that_hangs_keeps_nobody_else_waiting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "_LOOK_SECONDS", 0.5)
    monkeypatch.setattr(roster, "_HANGS_SECONDS", 0.2)
    hung = [init_workspace(folder / "hung" / str(number)) for number in range(6)]  # more than there are slots
    fine = init_workspace(folder / "zebra")
    for workspace in (*hung, fine):
        registry.add(registry_path(os.environ), workspace.root)
    disk = Disk(folder / "hung")
    house = House(folder, BUSTLING, disk.open)
    service = house.service
    try:
        service.start()
        assert not service.unready_reason()
        assert len(service.info().workspaces) == 7
        name = registry.name_of(fine.root)
        for number in range(5):
            house.note(name, f"House {number} was repaired by Ada")
        tick = service.last_tick
        until(fine.document.exists)
        until(lambda: service.last_tick > tick)
        until(lambda: disk.waiting == len(hung))
        until(lambda: all(one.hanging for one in service._roster.all() if one.root != fine.root))
        told = [one.problem for one in service.info().workspaces if one.problem is not None]
        assert len(told) == len(hung)
        assert all("has not answered" in one.what for one in told)
        assert [one.workspace for one in service.status().workspaces] == [str(fine.root)]
        with pytest.raises(NotKeptError, match="has not answered"):
            house.note(registry.name_of(hung[0].root), "not now")
        service.reload()
        assert house.looks(name) >= 0
    finally:
        disk.back.set()
    until(lambda: [one.problem for one in service.info().workspaces] == [None] * 7)
    assert all(one.holds_lock for one in service._roster.all())
    assert service.stop(PATIENCE_SECONDS)


def test_a_watcher_that_waits_for_one_disk_is_relieved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_STUCK_SECONDS", 0.2)
    disk = Disk(folder / "hung")
    house = House(folder, BUSTLING)
    (_, hung), (name, fine) = house.workspace("hung"), house.workspace("fine")
    house.service.start()
    until(lambda: house.looks(name))
    stuck = Watcher(house.service._roster.mark_changed, polling_seconds=0.05, force_polling=True, scan=disk.scan)
    house.service._roster.watcher.close()
    house.service._roster.watcher = stuck
    disk.back.set()
    stuck.watch(hung.root, ())
    disk.back.clear()
    until(lambda: stuck.stuck_for > 0.2)
    house.service.trim()
    assert house.service._roster.watcher is not stuck
    until(
        lambda: all(
            one.watched == (house.service._roster.watcher, ("transcripts/**/*",))
            for one in house.service._roster.all()
        )
    )
    for number in range(5):  # appended as agents do: nobody tells of it but the watcher
        with fine.scratch.open("a") as file:
            file.write(f"- House {number} was repaired by Ada\n")
    until(fine.document.exists)
    disk.back.set()
    assert house.service.stop(PATIENCE_SECONDS)


def test_a_workspace_that_is_being_repaired_is_left_to_who_repairs_it(house: House) -> None:
    name, workspace = house.workspace("agent")
    house.service.start()
    until(lambda: house.looks(name))
    (managed,) = house.service._roster.all()
    with house.service.open(name, lambda _: None) as access, access.offline() as vacant:
        for _ in range(3):
            house.service._scheduler._look(managed)  # as the scheduler does at any moment
            vacant.check()
        with house.service.open(name, lambda _: None) as other:
            with pytest.raises(BusyError, match="examined or repaired; wait"), other.write():
                pass
            with pytest.raises(BusyError, match="examined or repaired; wait"), other.offline():
                pass
            served = other.service()
        assert served is not None
        assert served.upcoming == "it is being examined or repaired"
        assert "kill" not in str(house.service.status())
        assert house.service.info().workspaces[0].problem is None
    assert managed.holds_lock
    assert not is_free(workspace)


def test_a_forgetting_that_the_daemon_does_is_no_problem_while_it_runs(house: House) -> None:
    name, workspace = house.workspace("agent")

    house.service.start()

    def problems() -> str:
        with house.service.open(name, lambda _: None) as access:
            return str(status(workspace, Config(), utc_now(), access.service()).problems)

    with house.service.open(name, lambda _: None) as access, access.exclusive() as store:
        intend(store.crystals.connection, Erasure((Target(("miez",)),), Cut.WORDS))
        assert "forgetting has not ended" not in problems()
    assert "forgetting has not ended" in problems()


def test_what_stirs_while_it_is_settled_is_not_lost() -> None:
    managed = ManagedWorkspace("agent", Path("/agent"))
    watched = managed.changes  # the watcher's thread has it in hand
    managed.mark_changed(Change.SCRATCH)
    assert managed.take_changes() == {Change.SCRATCH}
    watched.add(Change.TRANSCRIPT)
    assert managed.take_changes() == {Change.TRANSCRIPT}
    assert managed.take_changes() == set()


def test_a_pass_that_meets_a_dream_is_made_up_for_when_it_has_ended(house: House) -> None:
    name, _ = house.workspace("agent")
    (managed,) = house.service._roster.all()
    keeper, scheduler = managed.keeper, house.service._scheduler
    assert keeper is not None
    now = utc_now()
    keeper.last_pass = before = now - timedelta(hours=1)
    with keeper.exclusive():  # as a dream
        scheduler._consolidate(managed, keeper, Decision(Action.PASS, None, "a pass", now), now)
        assert scheduler.passes.drained(PATIENCE_SECONDS)
    until(lambda: keeper.last_pass == before)
    house.service.start()
    until(lambda: keeper.last_pass is not None and keeper.last_pass >= now)
    assert house.looks(name) >= 0


def test_a_pass_that_was_taken_over_in_the_middle_is_no_problem_of_the_workspace(house: House) -> None:
    _, workspace = house.workspace("agent")
    (managed,) = house.service._roster.all()
    keeper = managed.keeper
    assert keeper is not None
    now = utc_now()
    workspace.fence.write_text("1000\n")  # as another process does, which took it while this one was stopped
    house.service._scheduler._consolidate(managed, keeper, Decision(Action.PASS, None, "a pass", now), now)
    assert house.service._scheduler.passes.drained(PATIENCE_SECONDS)
    until(lambda: keeper.last_pass is None)  # the next look decides again
    assert (keeper.pass_problem, keeper.holds_lock) == (None, False)
    house.service.start()
    until(lambda: managed.holds_lock)
    assert managed.problem is None


def test_dreams_that_nobody_waits_for_are_asked_for_once(house: House) -> None:
    house.workspace("agent")
    (managed,) = house.service._roster.all()
    assert managed.keeper is not None
    with managed.keeper.exclusive():
        scheduler = house.service._scheduler
        first = scheduler.dream(managed.keeper, Reason.MANUAL, Mode.AUTO, None)  # it waits for its turn in a slot
        until(first.running)
        asked = [scheduler.dream(managed.keeper, Reason.MANUAL, Mode.AUTO, None) for _ in range(50)]
        scheduler.dream(managed.keeper, Reason.FLOOR, Mode.AUTO, None)
        assert scheduler.dreams.waiting == 2
    house.service.start()
    for future in (first, *asked):
        assert isinstance(future.exception(PATIENCE_SECONDS), NothingToDoError)
