"""One try to get one answer, through the real litellm, from a scripted server on 127.0.0.1."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon.models.litellm_import import load_litellm
from daemon.models.litellm_model import UNKNOWN_WINDOW, LitellmModel
from tests.support.conversing import (
    ASKING,
    KEY,
    REQUEST,
    SCHEMA,
    Serve,
    model_at,
    refusal,
)
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


def test_importing_the_model_imports_nothing_heavy() -> None:
    code = (
        "import sys, daemon.models.litellm_model, daemon.models.metered\n"
        "print(sorted({'litellm', 'openai', 'httpx', 'tenacity', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    assert _python("-c", code, cwd=REPOSITORY) == ("[]\n", "")


@pytest.mark.full
def test_loading_litellm_opens_no_socket_reads_no_stray_env_file_and_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("STRAY=1\n")
    code = (
        "import os, sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda name, _: seen.append(name) if name.startswith('socket.') else None)\n"
        "from daemon.models.litellm_import import load_litellm\n"
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
