"""What the daemon must not keep to itself or forget: what was paid, what failed, and that a session has ended."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon.api.daemon import WorkspaceInfo
from daemon.api.operations.dreams import dream_now
from daemon.api.operations.notes import ingest
from daemon.api.operations.setup import configuration
from daemon.api.operations.upkeep import doctor
from daemon.config.settings import Config, DaemonSection, DreamSection, HttpSection, ModelSection, load
from daemon.dream.run import Mode
from daemon.service.daemon import Daemon
from daemon.service.jobs import MOST_UNREAD, Jobs, unread_problems
from daemon.service.keeper import Keeper
from daemon.upkeep.examine import Finding
from daemon.workspace.adoption import init_workspace
from daemon.workspace.status import Problem
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import BusyError, DreamdError, UnknownWorkspaceError
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from tests.daemon.service.test_scheduler import PATIENCE_SECONDS, folder, until
from tests.support.model_characters import prose
from tests.support.scripted_model import ScriptedModel, error

__all__ = ["folder"]  # a fixture
# So seldom that nothing happens by itself.
QUIET = DreamSection(interval_minutes=10_000, idle_minutes=10_000)


class House:
    """A service in this process, whose configuration may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = Config(dream=QUIET)
        self.stack = ExitStack()
        self.service = self.begun()

    def begun(self) -> Daemon:
        return Daemon(lambda: self.config, ())

    def anew(self) -> None:
        """As after a kill: nothing but what is on the disk is known."""
        self.service.stop(PATIENCE_SECONDS)
        self.service = self.begun()
        self.service.start()

    def workspace(self, name: str = "agent") -> tuple[str, Workspace]:
        workspace = init_workspace(self.folder / name)
        return self.service.register(workspace.root), workspace

    def figure(self, name: str, workspace: str) -> float:
        text = self.service.metrics.render()[0].decode()
        families = text_string_to_metric_families(text)
        found = [one for family in families for one in family.samples if one.name == f"dreamd_{name}_total"]
        return sum(one.value for one in found if one.labels.get("workspace") == workspace)

    def problems(self, name: str) -> list[Problem]:
        with self.service.open(name, lambda _: None) as access:
            service = access.service()
            assert service is not None
            return list(service.problems)

    def committed(self, name: str) -> list[str]:
        with self.service.open(name, lambda _: None) as access, access.read() as store:
            return [run.reason for run in store.ledger.runs(10) if run.outcome == "committed"]

    def keeper(self) -> Keeper:
        until(lambda: all(managed.holds_lock for managed in self.service._roster.all()))
        (found,) = [managed.keeper for managed in self.service._roster.all()]
        assert found is not None
        return found

    def kept(self) -> list[WorkspaceInfo]:
        return list(self.service.info().workspaces)


@pytest.fixture
def house(folder: Path) -> Iterator[House]:
    one = House(folder)
    with one.stack:
        yield one
        one.service.stop(PATIENCE_SECONDS)


@pytest.mark.full
def test_a_dream_that_is_refused_or_fails_was_paid_for_all_the_same(house: House) -> None:
    model = house.stack.enter_context(ScriptedModel(prose))
    house.config = Config(dream=QUIET, model=ModelSection(name="openai/gpt-4o-mini", api_base=model.url))
    house.stack.enter_context(pytest.MonkeyPatch.context()).setenv("OPENAI_API_KEY", "sk-of-a-test")
    house.service.reload()
    name, workspace = house.workspace()
    house.service.start()
    workspace.scratch.write_text("- Ada repaired the kettle of house 4\n", encoding="utf-8")
    with house.service.open(name, lambda _: None) as access, pytest.raises(DreamdError):
        access.dream(Reason.MANUAL, Mode.AUTO)
    with house.service.open(name, lambda _: None) as access, access.read() as store:
        spent = store.ledger.spent()
    assert spent.calls == model.count > 0
    assert house.figure("model_calls", name) == spent.calls
    assert house.figure("model_tokens", name) == spent.tokens
    assert house.figure("model_dollars", name) == pytest.approx(spent.usd)


def test_a_session_that_ended_is_known_after_a_kill(house: House) -> None:
    house.stack.enter_context(pytest.MonkeyPatch.context()).setenv("OPENAI_API_KEY", "sk-of-a-test")
    model = house.stack.enter_context(ScriptedModel(lambda _request, _number: error(401)))
    house.config = Config(dream=QUIET, model=ModelSection(name="openai/gpt-4o-mini", api_base=model.url))
    house.service.reload()
    name, workspace = house.workspace()
    workspace.scratch.write_text("- Ada repaired the kettle of house 4\n", encoding="utf-8")
    with house.service.open(name, lambda _: None) as access:  # it is not started: nobody dreams yet
        assert access.dream_soon(Reason.SESSION_END)
    house.config = Config(dream=QUIET)
    house.anew()
    until(lambda: house.committed(name))
    assert house.committed(name) == ["session end"]
    # It is dreamt once.
    until(lambda: not house.service.info().dreaming)
    house.anew()
    assert house.keeper().session_ended is None


