"""Headless agents as models: what each way of failing becomes, with programs in place of the makers' own.

The real ones are in tests/clients/test_headless_agents.py.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.config.settings import Config, ModelSection
from daemon.fleet.process import without_machines_ceilings
from daemon.models.errors import TransientError, UnusableReplyError
from daemon.models.headless import AGENTS, HeadlessModel, agent_of, offers
from state.budget import Limits
from state.errors import ConfigError, ModelError, UnattendedError
from tests.support.conversing import REQUEST
from tests.support.serving import until

Program = Callable[[str, str], Path]
USED = {"input_tokens": 700, "cache_read_input_tokens": 300, "output_tokens": 10}
ANSWER = {"is_error": False, "result": "tea it is", "usage": USED}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Installs a shell script under a name; there is no other agent here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))

    def install(name: str, script: str) -> Path:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return folder / name

    return install


def model(name: str = "claude-code", seconds: float = 30.0) -> HeadlessModel:
    return HeadlessModel(name, timeout_seconds=seconds, max_output_tokens=400)


def saying(answer: object) -> str:
    return f"cat > /dev/null; cat <<'END'\n{json.dumps(answer)}\nEND"


def test_it_is_asked_in_an_empty_folder_with_the_prompt_over_stdin_and_knows_nothing_of_the_daemon(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DREAMD_TOKEN", "token-of-the-daemon")
    monkeypatch.setenv("CLAUDECODE", "1")
    record = f'cat > {tmp_path}/stdin; ls -A > {tmp_path}/files; env > {tmp_path}/env; echo "$@" > {tmp_path}/words'
    program("claude", f"{record}; pwd > {tmp_path}/place; {saying(ANSWER)}")
    answer = model().ask(REQUEST)
    assert (answer.text, answer.tokens_in, answer.tokens_out, answer.usd) == ("tea it is", 1000, 10, 0.0)
    assert (answer.model, answer.estimated) == ("claude-code", False)
    assert (tmp_path / "stdin").read_text() == REQUEST.messages[1][1]
    assert (tmp_path / "files").read_text() == ""
    assert not Path((tmp_path / "place").read_text().strip()).exists()
    assert "DREAMD_TOKEN" not in (tmp_path / "env").read_text()
    assert "CLAUDECODE=" not in (tmp_path / "env").read_text()
    assert REQUEST.messages[1][1] not in (tmp_path / "words").read_text()


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("claude-code", None),
        ("claude-code/haiku", "haiku"),
        ("codex/gpt-5-mini", "gpt-5-mini"),
        ("gemini", "flash"),
        ("gemini-cli/gemini-2.5-pro", "gemini-2.5-pro"),
    ],
)
def test_the_program_is_told_the_model_behind_its_name(
    program: Program, tmp_path: Path, name: str, option: str | None
) -> None:
    program(AGENTS[agent_of(name)].command, f'printf "%s\\n" "$@" > {tmp_path}/words; exit 1')
    with pytest.raises(ModelError):
        model(Config(model=ModelSection(name=name)).model.name or "").ask(REQUEST)
    words = (tmp_path / "words").read_text().split("\n")
    assert (words[words.index("--model") + 1] if "--model" in words else None) == option


@pytest.mark.parametrize("name", ["claude-code/", "codex/--help", "gemini-cli/two words", "codex/a\nb"])
def test_a_model_that_is_no_word_is_refused_and_another_providers_is_not_an_agents(name: str) -> None:
    with pytest.raises(ValueError, match="one word"):
        ModelSection(name=name)
    assert agent_of("gemini/gemini-2.5-pro") == agent_of("openai/codex") == ""


@pytest.mark.parametrize(
    ("said", "kind", "charged"),
    [
        ("Not logged in · Please run /login", UnattendedError, False),
        ("API Error: 401 OAuth token has expired", UnattendedError, False),
        ("Invalid API key · Fix external API key", UnattendedError, False),
        ("Claude usage limit reached. Your limit will reset at 5pm", ModelError, False),
        ("Credit balance is too low", ModelError, False),
        ("5-hour limit reached ∙ resets 5pm", ModelError, False),
        (
            "API Error: Request rejected (429) · This request would exceed your account rate limit",
            TransientError,
            False,
        ),
        ("API Error: 529 Overloaded", TransientError, False),
        ("Reached maximum number of turns (1)", UnusableReplyError, True),
        ("something else", ModelError, False),
    ],
)
def test_an_error_of_the_program_says_whether_another_try_or_its_user_may_help(
    program: Program, said: str, kind: type[ModelError], *, charged: bool
) -> None:
    used = dict.fromkeys(USED, 0)
    program("claude", saying({"is_error": True, "result": said, "usage": used}) + "\nexit 1")
    with pytest.raises(ModelError) as raised:
        model().ask(REQUEST)
    assert type(raised.value) is kind
    assert said in str(raised.value)
    assert (getattr(raised.value, "answer", None) is not None) is charged


USED_UP = "has used up what its login allows"


@pytest.mark.parametrize(
    ("agent", "script", "says"),
    [
        ("claude-code", "echo 'Claude AI usage limit reached|1767225600'; exit 1", USED_UP),
        ("claude-code", saying({"is_error": True, "result": "Credit balance is too low"}), USED_UP),
        ("claude-code", "echo 'Invalid API key · Please run /login'; exit 1", "has to ask you something first"),
        ("codex", f"{saying({'type': 'error', 'message': 'You’ve hit your usage limit.'})}; sleep 60", USED_UP),
        ("codex", f"{saying({'type': 'error', 'message': 'unexpected status 401'})}; sleep 60", "has to ask you"),
        ("gemini", """echo '{"error": {"message": "You exceeded your current quota"}}' >&2; exit 1""", USED_UP),
        ("gemini", saying({"error": {"message": "API key not valid"}}), "has to ask you"),
    ],
)
def test_a_login_that_is_used_up_or_refused_says_so_however_the_program_ends(
    program: Program, monkeypatch: pytest.MonkeyPatch, agent: str, script: str, says: str
) -> None:
    monkeypatch.setenv("CODEX_API_KEY", "sk-x")
    monkeypatch.setenv("TZ", "UTC")
    program(AGENTS[agent].command, script)
    with pytest.raises(ModelError, match=says) as raised:
        model(agent, seconds=2.0 if "sleep" in script else 30.0).ask(REQUEST)
    assert "timeout" not in str(raised.value)
    assert ("it opens again at 2026-01-01 00:00 UTC" in str(raised.value)) is ("1767225600" in script)


@pytest.mark.parametrize("agent", AGENTS)
def test_one_that_is_not_there_or_prints_what_nobody_can_read_is_named(program: Program, agent: str) -> None:
    with pytest.raises(UnattendedError, match=f"no program '{AGENTS[agent].command}'"):
        model(agent).ask(REQUEST)
    program(AGENTS[agent].command, "echo 'unknown option' >&2; exit 2")
    with pytest.raises(ModelError, match="unknown option"):
        model(agent).ask(REQUEST)
    program(AGENTS[agent].command, "echo '[]'")
    with pytest.raises(ModelError, match="failed"):
        model(agent).ask(REQUEST)


def test_one_that_hangs_is_ended_with_all_that_it_started_and_charged_in_full(
    program: Program, tmp_path: Path
) -> None:
    program("claude", f"sleep 600 & echo $! > {tmp_path}/child; sleep 600")
    asked, began = model(seconds=1.0), time.monotonic()
    with pytest.raises(TransientError, match="within 1 s") as raised:
        asked.ask(REQUEST)
    assert time.monotonic() - began < 20
    assert raised.value.answer is not None
    assert raised.value.answer.tokens_in + raised.value.answer.tokens_out == asked.worst_case(REQUEST).tokens
    child = (tmp_path / "child").read_text().strip()
    until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2])


def test_codex_may_connect_again_and_may_do_nothing_but_answer(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_API_KEY", "sk-x")  # a login

    def printing(*items: str) -> str:
        events: list[dict[str, object]] = [{"type": "error", "message": "Reconnecting... 1/5"}]
        events += [{"type": "item.completed", "item": {"type": one, "text": "tea it is"}} for one in items]
        events += [{"type": "turn.completed", "usage": {"input_tokens": 1000, "output_tokens": 10}}]
        return "cat <<'END'\n" + "\n".join(map(json.dumps, events)) + "\nEND"

    program("codex", printing("reasoning", "agent_message"))
    assert (model("codex").ask(REQUEST).text, model("codex").ask(REQUEST).tokens_in) == ("tea it is", 1000)
    program("codex", printing("command_execution", "agent_message"))
    with pytest.raises(UnusableReplyError, match="more than answer"):
        model("codex").ask(REQUEST)


def test_an_answer_that_was_cut_off_and_an_empty_one_say_so(program: Program) -> None:
    program("claude", saying({**ANSWER, "stop_reason": "max_tokens"}))
    assert model().ask(REQUEST).finish_reason == "length"
    program("claude", saying({**ANSWER, "result": " "}))
    with pytest.raises(UnusableReplyError):
        model().ask(REQUEST)


def test_a_person_is_offered_what_is_installed_with_what_it_costs(program: Program) -> None:
    assert list(offers(Limits())) == []
    path = program("codex", "")
    (offer,) = offers(Limits())
    assert (offer.name, offer.program) == ("codex", str(path))
    assert offer.costs == "at most 5 calls and 60,000 tokens a dream, on your login of Codex; its price is not known"


@pytest.mark.parametrize("agent", AGENTS)
def test_a_fleet_dreams_for_nobody_on_one_persons_login(agent: str) -> None:
    with pytest.raises(ConfigError, match=f"model.name is {agent}"):
        without_machines_ceilings(Config(model=ModelSection(name=agent)))
