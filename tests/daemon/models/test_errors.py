"""What a model's failure says, and whether it was paid for."""

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from daemon.models.errors import TransientError, UnusableReplyError
from daemon.models.litellm_model import LitellmModel
from state.errors import ModelError
from tests.support.conversing import KEY, REQUEST, Serve, model_at, never, refusal, retried
from tests.support.scripted_model import SCRIPTS, Reply, error, in_turn

pytestmark = pytest.mark.usefixtures("only_loopback")
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
    serve: Serve, reply: Reply, kind: type[ModelError], advice: str, charged: str | None, name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    server = serve(in_turn(reply))
    model = model_at(server, name, seconds=0.3 if advice == LATE else 30.0)
    failed = refusal(model if kind is TransientError else retried(model, sleep=never))
    assert type(failed) is kind
    assert advice in str(failed)
    assert server.count == 1
    answer = getattr(failed, "answer", None)
    assert (answer is not None) is (charged is not None)
    if answer is not None and charged == "worst":
        assert answer.estimated
        assert answer.tokens_in + answer.tokens_out == model.worst_case(REQUEST).tokens


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_with_the_prompt(serve: Serve, status: int) -> None:
    elsewhere = serve(SCRIPTS["hello"])
    leads = {"Location": f"{elsewhere.url}/chat/completions?key={KEY}"}
    server = serve(in_turn(Reply(status=status, headers=leads, body=b"")))
    refused = refusal(retried(model_at(server), sleep=never))
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
