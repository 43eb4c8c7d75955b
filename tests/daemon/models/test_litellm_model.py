"""One try to get one answer, through the real litellm, from a scripted server; what a failure says and costs."""

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daemon.models.errors import TransientError, UnusableReplyError
from daemon.models.known import load_litellm
from daemon.models.litellm_model import UNKNOWN_WINDOW, LitellmModel
from daemon.workspace.stores import Store
from state.errors import ModelError
from tests.support.conversing import ASKING, KEY, REQUEST, SCHEMA, Serve, model_at, never, refusal, retried
from tests.support.scripted_model import SCRIPTS, Reply, error, in_turn

REPOSITORY = Path(__file__).parents[3]

pytestmark = pytest.mark.usefixtures("only_loopback")


def test_an_answer_has_its_text_and_what_it_cost(serve: Serve) -> None:
    server = serve(in_turn(Reply(content="tea it is", usage=(1000, 500))))
    answer = model_at(server, "openai/gpt-4o-mini").ask(REQUEST)
    assert (answer.text, answer.model, answer.finish_reason) == ("tea it is", "openai/gpt-4o-mini", "stop")
    assert (answer.tokens_in, answer.tokens_out, answer.estimated) == (1000, 500, False)
    assert answer.usd == pytest.approx(1000 * 0.15e-6 + 500 * 0.60e-6)
    assert server.requests[0]["messages"] == [{"role": role, "content": text} for role, text in REQUEST.messages]
    assert server.requests[0]["max_tokens"] == 400
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_model_that_is_not_in_the_table_has_no_price_and_the_smallest_window(serve: Serve) -> None:
    model, listed = (
        model_at(serve(in_turn(Reply(content="yes", usage=(1000, 500))))),
        LitellmModel("openai/gpt-4o-mini"),
    )
    assert (model.ask(REQUEST).usd, model.worst_case(REQUEST).usd) == (0.0, 0.0)
    assert listed.worst_case(REQUEST).usd > 0.0
    assert (model.context_window, listed.context_window) == (UNKNOWN_WINDOW, 128_000)


