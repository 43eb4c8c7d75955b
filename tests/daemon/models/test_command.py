"""Programs as models: what each way of failing becomes, with scripts in place of the makers' own.

The real ones are in tests/clients/test_headless_agents.py.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config, ModelSection
from daemon.fleet.process import without_machines_ceilings
from daemon.models.command import PRESETS, CommandModel, costs_of, installed_agents, preset_of
from daemon.models.errors import TransientError, UnusableReplyError
from state.budget import Limits
from state.errors import ConfigError, ModelError, UnattendedError
from tests.support.conversing import REQUEST
from tests.support.serving import until

Program = Callable[[str, str], Path]
USED = {"input_tokens": 700, "cache_read_input_tokens": 300, "output_tokens": 10}
ANSWER = {"is_error": False, "result": "tea it is", "usage": USED}
PROGRAMS = (*PRESETS, "command:ask 'of two words'")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Installs a shell script under a name; there is no agent here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))

    def install(name: str, script: str) -> Path:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return folder / name

    return install


def model(name: str = "claude-code", seconds: float = 30.0, variables: tuple[str, ...] = ()) -> CommandModel:
    return CommandModel(name, name, seconds, 400, variables)


def command_of(name: str) -> str:
    preset = preset_of(name)
    assert preset is not None
    return preset.command


def saying(answer: object) -> str:
    return f"cat > /dev/null; cat <<'END'\n{json.dumps(answer)}\nEND"


@pytest.mark.parametrize(
    ("name", "said", "counts", "spoken"),
    [
        ("claude-code", saying(ANSWER).removeprefix("cat > /dev/null; "), (1000, 10), REQUEST.messages[1][1]),
        ("command:claude -p --some", "echo tea it is", (13, 3), "\n\n".join(text for _, text in REQUEST.messages)),
    ],
)
def test_it_is_asked_in_an_empty_folder_with_the_prompt_over_stdin_and_knows_no_secret_but_its_own(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str, counts: tuple[int, int],
    spoken: str,
) -> None:  # fmt: skip
    given = {"DREAMD_TOKEN": "x", "CLAUDECODE": "1", "GITHUB_TOKEN": "x", "ANTHROPIC_API_KEY": "x", "OWN_KEY": "x"}
    for variable, value in {**given, "OWN_PLACE": "x"}.items():
        monkeypatch.setenv(variable, value)
    record = f'cat > {tmp_path}/stdin; ls -A > {tmp_path}/files; env > {tmp_path}/env; echo "$@" > {tmp_path}/words'
    program("claude", f"{record}; pwd > {tmp_path}/place; {said}")
    answer = model(name, variables=("OWN_KEY",)).ask(REQUEST)
    assert (answer.text.strip(), answer.tokens_in, answer.tokens_out, answer.usd) == ("tea it is", *counts, 0.0)
    assert (answer.model, answer.estimated) == (name, name.startswith("command:"))
    assert (tmp_path / "stdin").read_text() == spoken
    assert (tmp_path / "files").read_text() == ""
    assert not Path((tmp_path / "place").read_text().strip()).exists()
    known = {row.partition("=")[0] for row in (tmp_path / "env").read_text().splitlines()}
    own = {"ANTHROPIC_API_KEY"} if name == "claude-code" else set()
    assert known & {*given, "OWN_PLACE"} == {"OWN_KEY", "OWN_PLACE"} | own
    assert (tmp_path / "words").read_text().startswith("-p --")
    assert REQUEST.messages[1][1] not in (tmp_path / "words").read_text()


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("claude-code", None),
        ("claude-code/haiku", "haiku"),
        ("codex/gpt-5-mini", "gpt-5-mini"),
        ("gemini", "flash"),
        ("gemini-cli/gemini-2.5-pro", "gemini-2.5-pro"),
        ("command:ask a/b", None),
    ],
)
def test_the_program_is_told_the_model_behind_its_name(
    program: Program, tmp_path: Path, name: str, option: str | None
) -> None:
    program(command_of(name), f'printf "%s\\n" "$@" > {tmp_path}/words; exit 1')
    with pytest.raises(ModelError):
        model(Config(model=ModelSection(name=name)).model.name or "").ask(REQUEST)
    words = (tmp_path / "words").read_text().split("\n")
    assert (words[words.index("--model") + 1] if "--model" in words else None) == option


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *[(name, "one word") for name in ("claude-code/", "codex/--help", "gemini-cli/two words", "codex/a\nb")],
        *[(f"command:{line}", "one line") for line in ("", " ", "ask 'me", "ask\nme", "./ask", "bin/ask")],
    ],
)
def test_what_is_no_model_of_an_agent_and_no_command_is_refused_and_another_providers_is_neither(
    name: str, wanted: str
) -> None:
    with pytest.raises(ValueError, match=wanted):
        ModelSection(name=name)
    assert preset_of("gemini/gemini-2.5-pro") is preset_of("openai/codex") is None


ERRORS: dict[type[ModelError], tuple[str, ...]] = {
    UnattendedError: (
        "Not logged in · Please run /login", "API Error: 401 OAuth token has expired",
        "Invalid API key · Fix external API key",
    ),
    ModelError: (
        "Claude usage limit reached. Your limit will reset at 5pm", "Credit balance is too low",
        "5-hour limit reached ∙ resets 5pm", "something else",
    ),
    TransientError: (
        "API Error: Request rejected (429) · This request would exceed your account rate limit",
        "API Error: 529 Overloaded",
    ),
    UnusableReplyError: ("Reached maximum number of turns (1)",),
}  # fmt: skip


@pytest.mark.parametrize(("said", "kind"), [(said, kind) for kind, ones in ERRORS.items() for said in ones])
def test_an_error_of_the_program_says_whether_another_try_or_its_user_may_help(
    program: Program, said: str, kind: type[ModelError]
) -> None:
    used = dict.fromkeys(USED, 0)
    program("claude", saying({"is_error": True, "result": said, "usage": used}) + "\nexit 1")
    program("ask", f"echo about to fail >&2; echo '{said}' >&2; exit 1")
    for name in ("claude-code", "command:ask"):
        with pytest.raises(ModelError) as raised:
            model(name).ask(REQUEST)
        assert type(raised.value) is kind
        assert said in str(raised.value)
        assert (getattr(raised.value, "answer", None) is not None) is (kind is UnusableReplyError)


USED_UP = "has used up what its login allows"


@pytest.mark.parametrize(
    ("agent", "script", "says"),
    [
        ("claude-code", "echo 'Claude AI usage limit reached|1767225600'; exit 1", USED_UP),
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
    program(command_of(agent), script)
    with pytest.raises(ModelError, match=says) as raised:
        model(agent, seconds=2.0 if "sleep" in script else 30.0).ask(REQUEST)
    assert "timeout" not in str(raised.value)
    assert ("it opens again at 2026-01-01 00:00 UTC" in str(raised.value)) is ("1767225600" in script)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_that_is_not_there_fails_or_prints_what_nobody_can_read_is_named(
    program: Program, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OWN_KEY", "own-and-secret")
    with pytest.raises(UnattendedError, match=f"{name}: there is no program '{command_of(name)}'; install"):
        model(name).ask(REQUEST)
    program(command_of(name), "echo 'unknown option own-and-secret' >&2; exit 2")
    with pytest.raises(ModelError, match=rf"{name} (failed|has .*): .*unknown option \*\*\*; run '\w+' by hand"):
        model(name).ask(REQUEST)
    program(command_of(name), "kill -9 $$")
    with pytest.raises(ModelError, match=f"{name} failed: .*(status -9|nothing)"):
        model(name).ask(REQUEST)
    program(command_of(name), "echo '[]'; exit 1")
    with pytest.raises(ModelError, match=rf"{name} (failed|has .*): .*\[\]"):
        model(name).ask(REQUEST)


def has_ended(child: Path) -> bool:
    state = Path(f"/proc/{child.read_text().strip()}/stat")
    return not state.exists() or "Z" in state.read_text().split()[2]


@pytest.mark.parametrize("name", ["claude-code", "command:ask"])
@pytest.mark.parametrize(
    ("script", "kind", "says"),
    [
        ("sleep 600", TransientError, "did not answer within 1 s"),
        ("yes äöü", UnusableReplyError, "printed more than 8 MiB, and was ended"),
    ],
)
def test_one_that_hangs_or_prints_without_end_is_ended_with_all_that_it_started_and_charged_in_full(
    program: Program, tmp_path: Path, name: str, script: str, kind: type[ModelError], says: str
) -> None:  # fmt: skip
    program(command_of(name), f"sleep 600 & echo $! > {tmp_path}/child; {script}")
    asked, began = model(name, seconds=1.0 if script == "sleep 600" else 20.0), time.monotonic()
    with pytest.raises(kind, match=says) as raised:
        asked.ask(REQUEST)
    assert time.monotonic() - began < 15
    answer = getattr(raised.value, "answer")  # noqa: B009 - both kinds have one
    assert answer.tokens_in + answer.tokens_out == asked.worst_case(REQUEST).tokens
    until(lambda: has_ended(tmp_path / "child"))


def test_what_one_leaves_behind_is_ended_and_not_waited_for(program: Program, tmp_path: Path) -> None:
    program("ask", f"sleep 600 & echo $! > {tmp_path}/child; echo tea it is")
    assert model("command:ask", seconds=20.0).ask(REQUEST).text == "tea it is\n"
    until(lambda: has_ended(tmp_path / "child"))


def test_codex_may_connect_again_knows_the_key_that_its_configuration_names_and_may_do_nothing_but_answer(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_API_KEY", "sk-x")  # a login

    def printing(*items: str) -> str:
        events: list[dict[str, object]] = [{"type": "error", "message": "Reconnecting... 1/5"}]
        events += [{"type": "item.completed", "item": {"type": one, "text": "tea it is"}} for one in items]
        events += [{"type": "turn.completed", "usage": {"input_tokens": 1000, "output_tokens": 10}}]
        return "cat <<'END'\n" + "\n".join(map(json.dumps, events)) + "\nEND"

    monkeypatch.setenv("ITS_KEY", "x")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text('[model_providers.x]\nenv_key = "ITS_KEY"\n')
    program("codex", f'test "$ITS_KEY" || exit 1; {printing("reasoning", "agent_message")}')
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
    assert list(installed_agents()) == []
    program("codex", "")
    program("claude", "")
    (claude, _), (codex, preset) = installed_agents()
    assert (claude, codex) == ("claude-code/haiku", "codex")
    said = "at most 5 calls and 60,000 tokens a dream, on your login of Codex; its price is not known"
    assert costs_of(preset, Limits()) == said


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fleet_dreams_for_nobody_with_a_program_on_one_persons_login(name: str) -> None:
    with pytest.raises(ConfigError, match=f"model.name is {name}"):
        without_machines_ceilings(Config(model=ModelSection(name=name)))


def test_who_reaches_a_daemon_cannot_have_it_run_another_command() -> None:
    ours, theirs = (Config(model=ModelSection(name=f"command:{name}")) for name in ("ask", "rm -r ~"))
    for config in (Config(), theirs):
        with pytest.raises(ConfigError, match="a running daemon dreams with no command but the one in its own"):
            DreamSettings({"model": {"name": "command:ask"}}).applied(config)
    assert DreamSettings({"model": {"name": "command:ask"}}).applied(ours) == ours
