"""When the daemon dreams by itself and tends working memory, and what it says of it."""

import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon import sessions
from daemon.api.headers import SETTINGS_HEADER
from daemon.api.operations.dreams import dream_now
from daemon.api.operations.sessions import add, stats
from daemon.api.operations.signals import feel_event
from daemon.config.per_dream import DreamSettings
from daemon.workspace.stores import utc_now
from state.document.sections import SectionName
from state.signals.hormones import Feeling
from state.stores.database.opening import open_database
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.forked import ROOT
from tests.support.model_characters import good
from tests.support.scripted_model import Reply, Script, ScriptedModel, error
from tests.support.serving import Daemon, Home, noted, over_tcp, repairs, until
from tests.support.working import working

# An interval that is waited for in a test: a second, the shortest that there is.
SHORT = {"interval_minutes": 1 / 60}


def with_sections(workspace: Workspace) -> Workspace:
    """Its first breath is over: MEMORY.md has the seven sections."""
    sections = "".join(f"\n## {name.value}\n\n- It is known\n" for name in SectionName)
    workspace.document.write_text(f"# Working Memory State\n{sections}", encoding="utf-8")
    return workspace


def reasons(daemon: Daemon, workspace: Workspace) -> list[str]:
    return [
        one["reason"] for one in daemon.events("dream_committed") if one["workspace"].startswith(workspace.root.name)
    ]


def test_dreams_come_when_there_is_a_reason(home: Home) -> None:
    breath = home.workspace("breath")
    pressed, ended = (with_sections(home.workspace(name)) for name in ("pressed", "ended"))
    with home.serving() as daemon:
        noted(breath, repairs(4))
        noted(pressed, repairs(19))
        noted(ended, repairs(1))
        for workspace in (breath, pressed, ended):
            service = daemon.status(workspace).service
            assert service is not None
            assert service.at is not None
            assert service.at > datetime.now(UTC) + timedelta(minutes=10), service
        assert daemon.events("dream_started") == []
        assert home.dreamd("dream", ended.root, "--no-wait", "--reason", "session-end").status == 0
        noted(breath, ["The cat is called Miez"])
        noted(pressed, ["The cat is called Miez"])
        daemon.until(lambda: len(daemon.events("dream_committed")) == 3)
        assert reasons(daemon, breath) == ["first breath"]
        assert reasons(daemon, pressed) == ["pressure"]
        assert reasons(daemon, ended) == ["session end"]
    for workspace in (breath, pressed, ended):
        lived.assert_valid(workspace)
        assert lived.pending(workspace) == []


@pytest.mark.full
def test_the_end_of_a_session_is_not_forgotten_because_the_model_was_down(home: Home) -> None:
    """Its one note is too little for any other reason."""
    home.configure(dream=SHORT)
    workspace = with_sections(home.workspace())
    noted(workspace, ["The cat is called Miez"])
    with ScriptedModel(lambda request, number: good(request, number) if number > 1 else error(401)) as model:
        home.asks(model)
        with home.serving() as daemon:
            assert home.dreamd("dream", workspace.root, "--no-wait", "--reason", "session-end").status == 0
            daemon.until(lambda: daemon.events("dream_committed"))
            assert [one["reason"] for one in daemon.events("dream_failed")] == ["session end"]
            assert reasons(daemon, workspace) == ["session end"]
    assert lived.outcomes(workspace).count("committed") == 1


@pytest.mark.full
def test_a_spike_leaves_a_note_and_makes_a_pass_and_asks_no_model(home: Home) -> None:
    workspace = with_sections(home.workspace())
    with ScriptedModel(good) as model:
        home.asks(model)
        with home.serving() as daemon:
            for _ in range(2):
                levels = daemon.ask(workspace, feel_event, event=Feeling.ACHIEVEMENT, because="it works")
            assert levels.now.dopamine > 0.7
            # Written by the time that the event is answered.
            (automatic,) = lived.pending(workspace)
            assert automatic.startswith("Hormonal event: ")
            assert "it works" in automatic
            daemon.until(lambda: [one for one in daemon.events("pass_done") if one["reason"] == "hormone spike"])
            assert daemon.events("dream_started") == []
            assert lived.pending(workspace) == [automatic]
        assert model.count == 0


