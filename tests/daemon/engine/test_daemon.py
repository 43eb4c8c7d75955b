"""A daemon of several workspaces, in this process: what befalls one is not felt in the others; nothing is lost."""

import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon.api.operations.dreams import dream_now
from daemon.api.operations.notes import ingest, working_memory_note
from daemon.api.operations.setup import configuration
from daemon.api.operations.upkeep import doctor
from daemon.config.settings import Config, DreamSection, HttpSection, load
from daemon.dream.run import Mode
from daemon.engine import daemon as daemon_module
from daemon.engine import managed as managed_module
from daemon.engine.daemon import Daemon
from daemon.engine.managed import ManagedWorkspace
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.checks import Finding
from daemon.workspace.scan import Change
from daemon.workspace.status import Problem, status
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import BusyError, NothingToDoError, NotKeptError, UnknownWorkspaceError, UsageError
from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.disk.lock import acquire
from state.stores.disk.places import PLACE, keep_place
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import intend
from state.stores.erasing.plan import Erasure
from tests.support.folders import PLACE as FOLDERS
from tests.support.notes import pending_notes
from tests.support.serving import PATIENCE_SECONDS, until

# An interval of a second, so that something is due often; and so seldom that nothing happens by itself.
BUSTLING = Config(dream=DreamSection(interval_minutes=1 / 60))
QUIET = DreamSection(interval_minutes=10_000, idle_minutes=10_000)
TALK = '{"role": "user", "content": "I prefer tea"}\n'


