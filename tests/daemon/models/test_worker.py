"""The process that asks models for the daemon: what it answers, how it ends, and what its death costs."""

import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from daemon.models import worker as module
from daemon.models.errors import TransientError, UnusableReplyError
from daemon.models.metered import Call
from daemon.models.worker import ModelWorker, WorkerModel, spawned
from state.errors import DreamdError, ModelError, StoppedError
from tests.support import forked
from tests.support.conversing import ASKING, KEY, REQUEST, Serve, model_at, never, retried, saying
from tests.support.scripted_model import SCRIPTS, Reply, Script, ScriptedModel, error, in_turn
from tests.support.serving import until

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.usefixtures("only_loopback")
Told = list[tuple[int, str | None]]


class OfItsOwn(ModelWorker):
    """A worker with an interpreter of its own, as the daemon starts it; those of the other tests are forked."""

    start = staticmethod(spawned)


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def worker(told: Told, only_loopback: None) -> Iterator[ModelWorker]:
    with closing(ModelWorker(lambda number, how: told.append((number, how)))) as one:
        yield one


def asking(worker: ModelWorker, server: ScriptedModel, name: str = "openai/gpt-4o-mini") -> WorkerModel:
    return WorkerModel(worker, name, api_base=server.url, timeout_seconds=30.0, max_output_tokens=400)


def is_there(number: int) -> bool:
    """Whether the process has not ended; one that nobody has waited for has."""
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def killed(worker: ModelWorker) -> None:
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    number = worker.pid
    until(lambda: not is_there(number))