def test_a_dream_of_the_daemon_takes_along_what_its_command_sets(home: Home) -> None:
    workspace, port = home.workspace(), home.with_port()
    with ScriptedModel(good) as model, home.serving() as daemon:
        own = {
            "DREAMD_MODEL__NAME": "openai/gpt-4o-mini",
            "DREAMD_MODEL__API_BASE": model.url,
            "OPENAI_API_KEY": "sk-of-the-command",
        }
        noted(workspace, repairs(1))
        ended = home.dreamd("dream", workspace.root, DREAMD_SECRETS__REDACT="true", **own)
        assert (ended.status, "its own settings of secrets" in ended.err) == (0, True), ended.err
        assert [one["model"] for one in daemon.events("dream_committed")] == ["openai/gpt-4o-mini"]
        assert {one["authorization"] for one in model.headers} == {"Bearer sk-of-the-command"}
        wrong = home.dreamd("dream", workspace.root, DREAMD_DREAM__ASK="sometimes")
        assert (wrong.status, "DREAMD_DREAM__ASK" in wrong.err) == (2, True)
        # A file that it names goes along as a whole.
        (file := home.folder / "own.yaml").write_text("limits: {calls_per_dream: 4}\nlog: {level: debug}\n")
        noted(workspace, repairs(1, " later"))
        named = home.dreamd("dream", workspace.root, "--config", file)
        assert (named.status, "its own settings of log, not" in named.err) == (0, True), named.err
        # The next dream is the daemon's own again, and nobody at the port chooses a model.
        asked, token = model.count, home.token.read_text().strip()
        noted(workspace, repairs(2, " again"))
        settings = DreamSettings({"model": {"name": own["DREAMD_MODEL__NAME"], "api_base": model.url}}).header()
        path = f"/v1/workspaces/{workspace.name}/dream_now"
        status, body, _ = over_tcp(port, path, token, fields={}, **{SETTINGS_HEADER: settings})
        assert (status, model.count) == (200, asked), body
        assert "sk-of-the-command" not in daemon.log


class Slow:
    """A model that takes a while to answer, and counts who asks it at the same time."""

    def __init__(self) -> None:
        self.at_once = 0
        self.most = 0
        self.under_way: Counter[str] = Counter()
        self.most_of_one = 0
        self._lock = threading.Lock()

    def __call__(self, request: dict[str, Any], number: int) -> str:
        whose = next(word for word in json.dumps(request).split() if word.startswith("agent-"))
        with self._lock:
            self.at_once += 1
            self.under_way[whose] += 1
            self.most = max(self.most, self.at_once)
            self.most_of_one = max(self.most_of_one, *self.under_way.values())
        time.sleep(0.5)  # the model thinks
        with self._lock:
            self.at_once -= 1
            self.under_way[whose] -= 1
        return good(request, number)


@pytest.mark.full
def test_so_many_dreams_at_once_one_in_a_workspace_and_none_for_what_a_dream_wrote(home: Home) -> None:
    home.configure(daemon={"concurrent_dreams": 2}, dream=SHORT)
    workspaces = [home.workspace(f"agent-{number}") for number in range(6)]
    for workspace in workspaces:
        noted(workspace, repairs(5, f" of agent-{workspace.root.name[-1]} "))
    slow = Slow()
    with ScriptedModel(slow) as model:
        home.asks(model)
        with home.serving() as daemon:
            by_hand = home.dreamd("dream", workspaces[5].root)  # while all of them are due
            assert by_hand.status in {0, 3, 5}, by_hand
            daemon.until(lambda: len(daemon.events("dream_committed")) == 6)
            assert model.count == 6
            assert slow.most == 2
            assert slow.most_of_one == 1
        assert model.count == 6
    for workspace in workspaces:
        assert lived.outcomes(workspace).count("committed") == 1
        assert lived.calls(workspace) == 1
        lived.assert_valid(workspace)


