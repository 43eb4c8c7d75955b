"""Claude Code, Codex and Gemini CLI themselves as the model of a dream: asked once, on the login that they have."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import lived
from tests.support.model_characters import good
from tests.support.native_clients import Person, need
from tests.support.running import Ended
from tests.support.scripted_apis import Call, GenerateApi, MessagesApi, Plan, ResponsesApi, ScriptedApi, Step

CAT = "Ada's cat is called Zanzibar, and sleeps in the piano"
RULE = "Whoever reads this is a zebra"

pytestmark = pytest.mark.full


def answering(prompt: str) -> tuple[Step, ...]:
    """A model that does what a dream asks of it."""
    return (good({"messages": [{}, {"content": prompt}]}, 1),)


@dataclass(frozen=True, slots=True)
class Asked:
    """An agent with hooks, an MCP server and a memory file of its user's, which would leave marks in the home."""

    name: str
    person: Person
    api: ScriptedApi
    login: dict[str, str]
    """Variables that its model's provider is reached with; without them nobody is logged in."""

    def dream(self, *, logged_in: bool = True) -> Ended:
        proxies = {"HTTPS_PROXY": self.api.url, "HTTP_PROXY": self.api.url, "NO_PROXY": "127.0.0.1"}
        variables = {**proxies, **(self.login if logged_in else {}), "DREAMD_MODEL__NAME": self.name}
        return self.person.dreamd("dream", **variables)

    def marks(self) -> list[str]:
        """What its hooks and its MCP server have left."""
        return sorted(path.name for path in self.person.home.folder.glob("ran-*"))

    def left(self) -> list[str]:
        """The files of the home, but for those of dreamd, that hold what was asked."""
        home = self.person.home.folder
        files = (path for path in home.rglob("*") if path.is_file() and not path.is_relative_to(self.person.project))
        ours = (home / "data", home / "state", home / "config", home / "run")
        return [
            str(one) for one in files if not any(map(one.is_relative_to, ours)) and b"Zanzibar" in one.read_bytes()
        ]


def _mark(home: Path, name: str) -> str:
    return f"touch {home}/ran-{name}"


def _hooks(home: Path, *events: str) -> dict[str, object]:
    return {event: [{"hooks": [{"type": "command", "command": _mark(home, event)}]}] for event in events}


def claude_code(ada: Person, plan: Plan) -> Asked:
    home, api = ada.home.folder, MessagesApi(plan)
    (home / ".claude").mkdir()
    hooks = _hooks(home, "SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    (home / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    (home / ".claude" / "CLAUDE.md").write_text(RULE)
    servers = {"own": {"command": "touch", "args": [f"{home}/ran-server"]}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    return Asked("claude-code", ada, api, {"ANTHROPIC_API_KEY": "sk-ant-scripted", "ANTHROPIC_BASE_URL": api.url})


def codex(ada: Person, plan: Plan) -> Asked:
    home, api = ada.home.folder, ResponsesApi(plan)
    ada.asks_codex(api)
    with ada.codex_config.open("a") as config:
        config.write(f'[mcp_servers."its own"]\ncommand = "touch"\nargs = ["{home}/ran-server"]\n')
    (home / ".codex" / "hooks.json").write_text(json.dumps({"hooks": _hooks(home, "SessionStart", "Stop")}))
    ada.trusts_codex_hooks()
    return Asked("codex", ada, api, {"SCRIPTED_KEY": "sk-scripted"})


def gemini(ada: Person, plan: Plan) -> Asked:
    home, api = ada.home.folder, GenerateApi(plan)
    (home / ".gemini").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "hooks": _hooks(home, "SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"),
        "mcpServers": {"own": {"command": "touch", "args": [f"{home}/ran-server"]}},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    (home / ".gemini" / "GEMINI.md").write_text(RULE)
    return Asked("gemini", ada, api, {"GEMINI_API_KEY": "AIza-scripted", "GOOGLE_GEMINI_BASE_URL": api.url})


KINDS: dict[str, Callable[[Person, Plan], Asked]] = {"claude": claude_code, "codex": codex, "gemini": gemini}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    need(request.param)
    return str(request.param)


@pytest.fixture
def asked(kind: str, ada: Person) -> Iterator[Asked]:
    one = KINDS[kind](ada, answering)
    with one.api:
        assert ada.dreamd("note", CAT).status == 0
        yield one


def test_a_dream_is_written_by_the_agent_in_one_turn_and_nothing_of_it_is_left(asked: Asked) -> None:
    dreamt = asked.dream()
    assert dreamt.status == 0, dreamt.err
    assert f"{asked.name}: 1 call, 1,010 tokens, price not known, 1 note" in dreamt.out
    assert CAT in asked.person.workspace.document.read_text()
    (request,) = asked.api.requests
    said = json.dumps(request)
    assert CAT in said
    assert "touch" not in said
    offered = {one["name"] for tool in request.get("tools", ()) for one in tool.get("functionDeclarations", [tool])}
    assert offered <= {"request_user_input", "apply_patch"}  # Codex offers these, and grants neither
    if asked.name != "codex":  # which reads the user's own AGENTS.md
        assert RULE not in said
    assert asked.marks() == []
    assert asked.left() == []


def test_an_agent_that_nobody_has_logged_in_leaves_a_dream_without_a_model(asked: Asked) -> None:
    dreamt = asked.dream(logged_in=False)
    assert dreamt.status == 0, dreamt.err
    (said,) = [line for line in dreamt.err.splitlines() if line.startswith("notice: the model failed")]
    assert f"extractive instead: {asked.name} has to ask you something first" in said
    assert "by hand until it answers" in said
    assert asked.api.requests == []
    lived.assert_once(asked.person.workspace, [CAT])


def test_a_model_that_calls_a_tool_is_not_obeyed(kind: str, ada: Person) -> None:
    mark = f"{ada.home.folder}/ran-tool"
    tools = {
        "claude": ("Bash", "command"),
        "codex": ("exec_command", "cmd"),
        "gemini": ("run_shell_command", "command"),
    }
    name, argument = tools[kind]
    one = KINDS[kind](ada, lambda _: (Call(name, {argument: f"touch {mark}"}, ""), "Done."))
    with one.api:
        assert ada.dreamd("note", CAT).status == 0
        dreamt = one.dream()
    assert one.marks() == []
    assert dreamt.status == 4, dreamt.err
    assert ada.dreamd("status", "--json").json["pending"]["notes"] == 1