@pytest.mark.parametrize("said", [True, False])
def test_a_price_that_litellm_cannot_compute_is_the_one_of_its_table(
    serve: Serve, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPINFRA_API_KEY", KEY)
    name = "deepinfra/openai/gpt-oss-120b"
    listed = load_litellm().model_cost[name]
    answer = model_at(serve(in_turn(Reply(content="yes", usage=(9, 2), says_usage=said))), name).ask(REQUEST)
    per_in, per_out = listed["input_cost_per_token"], listed["output_cost_per_token"]
    assert answer.usd == pytest.approx(answer.tokens_in * per_in + answer.tokens_out * per_out)
    assert answer.usd > 0


def test_tokens_that_the_provider_does_not_name_are_estimated(serve: Serve) -> None:
    server = serve(in_turn(Reply(content="tea and bread", says_usage=False)))
    answer = model_at(server, "openai/gpt-4o-mini").ask(REQUEST)
    assert answer.estimated
    assert answer.tokens_out == 3
    assert answer.tokens_in >= len(" ".join(text for _, text in REQUEST.messages).split())
    assert answer.usd == pytest.approx(answer.tokens_in * 0.15e-6 + answer.tokens_out * 0.60e-6)


def test_what_an_answer_is_made_of(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_at(serve(SCRIPTS["cut"])).ask(REQUEST).finish_reason == "length"
    assert model_at(serve(in_turn("<think>tea or coffee</think>tea"))).ask(REQUEST).text == "tea"
    monkeypatch.delenv("OPENAI_API_KEY")  # a server of one's own needs none
    assert model_at(serve(SCRIPTS["hello"])).ask(REQUEST).text == "hello"


def test_a_schema_is_sent_to_a_model_that_takes_one(serve: Serve) -> None:
    server = serve(in_turn({"a": "b"}))
    assert json.loads(model_at(server, "openai/gpt-4o-mini").ask(ASKING).text) == {"a": "b"}
    sent = server.requests[0]["response_format"]
    assert sent == {"type": "json_schema", "json_schema": {"name": "operations", "schema": SCHEMA, "strict": True}}


def test_a_refused_schema_is_left_out_once_and_from_then_on(serve: Serve) -> None:
    server = serve(lambda said, _: error(400, "no response_format") if "response_format" in said else "plain")
    model = model_at(server, "openai/gpt-4o-mini")
    assert model.ask(ASKING).text == "plain"
    assert server.count == 2
    assert not model.takes_schema
    model.ask(ASKING)
    assert server.count == 3


@pytest.mark.full
def test_loading_litellm_opens_no_socket_reads_no_stray_env_file_and_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("STRAY=1\n")
    code = (
        "import os, sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda name, _: seen.append(name) if name.startswith('socket.') else None)\n"
        "from daemon.models.known import load_litellm\n"
        "load_litellm()\n"
        "print({'socket.connect', 'socket.getaddrinfo'} & set(seen), os.environ.get('STRAY'))"
    )
    assert _python("-c", code, cwd=tmp_path) == ("set() None\n", "")


def test_litellm_says_nothing_of_its_own(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve(in_turn("hello", error(400), error(500), Reply(body=b"{")))
    model = model_at(server)
    assert model.ask(REQUEST).text == "hello"
    for _ in range(3):
        refusal(model)
    refusal(LitellmModel("nobody/knows"))
    assert capfd.readouterr() == ("", "")


def _python(*arguments: str, cwd: Path) -> tuple[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout, done.stderr


BAD_GATEWAY = b'{"error": {"message": "overloaded", "code": 502}}'

NO_CHOICE = b'{"id": "x", "object": "chat.completion", "choices": []}'

LATE = "did not answer within 0.3 s"


@pytest.mark.parametrize(
    ("reply", "kind", "advice", "charged"),
    [
        (error(400, "temperature must be 1"), ModelError, "temperature must be 1", None),
        (error(422, "unprocessable"), ModelError, "unprocessable", None),
        (error(401, code="invalid_api_key"), ModelError, "does not accept the key", None),
        (error(403), ModelError, "does not accept the key", None),
        (error(404, code="model_not_found"), ModelError, "check model.name", None),
        (error(400, "This model's maximum context length is 10 tokens"), ModelError, "context window", None),
        (error(400, "too long", "context_length_exceeded"), ModelError, "context window", None),
        (error(413), ModelError, "context window", None),
        (error(429, "You exceeded your quota", "insufficient_quota"), ModelError, "billing", None),
        (error(429), TransientError, "rate of requests", None),
        (error(500), TransientError, "failed (500)", None),
        (error(503), TransientError, "failed (503)", None),
        (Reply(body=BAD_GATEWAY), TransientError, "failed (502)", None),
        (error(529), TransientError, "failed (529)", None),
        (error(408), TransientError, "failed (408)", None),
        (Reply(reset=True), TransientError, "broke the connection off", None),
        (Reply(content="a long answer", stop_after=20), TransientError, "broke the connection off", "worst"),
        (Reply(content="late", wait_seconds=3600), TransientError, LATE, "worst"),
        (Reply(content="late", drip_seconds=0.05), TransientError, LATE, "worst"),
        (Reply(body=b"<html>welcome</html>", content_type="text/html"), UnusableReplyError, "no chat", "worst"),
        (Reply(body=b'{"choices": ['), UnusableReplyError, "no chat completion", "worst"),
        (Reply(body=b"[]"), UnusableReplyError, "no chat completion", "worst"),
        (Reply(body=NO_CHOICE), UnusableReplyError, "no choice", "answer"),
        (Reply(content=None, finish_reason="length"), UnusableReplyError, "raise model.max_output_tokens", "answer"),
        (Reply(content="", finish_reason="content_filter"), UnusableReplyError, "content filter", "answer"),
        (Reply(content=" \n "), UnusableReplyError, "answered nothing", "answer"),
        *[
            (SCRIPTS[script]({}, 0), UnusableReplyError, why, "answer")
            for script, why in (
                ("empty", "answered nothing"),
                ("null", "answered nothing"),
                ("tool", "called a tool"),
                ("reasoning", "reasoned and did not answer"),
            )
        ],
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["openai/scripted", "openrouter/some/model"])
def test_a_failed_try_says_what_to_do_and_is_charged_for_what_it_may_have_cost(
    serve: Serve, store: Store, reply: Reply, kind: type[ModelError], advice: str, charged: str | None, name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    server = serve(in_turn(reply))
    model = model_at(server, name, seconds=0.3 if advice == LATE else 30.0)
    failed = refusal(model if kind is TransientError else retried(model, store.ledger, sleep=never))
    assert type(failed) is kind
    assert advice in str(failed)
    assert server.count == 1
    answer = getattr(failed, "answer", None)
    assert (answer is not None) is (charged is not None)
    if answer is not None and charged == "worst":
        assert answer.estimated
        assert answer.tokens_in + answer.tokens_out == model.worst_case(REQUEST).tokens


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_prompt(serve: Serve, store: Store, status: int) -> None:
    elsewhere = serve(SCRIPTS["hello"])
    leads = {"Location": f"{elsewhere.url}/chat/completions?key={KEY}"}
    server = serve(in_turn(Reply(status=status, headers=leads, body=b"")))
    refused = refusal(retried(model_at(server), store.ledger, sleep=never))
    place = elsewhere.url.removesuffix("/v1")
    assert f"redirect to {place} ({status}), which is not followed" in str(refused)
    assert (server.count, elsewhere.count) == (1, 0)


@contextmanager
def redirecting() -> Iterator[tuple[str, list[str]]]:
    """A server that sends every request on to another address of its own, and the paths that it was asked for."""
    asked = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


# litellm has two ways to a provider: its own client, and that of OpenAI's library with chats and with completions.
@pytest.mark.parametrize("name", ["hosted_vllm/x", "anthropic/x", "lm_studio/x", "text-completion-openai/x"])
def test_no_provider_is_followed_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with redirecting() as (url, asked):
        assert "redirect" in str(refusal(LitellmModel(name, api_base=url, timeout_seconds=30.0)))
        assert [path.startswith("/elsewhere") for path in asked] == [False]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
@pytest.mark.parametrize("name", ["openai/scripted", "openrouter/some/model"])
def test_no_error_has_a_key_in_it(
    serve: Serve, status: int, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "orkey0123456789")
    server = serve(in_turn(error(status, f"bad key {KEY} or orkey0123456789 or sk-abc***********6789")))
    refused = refusal(model_at(server, name))
    shown = "".join(traceback.format_exception(refused)) + "".join(capfd.readouterr())
    assert refused.__context__ is None
    assert [secret for secret in (KEY, "orkey0123456789", "sk-abc") if secret in shown] == []


@pytest.mark.parametrize(
    ("name", "place", "advice"),
    [
        ("openai/gpt-4o-mini", None, "set OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", None, "set ANTHROPIC_API_KEY"),
        ("tea-7b", None, "openai/tea-7b"),
        ("openai/scripted", "http://user:pass@127.0.0.1:9/v1", "openai/scripted at http://127.0.0.1:9/v1 cannot be"),
    ],
)
def test_what_cannot_be_asked_says_what_to_set(
    name: str, place: str | None, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    refused = refusal(LitellmModel(name, api_base=place))
    assert advice in str(refused)
    assert "pass" not in str(refused)