@pytest.mark.full
def test_status_tells_the_truth_while_a_dream_runs_and_afterwards(home: Home) -> None:
    answered = threading.Event()

    def when_told(request: dict[str, Any], number: int) -> Reply:
        assert answered.wait(300)
        return Reply(good(request, number), usage=(4_000, 400))

    workspace = home.workspace()
    noted(workspace, repairs(5))
    with ScriptedModel(when_told) as model:
        home.asks(model)
        with home.serving() as daemon:
            daemon.until(lambda: model.count == 1)
            inside = json.loads(home.dreamd("status", "-w", workspace.root, "--json").out)
            assert inside["service"]["pid"] == daemon.process.pid
            assert inside["service"]["dreaming"] == inside["next_dream"] == "a dream runs now (it has gathered)"
            assert inside["last_dream"]["outcome"] == "running"
            outside = home.dreamd("status")
            assert "1 running, 0 waiting" in outside.out
            assert str(workspace.root) in outside.out
            answered.set()
            daemon.until(lambda: daemon.events("dream_committed"))
            inside = json.loads(home.dreamd("status", "-w", workspace.root, "--json").out)
            dream, spending = inside["last_dream"], inside["spending"]
            assert dream["tokens"] == spending["tokens"] == 4_400
            assert dream["usd"] == spending["usd"] > 0
            assert (inside["version"], inside["service"]["dreaming"]) == (1, "")
            outside = json.loads(home.dreamd("status", "--json").out)
            assert (outside["daemon"]["dreaming"], outside["daemon"]["waiting"]) == (0, 0)
            assert outside["workspaces"][0]["spending"] == spending
    assert home.dreamd("status").status == 2


def story(home: Home, workspace: Workspace, session: str) -> list[tuple[str, str]]:
    """`dreamd session events`, from the beginning: (action, reason)."""
    ended = home.dreamd("session", "events", session, "-w", workspace.root, "--json")
    assert ended.status == 0, ended.err
    return [(one["action"], one["reason"]) for one in reversed(json.loads(ended.out)["events"])]


@contextmanager
def illegible_items(workspace: Workspace) -> Iterator[None]:
    """Nobody can read when an item came."""
    with closing(open_database(workspace.database)) as connection:
        before = connection.execute("SELECT key, created_at FROM items").fetchall()
        connection.execute("UPDATE items SET created_at = 'never'")
        yield
        connection.executemany("UPDATE items SET created_at = ? WHERE key = ?", [(at, key) for key, at in before])


def test_what_was_due_while_no_daemon_ran_is_done_when_one_can(home: Home) -> None:
    """Maintenance that fails is told once in a while, and tried again by the next daemon."""
    workspace = home.workspace()
    with working(workspace.root, environment=home.environment()) as store:
        before = utc_now() - timedelta(hours=2)
        sessions.add(store, "chat", sessions.Draft("The safe is behind the clock", "critical"), before)
        sessions.add(store, "chat", sessions.Draft("It rains", "low"), before)
        assert sessions.stats(store.connection, "chat", utc_now()).total_count == 2
    with illegible_items(workspace), home.serving() as daemon:
        daemon.until(lambda: daemon.events("sessions_not_maintained"))
        assert daemon.found(workspace, "safe behind the clock") == []
        daemon.ask(workspace, add, session_id="other", content="Meanwhile it works", priority="high")
        daemon.terminated()
        assert len(daemon.events("sessions_not_maintained")) <= 3
    with home.serving() as daemon:
        daemon.until(lambda: daemon.events("sessions_maintained"))
        assert daemon.found(workspace, "safe behind the clock") == ["The safe is behind the clock"]
        standing = daemon.ask(workspace, stats, session_id="chat")
        assert (standing.total_count, standing.promoted_count) == (1, 1)
        assert story(home, workspace, "chat") == [
            ("opened", "ttl"),
            *[("added", "")] * 2,
            ("archived", "expired"),
            ("promoted", "critical_and_accessed"),
        ]


# ------------------------------------------------------------- the process of a dream with a model

NEVER = {"interval_minutes": 10_000, "idle_minutes": 10_000}


def late_the_first_time(request: dict[str, Any], number: int) -> Reply:
    return Reply(good(request, number), wait_seconds=600 if number == 1 else 0)


@contextmanager
def a_model(home: Home, script: Script) -> Iterator[tuple[Workspace, ScriptedModel]]:
    """A workspace whose dreams ask this model, and begin when somebody says so."""
    home.configure(dream=NEVER)
    workspace = home.workspace()
    with ScriptedModel(script) as model:
        home.asks(model)
        yield workspace, model


def processes(daemon: Daemon) -> list[int]:
    """The numbers of those that were started."""
    return [int(one["process"]) for one in daemon.events("dream_process_started")]


def is_there(number: int) -> bool:
    return Path(f"/proc/{number}").exists()