def test_a_pass_that_fails_and_a_transcript_that_cannot_be_read_are_told_in_the_status(house: House) -> None:
    name, workspace = house.workspace()
    keeper, jobs = house.keeper(), Jobs(house.service.metrics, threading.Event())
    talk = workspace.root / "transcripts" / "chat.jsonl"
    talk.parent.mkdir()
    for work in (
        lambda: jobs.consolidate(keeper, None, utc_now()),
        lambda: jobs.ingest(keeper, transcripts=True),
        lambda: jobs.dream(keeper, Reason.MANUAL, Mode.AUTO, lambda _: None),
    ):
        talk.write_bytes(b"\x00\x01\x02\n" * 99)
        workspace.scratch.write_text(f"- Ada repaired kettle {utc_now().timestamp()}\n", encoding="utf-8")
        work()
        assert ["chat.jsonl" in problem.what for problem in house.problems(name)] == [True]
        talk.write_text('{"role": "user", "content": "I prefer tea"}\n', encoding="utf-8")
        jobs.consolidate(keeper, None, utc_now())
        assert house.problems(name) == []
    with keeper.store() as store:
        connection = store.crystals.connection
        connection.execute("CREATE TRIGGER torn BEFORE INSERT ON crystals BEGIN SELECT RAISE(ABORT, 'torn'); END")
    workspace.scratch.write_text("- Bo repaired the clock of house 5\n", encoding="utf-8")
    with pytest.raises(sqlite3.Error):
        jobs.consolidate(keeper, None, utc_now())
    (problem,) = house.problems(name)
    assert problem.what.startswith("the last consolidation pass failed: ")
    with keeper.store() as store:
        store.crystals.connection.execute("DROP TRIGGER torn")
    jobs.consolidate(keeper, None, utc_now())
    assert house.problems(name) == []


def test_of_many_transcripts_that_cannot_be_read_the_first_are_told() -> None:
    told = unread_problems([f"file {number} is no transcript; move it away" for number in range(MOST_UNREAD + 3)])
    assert len(told) == MOST_UNREAD + 1
    assert told[0] == Problem("file 0 is no transcript; move it away")
    assert told[-1].what.startswith("3 more")


def test_what_the_configuration_names_no_longer_is_let_go(house: House) -> None:
    (named, other) = (init_workspace(house.folder / name) for name in ("named", "other"))
    house.config = Config(dream=QUIET, daemon=DaemonSection(workspaces=(str(named.root), str(other.root))))
    registered, kept = house.workspace("registered")
    house.service.reload()
    assert {one.root for one in house.kept()} == {str(named.root), str(other.root), str(kept.root)}
    house.config = Config(dream=QUIET, daemon=DaemonSection(workspaces=(str(other.root),)))
    house.service.reload()
    assert {one.root for one in house.kept()} == {str(other.root), str(kept.root)}
    assert registered in {one.name for one in house.kept()}
    # A glob that finds nothing may be a disk that is away: nothing is let go for it.
    house.config = Config(dream=QUIET, daemon=DaemonSection(workspaces=(str(house.folder / "away" / "*"),)))
    house.service.reload()
    assert {one.root for one in house.kept()} == {str(other.root), str(kept.root)}


def test_who_is_not_there_cannot_be_let_go_and_who_is_there_can_be_twice(house: House) -> None:
    name, workspace = house.workspace()
    house.service.start()
    with pytest.raises(UnknownWorkspaceError):
        house.service.unregister("nobody")
    house.service.unregister(name)
    with pytest.raises(UnknownWorkspaceError):
        house.service.unregister(name)
    acquire(workspace, "test").release()


def test_a_port_that_changed_wants_a_restart_and_that_is_said(house: House) -> None:
    house.config = Config(dream=QUIET, http=HttpSection(port=7350))
    house.service.reload()
    (problem,) = house.service.info().problems
    assert "http.port" in problem.what
    assert "restart" in problem.advice
    house.config = Config(dream=QUIET)
    house.service.reload()
    assert house.service.info().problems == ()


def test_who_asks_during_a_pass_waits_for_it_and_during_a_dream_is_told(house: House) -> None:
    name, workspace = house.workspace()
    talk = workspace.root / "chat.jsonl"
    talk.write_text('{"role": "user", "content": "I prefer tea"}\n', encoding="utf-8")
    keeper = house.keeper()
    began, ends = threading.Event(), threading.Event()

    def pass_() -> None:
        with keeper.exclusive():
            began.set()
            ends.wait(PATIENCE_SECONDS)

    for dreaming in ("", "a dream runs now"):
        began.clear()
        ends.clear()
        thread = threading.Thread(target=pass_)
        thread.start()
        assert began.wait(PATIENCE_SECONDS)
        keeper.dreaming = dreaming
        with house.service.open(name, lambda _: None) as access:
            if dreaming:
                with pytest.raises(BusyError):
                    ingest.run(access, paths=(str(talk),))
                with pytest.raises(BusyError):
                    dream_now.run(access)
                ends.set()
            else:
                threading.Timer(0.2, ends.set).start()
                assert ingest.run(access, paths=(str(talk),)).turns == 1
        thread.join(PATIENCE_SECONDS)
        keeper.dreaming = ""


def test_the_configuration_in_force_names_its_file_also_after_a_reload(house: House, tmp_path: Path) -> None:
    name, _ = house.workspace()
    house.service.start()
    file = tmp_path / "mine.yaml"
    file.write_text("dream: {min_chunks: 77}\nembeddings: {download: false}\n")
    house.config = load(file, {"HOME": "/nonexistent"})
    house.service.reload()
    found = dict[str, Finding]()

    def is_looked_into() -> bool:
        """While the daemon has the stores itself, the doctor says to ask again."""
        with house.service.open(name, lambda _: None) as access:
            found.update({one.about: one for one in doctor.run(access).findings})
        return "state.db" in found

    until(is_looked_into)
    with house.service.open(name, lambda _: None) as access:
        (one,) = configuration.run(access, key="dream.min_chunks").entries
    assert (one.value, one.origin) == ("77", str(file))
    assert found["config"].what == f"valid ({file} and DREAMD_… variables)"
    assert found["service"].what == f"the daemon runs (process {os.getpid()}) and keeps this workspace"