class House:
    """A daemon in this process, whose configuration may change."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder = folder
        self.config = config
        self.stack = ExitStack()
        self.opening: Callable[[Path], Workspace] = open_workspace
        self.service = self.begun()

    def begun(self) -> Daemon:
        return Daemon(lambda: self.config, (), self._open)

    def _open(self, root: Path) -> Workspace:
        return self.opening(root)

    def workspace(self, name: str = "agent") -> tuple[str, Workspace]:
        workspace = init_workspace(self.folder / name)
        return self.service.register(workspace.root), workspace

    def managed(self) -> ManagedWorkspace:
        (found,) = self.service.all()
        return found

    def runs(self, name: str, outcome: str) -> list[str]:
        """The reasons of runs that ended so."""
        with self.service.open(name, lambda _: None) as access, access.read() as store:
            return [run.reason for run in store.ledger.runs(50) if run.outcome == outcome for _ in range(run.times)]

    def looks(self, name: str) -> int:
        """How many looks at it came to nothing."""
        return len(self.runs(name, "skipped"))

    def note(self, name: str, text: str) -> None:
        with self.service.open(name, lambda _: None) as access:
            working_memory_note.run(access, note=text)

    def problems(self, name: str) -> list[Problem]:
        with self.service.open(name, lambda _: None) as access:
            service = access.service()
            assert service is not None
            return list(service.problems)

    def passed(self, name: str) -> float:
        return self.figure("passes", name)

    def figure(self, figure: str, workspace: str) -> float:
        families = text_string_to_metric_families(self.service.metrics.render()[0].decode())
        found = [one for family in families for one in family.samples if one.name == f"dreamd_{figure}_total"]
        return sum(one.value for one in found if one.labels.get("workspace") == workspace)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="dreamd-", dir=FOLDERS))
    (path / "run").mkdir()
    for name in ("RUNTIME_DIR", "STATE_HOME", "DATA_HOME", "CONFIG_HOME"):
        monkeypatch.setenv(f"XDG_{name}", str(path / name[:3].lower()))
    monkeypatch.delenv("DREAMD_SOCKET", raising=False)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    """Something is due every second."""
    one = House(folder, BUSTLING)
    with one.stack:
        yield one
        assert one.service.stop(PATIENCE_SECONDS)


@pytest.fixture
def quiet(folder: Path) -> Iterator[House]:
    """Nothing is due by itself, but a pass for what is written to a transcript."""
    one = House(folder, Config(dream=QUIET))
    with one.stack:
        yield one
        assert one.service.stop(PATIENCE_SECONDS)


@contextmanager
def at_work(house: House, name: str, *, dreaming: str = "") -> Iterator[threading.Event]:
    """Somebody is at it for long, until the event is set."""
    held, entered, leave = house.service.get(name).held, threading.Event(), threading.Event()
    assert held is not None

    def stay() -> None:
        with held.exclusive():
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=stay)
    thread.start()
    assert entered.wait(PATIENCE_SECONDS)
    held.dreaming = dreaming
    try:
        yield leave
    finally:
        held.dreaming = ""
        leave.set()
        thread.join(PATIENCE_SECONDS)


# --- what is due, and what is asked for


def test_without_notes_it_looks_and_skips_and_says_so_in_one_row(house: House) -> None:
    name, workspace = house.workspace("quiet")
    house.service.start()
    until(lambda: house.looks(name) >= 3)
    with house.service.open(name, lambda _: None) as access, access.read() as store:
        (run,) = store.ledger.runs(10)
    assert (run.outcome, run.detail) == ("skipped", "0 new, 5 wanted")
    assert not workspace.document.exists()


def test_dreams_that_nobody_waits_for_are_asked_for_once(quiet: House) -> None:
    name, _ = quiet.workspace()
    quiet.service.start()
    with at_work(quiet, name), quiet.service.open(name, lambda _: None) as access:
        for _ in range(50):
            assert access.dream_soon(Reason.MANUAL)
        assert len(quiet.managed().asked) <= 1
    until(lambda: not quiet.managed().asked)
    until(lambda: quiet.looks(name))


def test_a_dream_that_is_asked_for_while_a_client_dreams_waits_at_rest(
    quiet: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _ = quiet.workspace()
    quiet.service.start()
    until(lambda: quiet.passed(name) == 1)
    managed, steps = quiet.managed(), list[float]()
    step = managed.step

    def counted() -> float:
        steps.append(time.monotonic())
        return step()

    monkeypatch.setattr(managed, "step", counted)
    with at_work(quiet, name, dreaming="a dream runs now"), quiet.service.open(name, lambda _: None) as access:
        assert access.dream_soon(Reason.MANUAL)
        time.sleep(1.0)
        assert len(steps) <= 3
        assert managed.asked == [Reason.MANUAL]
        with pytest.raises(BusyError, match="a dream runs now"):
            managed.dream(Reason.MANUAL, Mode.AUTO)
    until(lambda: quiet.looks(name))


def test_who_asks_during_a_pass_waits_for_it_and_during_a_dream_is_told(quiet: House) -> None:
    name, workspace = quiet.workspace()
    quiet.service.start()
    talk = workspace.root / "chat.jsonl"
    talk.write_text(TALK, encoding="utf-8")
    with at_work(quiet, name, dreaming="a dream runs now"), quiet.service.open(name, lambda _: None) as access:
        with pytest.raises(BusyError):
            ingest.run(access, paths=(str(talk),))
        with pytest.raises(BusyError):
            dream_now.run(access)
    with at_work(quiet, name) as leave, quiet.service.open(name, lambda _: None) as access:
        threading.Timer(0.2, leave.set).start()
        assert ingest.run(access, paths=(str(talk),)).turns == 1


def test_a_pass_that_meets_somebody_at_work_is_made_up_for(quiet: House) -> None:
    name, workspace = quiet.workspace()
    quiet.service.start()
    until(lambda: quiet.passed(name) == 1)  # it has no copy of state.db
    managed = quiet.managed()
    until(lambda: managed.next is not None and managed.next.action == "wait")
    before = managed.changed
    with at_work(quiet, name):
        (workspace.root / "transcripts").mkdir()
        (workspace.root / "transcripts" / "chat.jsonl").write_text(TALK, encoding="utf-8")
        until(lambda: managed.facts_of[0] == managed.changed > before)  # it is taken in, and the pass is tried
        time.sleep(0.5)
        assert quiet.passed(name) == 1
    until(lambda: quiet.passed(name) == 2)


def test_a_dry_run_that_nobody_waits_for_is_refused(quiet: House) -> None:
    name, workspace = quiet.workspace("agent")
    quiet.service.start()
    quiet.note(name, "The cat is called Miez")
    with quiet.service.open(name, lambda _: None) as access, pytest.raises(UsageError, match="nobody waits"):
        dream_now.answer(access, dream_now.bind(mode=Mode.DRY, wait=False))
    with quiet.service.open(name, lambda _: None) as access:
        access.dream(Reason.MANUAL, Mode.DRY)
        assert not workspace.document.exists()
        access.dream(Reason.MANUAL, Mode.AUTO)
        assert workspace.document.exists()
        with pytest.raises(NothingToDoError):
            access.dream(Reason.MANUAL, Mode.AUTO)


# --- what is wrong


def unread(workspace: Workspace) -> list[Problem]:
    return [one for one in status(workspace, Config(), utc_now()).problems if "transcripts" in one.what]


def test_a_pass_that_fails_and_a_transcript_that_cannot_be_read_are_told_until_they_are_mended(quiet: House) -> None:
    name, workspace = quiet.workspace()
    quiet.service.start()
    talk = workspace.root / "transcripts" / "chat.jsonl"
    talk.parent.mkdir()
    talk.write_bytes(b"\x00\x01\x02\n" * 99)
    until(lambda: ["chat.jsonl" in problem.what for problem in unread(workspace)] == [True])
    talk.write_text(TALK, encoding="utf-8")
    until(lambda: unread(workspace) == [])
    torn = "CREATE TRIGGER torn BEFORE INSERT ON crystals BEGIN SELECT RAISE(ABORT, 'torn'); END"
    with closing(sqlite3.connect(workspace.database)) as connection:
        connection.execute(torn)
        talk.write_text(TALK + TALK.replace("tea", "coffee"), encoding="utf-8")
        until(lambda: "the last consolidation pass failed: " in str(quiet.problems(name)))
        connection.execute("DROP TRIGGER torn")
        talk.write_text(TALK + TALK.replace("tea", "cocoa"), encoding="utf-8")
        until(lambda: quiet.problems(name) == [])


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


class Disk:
    """Opens workspaces; of those below `hung` it says nothing before it is back, as a drive of the network may."""

    def __init__(self, hung: Path) -> None:
        self.hung = hung
        self.back = threading.Event()
        self.waiting = 0

    def open(self, root: Path) -> Workspace:
        if root.is_relative_to(self.hung):
            self.waiting += 1
            assert self.back.wait(PATIENCE_SECONDS)
        return open_workspace(root)


def test_a_disk_that_hangs_keeps_nobody_else_waiting(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (managed_module, daemon_module):
        monkeypatch.setattr(module, "TICK_SECONDS", 1.0)
    monkeypatch.setattr(managed_module, "_HANGS_SECONDS", 0.2)
    service, folder = house.service, house.folder
    service._shared.openings._patience = 0.5
    hung = [init_workspace(folder / "hung" / str(number)) for number in range(6)]  # more than there are slots
    fine = init_workspace(folder / "zebra")
    disk = Disk(folder / "hung")
    house.opening = disk.open
    try:
        service.start()
        assert not service.unready_reason()
        assert len(service.info().workspaces) == 7
        name = fine.name
        for number in range(5):
            house.note(name, f"House {number} was repaired by Ada")
        tick = service.last_tick
        until(fine.document.exists)
        until(lambda: service.last_tick > tick)
        until(lambda: disk.waiting == len(hung))
        until(lambda: all(one.hanging for one in service.all() if one.root != fine.root))
        told = [one.problem for one in service.info().workspaces if one.problem is not None]
        assert len(told) == len(hung)
        assert all("has not answered" in one.what for one in told)
        assert [one.workspace for one in service.status().workspaces] == [str(fine.root)]
        with pytest.raises(NotKeptError, match="has not answered"):
            house.note(hung[0].name, "not now")
        service.reload()
        assert house.looks(name) >= 0
    finally:
        disk.back.set()
    until(lambda: [one.problem for one in service.info().workspaces] == [None] * 7)
    assert all(one.holds_lock for one in service.all())


# --- several at once


def test_a_released_workspace_is_free_even_when_it_was_about_to_be_looked_at(house: House) -> None:
    kept = [house.workspace(f"agent-{number}") for number in range(12)]
    house.service.start()
    for number in range(4 * len(kept)):
        name, workspace = kept[number % len(kept)]
        house.service.reload()  # all are looked at
        house.service.unregister(name)
        acquire(workspace, "test").release()
        with pytest.raises(UnknownWorkspaceError):
            house.service.unregister(name)
        house.service.register(workspace.root)
        assert [one.problem for one in house.service.info().workspaces] == [None] * len(kept)


def test_a_workspace_that_is_being_repaired_is_left_to_who_repairs_it(house: House) -> None:
    name, workspace = house.workspace("agent")
    house.service.start()
    until(lambda: house.looks(name))
    with house.service.open(name, lambda _: None) as access, access.offline() as vacant:
        for _ in range(3):
            house.service.reload()  # it is looked at
            time.sleep(0.1)
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
    assert house.managed().holds_lock
    with pytest.raises(BusyError):
        acquire(workspace, "test")


def test_a_look_during_which_a_repair_begins_is_no_failure(quiet: House) -> None:
    name, _ = quiet.workspace("agent")
    quiet.service.start()
    until(lambda: quiet.managed().facts)
    managed, over, met = quiet.managed(), threading.Event(), list[Exception]()

    def look() -> None:
        while not over.is_set():
            managed.mark_changed(Change.SCRATCH)
            try:
                managed.step()
            except Exception as error:  # noqa: BLE001 - it would be a problem, and an error in the log
                met.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    with quiet.service.open(name, lambda _: None) as access:
        for number in range(60):
            with suppress(BusyError), access.offline():
                pass
            time.sleep(number % 6 / 1000)
    over.set()
    thread.join(PATIENCE_SECONDS)
    assert met == []


def test_a_forgetting_that_the_daemon_does_is_no_problem_while_it_runs(house: House) -> None:
    name, workspace = house.workspace("agent")
    house.service.start()

    def problems() -> str:
        with house.service.open(name, lambda _: None) as access:
            return str(status(workspace, Config(), utc_now(), access.service()).problems)

    with house.service.open(name, lambda _: None) as access, access.exclusive() as store:
        intend(store.connection, Erasure((Target(("miez",)),), Cut.WORDS))
        assert "forgetting has not ended" not in problems()
    until(lambda: "forgetting has not ended" in problems())  # of a pass nobody knows that it is none


def test_a_workspace_is_kept_from_its_first_call_on_unless_its_owner_says_no(quiet: House) -> None:
    """Made, moved, or let go by another process: the place says so at the next call, and at each tick."""
    quiet.service.start()
    made, left = (init_workspace(quiet.folder / name) for name in ("made", "left"))
    keep_place(left.state.parent, left.name, kept=False)
    assert quiet.service.meant(made.name) == made.name
    quiet.note(made.name, "The cat is called Miez")
    with pytest.raises(UnknownWorkspaceError):
        quiet.note(left.name, "The dog is called Rex")
    moved = made.root.rename(quiet.folder / "moved")
    assert open_workspace(moved).state == made.state
    quiet.note(made.name, "The parrot is called Kiki")
    assert [one.root for one in quiet.service.info().workspaces] == [str(moved)]
    assert len(pending_notes(open_workspace(moved))) == 2
    keep_place(made.state.parent, made.name, kept=False)
    quiet.service.look_up_all()
    assert quiet.service.info().workspaces == ()
    acquire(open_workspace(moved), "test").release()


def test_a_folder_that_was_made_again_has_one_memory(quiet: House) -> None:
    quiet.service.start()
    before = init_workspace(quiet.folder / "agent")
    quiet.note(before.name, "The cat is called Miez")
    shutil.rmtree(before.root)
    after = init_workspace(quiet.folder / "agent")
    quiet.service.look_up_all()
    quiet.note(after.name, "The dog is called Rex")
    quiet.service.get(before.name).held.release()  # type: ignore[union-attr]
    quiet.service.get(before.name).acquire()
    quiet.service.look_up_all()
    assert [one.name for one in quiet.service.info().workspaces] == [after.name]


def test_a_damaged_place_is_a_problem_that_ends_when_it_is_written_again(quiet: House) -> None:
    workspace = init_workspace(quiet.folder / "agent")
    row = workspace.state / PLACE
    before = row.read_bytes()
    row.write_bytes(b"")
    quiet.service.start()
    (problem,) = quiet.service.info().problems
    assert str(row) in problem.what
    row.write_bytes(before)
    quiet.service.look_up_all()
    assert (quiet.service.info().problems, quiet.managed().root) == ((), workspace.root)


def test_a_new_interval_holds_at_once(quiet: House) -> None:
    name, workspace = quiet.workspace()
    quiet.note(name, "House 1 was repaired by Ada")
    quiet.service.start()
    until(lambda: quiet.passed(name) == 1 and quiet.managed().next is not None)
    quiet.config = Config(dream=DreamSection(interval_minutes=1 / 60, min_chunks=1))
    quiet.service.reload()
    until(workspace.document.exists)


def test_a_port_that_changed_wants_a_restart_and_that_is_said(quiet: House) -> None:
    quiet.config = Config(dream=QUIET, http=HttpSection(port=7350))
    quiet.service.reload()
    (problem,) = quiet.service.info().problems
    assert "http.port" in problem.what
    assert "restart" in problem.advice
    quiet.config = Config(dream=QUIET)
    quiet.service.reload()
    assert quiet.service.info().problems == ()


def test_the_configuration_in_force_names_its_file_also_after_a_reload(quiet: House, tmp_path: Path) -> None:
    name, _ = quiet.workspace()
    quiet.service.start()
    file = tmp_path / "mine.yaml"
    file.write_text("dream: {min_chunks: 77}\nembeddings: {idle_minutes: 5}\n")
    quiet.config = load(file, {"HOME": "/nonexistent"})
    quiet.service.reload()
    found = dict[str, Finding]()

    def is_looked_into() -> bool:
        """While the daemon has the stores itself, the doctor says to ask again."""
        with quiet.service.open(name, lambda _: None) as access:
            found.update({one.about: one for one in doctor.run(access).findings})
        return "state.db" in found

    until(is_looked_into)
    with quiet.service.open(name, lambda _: None) as access:
        (one,) = configuration.run(access, key="dream.min_chunks").entries
    assert (one.value, one.origin) == ("77", str(file))
    assert found["config"].what == f"valid ({file} and DREAMD_… variables)"
    assert found["service"].what == f"the daemon runs (process {os.getpid()}) and keeps this workspace"