@pytest.mark.full
def test_a_process_that_is_killed_costs_a_try_and_not_the_dream(home: Home) -> None:
    with a_model(home, late_the_first_time) as (workspace, model):
        with home.serving() as daemon:
            notes = noted(workspace, repairs(3))
            assert daemon.ask(workspace, dream_now, wait=False).outcome is None
            daemon.until(lambda: model.count == 1)
            os.kill(processes(daemon)[0], signal.SIGKILL)
            daemon.until(lambda: daemon.events("dream_committed"))
            assert len(processes(daemon)) == 2
            (died,) = daemon.events("dream_process_died")
            assert (died["level"], died["process"]) == ("warning", processes(daemon)[0])
            assert daemon.events("dream_failed") == []
            assert "sk-of-a-test" not in daemon.log
            until(lambda: not any(map(is_there, processes(daemon))))  # it ends with its dream, the daemon goes on
        # What was asked twice was charged twice: the provider may have answered both times.
        assert model.requests[0] == model.requests[1]
    lived.assert_once(workspace, notes)
    rows = lived.rows(workspace, "SELECT usable FROM calls ORDER BY rowid")
    assert [row["usable"] for row in rows] == [0, 1]
    assert lived.calls(workspace) == model.count


def test_who_is_interrupted_is_told_that_the_daemon_goes_on_and_who_comes_next_follows_its_dream(home: Home) -> None:
    told = threading.Event()

    def when_told(request: dict[str, Any], number: int) -> Reply:
        assert told.wait(300)
        return Reply(good(request, number))

    with a_model(home, when_told) as (workspace, model), home.serving() as daemon:
        notes = noted(workspace, repairs(3))
        with home.beginning("dream", workspace.root) as first:
            daemon.until(lambda: model.count == 1)
            first.send_signal(signal.SIGINT)
            assert "interrupted; the dream goes on in the daemon: " in first.communicate()[1]
            assert first.returncode == 130
        assert "a dream runs now" in home.dreamd("dream", workspace.root, "--dry-run").err
        with home.beginning("dream", workspace.root) as second:
            assert second.stderr is not None
            assert second.stdout is not None
            assert "a dream was running already" in next(second.stderr)
            told.set()
            steps, shown = second.stderr.read(), second.stdout.read()
            assert (second.wait(), model.count) == (0, 1)
        assert all(f"  {step} " in steps for step in ("gathered", "answered", "saved"))
        assert "version 1" in shown
    lived.assert_once(workspace, notes)


def test_without_a_daemon_a_dream_is_followed_too_and_an_interrupted_one_goes_on_later(home: Home) -> None:
    told = threading.Event()

    def when_told(request: dict[str, Any], number: int) -> Reply:
        assert told.wait(300)
        return Reply(good(request, number))

    def interrupted(dream: Any) -> str:
        dream.send_signal(signal.SIGINT)
        said: str = dream.communicate()[1]
        assert dream.returncode == 130
        return said

    with a_model(home, when_told) as (workspace, model):
        notes = noted(workspace, repairs(3))
        with home.beginning("dream", workspace.root) as first:
            until(lambda: model.count == 1)
            assert "It is dreaming" in home.dreamd("status", workspace.root).out
            with home.beginning("dream", workspace.root) as second:
                assert f"process {first.pid} is dreaming already" in next(second.stderr or iter(()))
                assert f"process {first.pid} goes on with its dream" in interrupted(second)
            assert "has stopped and its notes wait" in interrupted(first)
        with home.beginning("dream", workspace.root) as third:
            until(lambda: model.count == 2)
            with home.beginning("dream", workspace.root) as one, home.beginning("dream", workspace.root) as other:
                followers = (one, other)
                for each in followers:
                    assert "is dreaming already" in next(each.stderr or iter(()))
                told.set()
                ended = [(each.communicate()[0], each.returncode) for each in followers]
                assert [("version 1: " in shown, status) for shown, status in ended] == [(True, 0), (True, 0)]
                assert (third.wait(), model.count) == (0, 2)
    lived.assert_once(workspace, notes)


@pytest.mark.full
def test_who_follows_a_dream_is_told_of_its_failure_too(home: Home) -> None:
    told = threading.Event()

    def fails_when_told(_request: dict[str, Any], _number: int) -> Reply:
        assert told.wait(300)
        return error(401)

    with a_model(home, fails_when_told) as (workspace, model), home.serving() as daemon:
        noted(workspace, repairs(3))
        daemon.ask(workspace, dream_now, wait=False)
        daemon.until(lambda: model.count == 1)
        with home.beginning("dream", workspace.root) as second:
            assert second.stderr is not None
            assert "followed" in next(second.stderr)
            told.set()
            assert "401" in second.stderr.read()
            assert second.wait() == 1