@pytest.mark.full
def test_a_worker_knows_the_keys_and_nothing_of_the_daemon_and_imports_nothing_from_where_it_stands(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("litellm", "httpx", "json"):
        (tmp_path / f"{name}.py").write_text(f"open('{tmp_path}/ran', 'w')\n")
    (tmp_path / ".env").write_text("STRAY=1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DREAMD_TOKEN", "token-of-the-daemon")
    monkeypatch.setenv("NOTIFY_SOCKET", "@nobody")
    server = serve(in_turn(Reply(content="tea it is", usage=(1000, 500)), error(500)))
    with closing(OfItsOwn()) as worker:
        model = asking(worker, server)
        answer = model.ask(REQUEST)
        with pytest.raises(TransientError):
            model.ask(REQUEST)
        place = Path(f"/proc/{worker.pid}")
        words, environment = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
        assert KEY.encode() not in words
        assert b"token-of-the-daemon" not in environment
        assert b"NOTIFY_SOCKET" not in environment
    assert (answer.text, answer.tokens_in, answer.tokens_out, answer.estimated) == ("tea it is", 1000, 500, False)
    assert answer.usd == pytest.approx(1000 * 0.15e-6 + 500 * 0.60e-6)
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert not (tmp_path / "ran").exists()
    assert not place.exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (in_turn("tea \ud83d it is"), "openai/gpt-4o-mini"),
        (SCRIPTS["cut"], "openai/scripted"),
        (SCRIPTS["huge"], "openai/scripted"),
        (SCRIPTS["empty"], "openai/gpt-4o-mini"),
        (SCRIPTS["html"], "openai/gpt-4o-mini"),
        (SCRIPTS["locked"], "openai/scripted"),
        (in_turn(error(429, headers={"Retry-After": "7"})), "openai/scripted"),
        (SCRIPTS["failing"], "openai/scripted"),
        (in_turn(Reply(content="half", stop_after=300)), "openai/gpt-4o-mini"),
        (SCRIPTS["hello"], "nobody/knows"),
    ],
)
def test_a_worker_answers_and_fails_as_the_model_itself_does(
    serve: Serve, worker: ModelWorker, script: Script, name: str
) -> None:
    """Answer or error, its words, what it cost and when to come again."""

    def outcome(model: Any) -> tuple[Any, ...]:
        worst = model.worst_case(ASKING)
        try:
            said = replace(model.ask(ASKING), seconds=0.0)
        except ModelError as refused:
            answer = getattr(refused, "answer", None)
            cost = replace(answer, seconds=0.0) if answer else None
            said = (type(refused), refused.what, refused.advice, getattr(refused, "retry_after", None), cost)
        return model.context_window, worst, said

    server = serve(script)
    itself = model_at(server, name)
    assert outcome(asking(worker, server, name)) == outcome(itself)
    assert server.requests[: server.count // 2] == server.requests[server.count // 2 :]


def test_a_refused_schema_is_left_out_from_then_on(serve: Serve, worker: ModelWorker) -> None:
    server = serve(lambda said, _: error(400, "no response_format") if "response_format" in said else "plain")
    model = asking(worker, server)
    assert [model.ask(ASKING).text, model.ask(ASKING).text] == ["plain", "plain"]
    assert server.count == 3


def test_a_worker_that_died_between_two_calls_is_not_missed(serve: Serve, worker: ModelWorker, told: Told) -> None:
    server = serve(SCRIPTS["hello"])
    model = asking(worker, server)
    for _ in range(2):
        model.ask(REQUEST)
        killed(worker)
        model = asking(worker, server)
    assert model.ask(REQUEST).text == "hello"
    assert server.count == 3
    (one, _), (_, how), (other, _), *_ = told
    assert one != other
    assert how == "was ended by signal 9"


def test_a_worker_that_dies_in_the_middle_of_a_call_costs_a_try(
    serve: Serve, worker: ModelWorker, told: Told
) -> None:
    server, calls = serve(in_turn(Reply(content="lost", wait_seconds=600), "kept")), list[Call]()

    def kill() -> None:
        until(lambda: server.count == 1)
        killed(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    model = asking(worker, server)
    assert retried(model, record=calls.append, sleep=lambda _: None).ask(REQUEST).text == "kept"
    killer.join()
    lost, kept = calls
    # The provider may have been paid for the answer that nobody saw: that try is charged as one that timed out.
    assert (lost.usable, lost.answer.estimated, lost.spend) == (False, True, model.worst_case(REQUEST))
    assert (kept.usable, kept.answer.text) == (True, "kept")
    assert [how for _, how in told] == [None, "was ended by signal 9", None]


@pytest.mark.full
def test_whenever_a_worker_is_killed_each_question_is_answered_and_whatever_was_asked_is_recorded(
    serve: Serve, worker: ModelWorker
) -> None:
    seed = int(os.environ.get("DREAMD_SEED", "20260312"))
    print(f"seed {seed}")  # shown when the test fails
    rng, server, calls = random.Random(seed), serve(SCRIPTS["hello"]), list[Call]()
    began = time.monotonic()
    asking(worker, server).ask(REQUEST)
    life, asked = time.monotonic() - began, server.count
    for _ in range(15):
        worker.rest(0.0)
        done = threading.Event()

        def kill(wait: float, done: threading.Event = done) -> None:
            done.wait(wait)
            if (number := worker.pid) is not None:
                os.kill(number, signal.SIGKILL)

        killer = threading.Thread(target=kill, args=(rng.uniform(0.0, life),))
        killer.start()
        model = retried(asking(worker, server), record=calls.append, sleep=lambda _: None)
        assert model.ask(REQUEST).text == "hello"
        done.set()
        killer.join()
    assert sum(call.usable for call in calls) == 15
    assert len(calls) >= server.count - asked


def test_a_worker_that_hangs_is_killed_and_another_one_asked(
    serve: Serve, worker: ModelWorker, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(SCRIPTS["hello"])
    assert asking(worker, server).ask(REQUEST).text == "hello"
    monkeypatch.setattr(module, "_START_SECONDS", 1.0)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    assert asking(worker, server).ask(REQUEST).text == "hello"
    assert told[1][1] == "did not answer within 1 s"
    assert not is_there(told[0][0])


def test_an_idle_worker_ends_and_one_that_is_asked_does_not(serve: Serve, worker: ModelWorker, told: Told) -> None:
    server = serve(in_turn("one", Reply(content="two", wait_seconds=600)))
    model = asking(worker, server)
    assert not worker.rest(0.0)
    model.ask(REQUEST)
    assert not worker.rest(600.0)
    assert worker.rest(0.0)
    assert worker.pid is None
    assert [how for _, how in told] == [None, ""]
    assert not is_there(told[0][0])
    failed: list[DreamdError] = []

    def ask() -> None:
        try:
            model.ask(saying("more"))
        except DreamdError as refused:
            failed.append(refused)

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: server.count == 2)
    assert not worker.rest(0.0)
    worker.close()
    thread.join()
    # The daemon ends: the dream goes on at its next start, and has not failed.
    assert [type(one) for one in failed] == [StoppedError]
    with pytest.raises(StoppedError):
        model.ask(REQUEST)


def test_only_the_daemon_ends_a_worker_not_the_signals_that_all_of_its_processes_get(
    serve: Serve, worker: ModelWorker, told: Told
) -> None:
    server = serve(SCRIPTS["hello"])
    model = asking(worker, server)
    model.ask(REQUEST)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        assert worker.pid is not None
        os.kill(worker.pid, number)
    model.ask(REQUEST)
    assert [how for _, how in told] == [None]


def test_many_ask_the_same_worker_at_once(serve: Serve, worker: ModelWorker, told: Told) -> None:
    gate = threading.Barrier(8)

    def together(request: dict[str, Any], _number: int) -> str:
        gate.wait(300)
        return str(request["messages"][-1]["content"])

    server = serve(together)
    said: dict[str, str] = {}

    def ask(text: str) -> None:
        said[text] = asking(worker, server).ask(saying(text)).text

    threads = [threading.Thread(target=ask, args=(f"question {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {f"question {number}": f"question {number}" for number in range(8)}
    assert len(told) == 1


@pytest.mark.parametrize("reply", [b"", b'{"value": {"text": "hal'])
def test_half_a_reply_is_none(serve: Serve, told: Told, reply: bytes) -> None:
    """A worker that ends while it replies."""

    def stump(line: socket.socket) -> "subprocess.Popen[bytes]":
        return forked.Forked(
            [], before=("tests.daemon.models.test_worker:stumped", [reply.decode()]), stdin=line.fileno()
        )

    class Stump(ModelWorker):
        start = staticmethod(stump)

    with closing(Stump(lambda number, how: told.append((number, how)))) as worker:
        model = asking(worker, serve(SCRIPTS["hello"]))
        with pytest.raises(TransientError, match="the process that asks openai/gpt-4o-mini ended with status 3"):
            retried(model, sleep=never, tries=1).ask(REQUEST)
    assert len(told) == 2 * module._TRIES


def stumped(reply: str) -> None:
    """For a process: a worker that says so much and ends."""
    line = socket.socket(fileno=os.dup(0))
    _, (number,), _, _ = socket.recv_fds(line, 1, 1)
    with socket.socket(fileno=number) as call:
        json.loads(b"".join(iter(lambda: call.recv(65_536), b"")))
        call.sendall(reply.encode())
        os._exit(3)


def test_a_worker_that_cannot_be_started_costs_a_try(serve: Serve) -> None:
    def refuse(_line: socket.socket) -> "subprocess.Popen[bytes]":
        raise OSError(12, "Cannot allocate memory")

    class Refused(ModelWorker):
        start = staticmethod(refuse)

    server = serve(SCRIPTS["hello"])
    with closing(Refused()) as worker, pytest.raises(TransientError, match="cannot be started") as caught:
        asking(worker, server).ask(REQUEST)
    assert not isinstance(caught.value, UnusableReplyError)
    assert caught.value.answer is None
    assert server.count == 0
