"""What a model's failure says, and whether it was paid for."""

import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import pytest

from daemon.models.errors import TransientError
from daemon.models.litellm_model import LitellmModel
from state.errors import ModelError
from tests.support.conversing import KEY, REQUEST, Serve, model_at, never, refusal, retried
from tests.support.scripted_model import SCRIPTS, Reply, error, in_turn

pytestmark = pytest.mark.usefixtures("only_loopback")


class Redirecting:
    """A server that sends every request on to another address of its own, and counts those that come there."""

    def __init__(self) -> None:
        self.followed = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        redirecting = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                redirecting.followed += self.path.startswith("/elsewhere")
                self.send_response(307)
                self.send_header("Location", f"{redirecting.url}/elsewhere{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()

        return Handler


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (error(400, "temperature must be 1"), "temperature must be 1"),
        (error(422, "unprocessable"), "unprocessable"),
        (error(401, code="invalid_api_key"), "does not accept the key"),
        (error(403), "does not accept the key"),
        (error(404, code="model_not_found"), "check model.name"),
        (error(400, "This model's maximum context length is 10 tokens"), "context window"),
        (error(400, "too long", "context_length_exceeded"), "context window"),
        (error(413), "context window"),
        (error(429, "You exceeded your quota", "insufficient_quota"), "billing"),
    ],
)
def test_a_refused_request_is_made_once_and_says_what_to_do(serve: Serve, reply: Reply, advice: str) -> None:
    server = serve(in_turn(reply))
    refused = refusal(retried(model_at(server), sleep=never))
    assert type(refused) is ModelError
    assert advice in str(refused)
    assert server.count == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_prompt(serve: Serve, status: int) -> None:
    elsewhere = serve(SCRIPTS["hello"])
    leads = {"Location": f"{elsewhere.url}/chat/completions?key={KEY}"}
    server = serve(in_turn(Reply(status=status, headers=leads, body=b"")))
    refused = refusal(retried(model_at(server), sleep=never))
    place = elsewhere.url.removesuffix("/v1")
    assert f"redirect to {place} ({status}), which is not followed" in str(refused)
    assert (server.count, elsewhere.count) == (1, 0)


# litellm has two ways to a provider: its own client, and that of OpenAI's library with chats and with completions.
@pytest.mark.parametrize("name", ["hosted_vllm/x", "anthropic/x", "lm_studio/x", "text-completion-openai/x"])
def test_no_provider_is_followed_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with Redirecting() as server:
        assert "redirect" in str(refusal(LitellmModel(name, api_base=server.url, timeout_seconds=30.0)))
        assert server.followed == 0


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
    for secret in (KEY, "orkey0123456789", "sk-abc"):
        assert secret not in shown


def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert "set OPENAI_API_KEY" in str(refusal(LitellmModel("openai/gpt-4o-mini")))
    assert "set ANTHROPIC_API_KEY" in str(refusal(LitellmModel("anthropic/claude-sonnet-4-5")))


def test_a_name_without_a_provider_says_how_to_write_it() -> None:
    assert "openai/tea-7b" in str(refusal(LitellmModel("tea-7b")))


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (error(429), "rate of requests"),
        (error(500), "failed (500)"),
        (error(503), "failed (503)"),
        (Reply(body=b'{"error": {"message": "overloaded", "code": 502}}'), "failed (502)"),
        (error(529), "failed (529)"),
        (error(408), "failed (408)"),
        (Reply(reset=True), "broke the connection off"),
    ],
)
def test_a_try_that_was_not_answered_may_pass_and_costs_nothing(serve: Serve, reply: Reply, advice: str) -> None:
    server = serve(in_turn(reply))
    passing = refusal(model_at(server))
    assert isinstance(passing, TransientError)
    assert advice in str(passing)
    assert passing.answer is None
    assert server.count == 1


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (Reply(content="a long answer", stop_after=20), "broke the connection off"),
        (Reply(content="late", wait_seconds=3600), "did not answer within 0.3 s"),
        (Reply(content="late", drip_seconds=0.05), "did not answer within 0.3 s"),
    ],
)
def test_a_try_that_may_have_been_answered_is_charged_at_its_worst(serve: Serve, reply: Reply, advice: str) -> None:
    server = serve(in_turn(reply))
    model = model_at(server, seconds=0.3)
    passing = refusal(model)
    assert isinstance(passing, TransientError)
    assert advice in str(passing)
    assert passing.answer is not None
    assert passing.answer.estimated
    assert passing.answer.tokens_in + passing.answer.tokens_out == model.worst_case(REQUEST).tokens
    assert server.count == 1