def test_a_process_ends_with_its_daemon_however_that_ends(home: Home) -> None:
    """And the dream goes on at the next start."""
    with a_model(home, late_the_first_time) as (workspace, model):
        with home.serving() as daemon:
            notes = noted(workspace, repairs(3))
            daemon.ask(workspace, dream_now, wait=False)
            daemon.until(lambda: model.count == 1)
            (number,) = processes(daemon)
            daemon.send(signal.SIGKILL)
            daemon.ended()
            until(lambda: not is_there(number))
        with home.serving() as daemon:
            daemon.until(lambda: daemon.events("dream_committed"))
        assert model.count == 2
    lived.assert_once(workspace, notes)
    assert lived.outcomes(workspace) == ["committed"]


ASKED = """\
import json, pathlib, sys
sys.path.insert(0, {root!r})
from tests.support.model_characters import good

prompt = sys.stdin.read()
pathlib.Path({seen!r}).write_text(json.dumps([sys.argv[1:], prompt]))
print("Certainly:", good({{"messages": [{{}}, {{"content": prompt}}]}}, 1))
"""


@pytest.mark.parametrize("serves", [False, True])
def test_a_command_writes_a_dream_and_says_what_is_wrong_with_it(home: Home, *, serves: bool) -> None:
    seen, program = home.folder / "seen", home.folder / "ask"
    program.write_text(f"#!{sys.executable}\n{ASKED.format(root=str(ROOT), seen=str(seen))}")
    program.chmod(0o755)
    name = f"command:{program} -m 'of mine'"
    home.configure(dream=NEVER, model={"name": name})
    workspace = home.workspace()
    with home.serving() if serves else nullcontext():
        notes = noted(workspace, repairs(3))
        assert f"{name} is asked with {program}: at most 5 calls" in home.dreamd("doctor", workspace.root).out
        shown = home.dreamd("dream", workspace.root, "--dry-run")
        assert (shown.status, "gathered" in shown.err, lived.lines(workspace)) == (0, True, [])
        dreamt = home.dreamd("dream", workspace.root)
        assert dreamt.status == 0, dreamt.err
        assert all(f"  {step} " in dreamt.err for step in ("gathered", "answered", "checked", "made room", "saved"))
        assert re.search(rf"{name}: 1 call, [\d,]+ tokens, price not known, 3 notes", dreamt.out), dreamt.out
        words, prompt = json.loads(seen.read_text())
        assert (words, all(note in prompt for note in notes)) == (["-m", "of mine"], True)
        lived.assert_once(workspace, notes)
        assert lived.calls(workspace) == 2

        noted(workspace, ["The cat is called Miez"])
        program.write_text("#!/bin/sh\necho 'Error: no such model' >&2\nexit 3\n")
        failed = home.dreamd("dream", workspace.root)
        assert f"{name} failed: it ended with status 3: Error: no such model; run '{program}' by hand" in failed.err
        assert (failed.status, lived.pending(workspace)) == (1, ["The cat is called Miez"])
        program.unlink()
        missing = home.dreamd("dream", workspace.root)
        assert (missing.status, f"{name}: there is no program '{program}'; install it" in missing.err) == (0, True)
        assert "there is no program" in home.dreamd("doctor", workspace.root).out
        lived.assert_once(workspace, [*notes, "The cat is called Miez"])
        other = home.dreamd("dream", workspace.root, DREAMD_MODEL__NAME="command:touch x")
        assert ("dreams with no command but the one in its own" in other.err) is serves


@pytest.mark.full
def test_an_agent_that_is_asked_ends_with_its_daemon_and_the_dream_goes_on(home: Home) -> None:
    home.configure(dream=NEVER, model={"name": "claude-code"})
    workspace, program = home.workspace(), home.folder / ".local" / "bin" / "claude"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho $$ > {home.folder}/asked\nsleep 600\n")
    program.chmod(0o755)
    with home.serving() as daemon:
        notes = noted(workspace, repairs(3))
        daemon.ask(workspace, dream_now, wait=False)
        daemon.until((home.folder / "asked").exists)
        number = int((home.folder / "asked").read_text())
        daemon.terminated()
        until(lambda: not is_there(number))
    program.unlink()  # its user has taken it away: the dream goes on without a model
    with home.serving() as daemon:
        daemon.until(lambda: daemon.events("dream_committed"))
        assert "there is no program 'claude'" in daemon.events("dream_noticed")[0]["problem"]
    lived.assert_once(workspace, notes)
    assert lived.outcomes(workspace) == ["committed"]
