"""What `dreamd connect --check` says of an agent is what its model sees, also where something is in the way."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.native_clients import Answered, Person, need
from tests.support.scripted_apis import ChatApi, GenerateApi, MessagesApi, ResponsesApi, ScriptedApi

CAT = "Ada's cat is called Zanzibar, and sleeps in the piano"
QUESTION = "What is the name of Ada's cat?"
PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}

pytestmark = pytest.mark.full


def plan(_: str) -> tuple[str]:
    """Whatever is said is understood."""
    return ("Understood.",)


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def change(path: Path, name: str, value: object) -> None:
    """As its owner does it by hand."""
    write(path, {**json.loads(path.read_text(encoding="utf-8")), name: value})


def ready(ada: Person, api: ScriptedApi) -> Callable[[], Answered]:
    """Let the agent have its model, and its owner's trust in the project; returns how it is asked."""
    home = ada.home.folder
    if isinstance(api, MessagesApi):
        write(home / ".claude.json", {"projects": {str(ada.project): {"hasTrustDialogAccepted": True}}})
        return lambda: ada.claude(api, QUESTION)
    if isinstance(api, ResponsesApi):
        ada.asks_codex(api)
        return lambda: ada.codex(api, QUESTION)
    if isinstance(api, GenerateApi):
        write(home / ".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
        write(home / ".gemini/trustedFolders.json", {str(ada.project): "TRUST_FOLDER"})
        return lambda: ada.gemini(api, QUESTION)
    assert isinstance(api, ChatApi)
    options = {"baseURL": f"{api.url}/v1", "apiKey": "scripted"}
    scripted = {"npm": "@ai-sdk/openai-compatible", "name": "s", "options": options, "models": {"m": {"name": "m"}}}
    own = {"provider": {"scripted": scripted}, "model": "scripted/m", "autoupdate": False}
    folder = Path(ada.environment().get("XDG_CONFIG_HOME", home / ".config"))
    write(folder / "opencode/opencode.json", own)
    return lambda: ada.opencode(api, QUESTION)


def untrusted(ada: Person) -> None:
    (ada.home.folder / ".gemini/trustedFolders.json").unlink()


def claude_runs_no_hooks(ada: Person) -> None:
    change(ada.project / ".claude/settings.local.json", "disableAllHooks", value=True)


def gemini_runs_no_hooks(ada: Person) -> None:
    change(ada.home.folder / ".gemini/settings.json", "hooksConfig", {"enabled": False})


def gemini_runs_not_ours(ada: Person) -> None:
    change(ada.project / ".gemini/settings.json", "hooksConfig", {"disabled": ["dreamd"]})


def nobody_trusts_codex(ada: Person) -> None:
    assert ada.dreamd("disconnect", "codex", "--yes").status == 0
    assert ada.dreamd("connect", "codex", "--yes").status == 0


def instructions_are_others(ada: Person) -> None:
    change(ada.project / "opencode.json", "instructions", ["docs/*.md"])


APIS: dict[str, type[ScriptedApi]] = {
    "claude-code": MessagesApi,
    "codex": ResponsesApi,
    "gemini": GenerateApi,
    "opencode": ChatApi,
}
IN_FILE = ("--file",)  # with rules of Claude Code, and an import of Gemini CLI's
CASES: list[Any] = [
    *[(name, None, "ok") for name in PROGRAMS],
    *[(name, IN_FILE, "ok") for name in ("claude-code", "gemini")],
    ("claude-code", claude_runs_no_hooks, "WRONG"),
    ("codex", nobody_trusts_codex, "waits for you"),
    ("gemini", untrusted, "waits for you"),
    ("gemini", gemini_runs_no_hooks, "WRONG"),
    ("gemini", gemini_runs_not_ours, "WRONG"),
    ("opencode", instructions_are_others, "WRONG"),
]


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Iterator[ScriptedApi]:
    with APIS[request.param](plan) as one:
        yield one


@pytest.mark.parametrize(
    ("api", "name", "way", "state"),
    [pytest.param(name, name, way, state, id=f"{name}-{state}-{n}") for n, (name, way, state) in enumerate(CASES)],
    indirect=["api"],
)
def test_what_is_said_to_be_shown_is_shown(
    ada: Person, api: ScriptedApi, name: str, way: Callable[[Person], None] | tuple[str, ...] | None, state: str
) -> None:
    need(PROGRAMS[name])
    asked = ready(ada, api)
    assert ada.dreamd("note", CAT).status == 0
    assert ada.dreamd("dream").status == 0
    options = way if isinstance(way, tuple) else ()
    connected = ada.dreamd("connect", name, "--yes", *options, *(["--trust"] if name == "codex" else []))
    assert connected.status == 0, connected.err
    if callable(way):
        way(ada)
    checked = ada.dreamd("connect", name, "--check", "--json").json["checks"]
    states = {one["state"] for one in checked}
    assert state in states, checked
    assert ("WRONG" in states) == (state == "WRONG"), checked
    answered = asked()
    assert (answered.ended.status == 0 and answered.requests) or state != "ok", answered.ended.err
    is_shown = any(answered.reached(CAT, number) for number in range(len(answered.requests)))
    assert is_shown == (states == {"ok"}), (checked, answered.requests)


@pytest.mark.parametrize(
    ("name", "file", "adds"),
    [
        ("claude-code", ".claude.json", "claude mcp add -s user other -- /bin/true"),
        ("codex", ".codex/config.toml", "codex mcp add other -- /bin/true"),
        ("gemini", ".gemini/settings.json", "gemini mcp add -s user other /bin/true"),
    ],
)
def test_what_an_agent_writes_anew_in_its_own_file_is_disconnected_all_the_same(
    ada: Person, name: str, file: str, adds: str
) -> None:
    need(PROGRAMS[name])
    (ada.home.folder / ".codex").mkdir()
    assert ada.dreamd("connect", name, "--user", "--yes", "--trust").status == 0
    added = ada.run(*adds.split())
    assert added.status == 0, added.err
    assert "/bin/true" in (ada.home.folder / file).read_text()
    done = ada.dreamd("disconnect", name, "--user", "--yes")
    assert (done.status, "stays" in done.err) == (0, False), done.err
    left = (ada.home.folder / file).read_text()
    assert "/bin/true" in left
    assert str(ada.home.folder / "bin" / "dreamd") not in left
    assert "bootstrap" not in left
