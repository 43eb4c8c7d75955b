"""Claude Code, Codex and Gemini CLI themselves as the model of a dream: asked once, on the login that they have."""

import json
from collections.abc import Iterator

import pytest

from tests.support import lived
from tests.support.model_characters import good
from tests.support.native_clients import AGENTS, Agent, Codex, Person, write
from tests.support.running import Ended
from tests.support.scripted_apis import Call, Step

CAT = "Ada's cat is called Zanzibar, and sleeps in the piano"
RULE = "Whoever reads this is a zebra"

pytestmark = pytest.mark.full


def answering(prompt: str) -> tuple[Step, ...]:
    """A model that does what a dream asks of it."""
    return (good({"messages": [{}, {"content": prompt}]}, 1),)


def dream(agent: Agent, *, logged_in: bool = True) -> Ended:
    """A dream that asks the agent, by the login that it has or has not."""
    login = agent.login if logged_in else {}
    return agent.person.dreamd("dream", **agent.proxied, **login, DREAMD_MODEL__NAME=agent.name)


def marks(agent: Agent) -> list[str]:
    """What its hooks and its MCP server have left in the home."""
    return sorted(path.name for path in agent.person.home.folder.glob("ran-*"))


def left(agent: Agent) -> list[str]:
    """The files of the home, but for those of dreamd, that hold what was agent."""
    home = agent.person.home.folder
    ours = (agent.person.project, home / "data", home / "state", home / "config", home / "run")
    files = (path for path in home.rglob("*") if path.is_file() and not any(map(path.is_relative_to, ours)))
    return [str(one) for one in files if b"Zanzibar" in one.read_bytes()]


def furnish(agent: Agent) -> None:
    """Give it hooks, an MCP server and a memory file of its user's, which would leave marks in the home."""
    home = agent.person.home.folder
    server = {"own": {"command": "touch", "args": [f"{home}/ran-server"]}}

    def hooks(*events: str) -> dict[str, object]:
        return {one: [{"hooks": [{"type": "command", "command": f"touch {home}/ran-{one}"}]}] for one in events}

    if isinstance(agent, Codex):
        agent.ready()
        with agent.config.open("a") as config:
            config.write(f'[mcp_servers."its own"]\ncommand = "touch"\nargs = ["{home}/ran-server"]\n')
        write(home / ".codex" / "hooks.json", {"hooks": hooks("SessionStart", "Stop")})
        agent.trusts_hooks()
    elif agent.name == "gemini":
        auth, every = {"auth": {"selectedType": "gemini-api-key"}}, "SessionStart BeforeAgent AfterAgent SessionEnd"
        own = {"security": auth, "hooks": hooks(*every.split()), "mcpServers": server}
        write(home / ".gemini" / "settings.json", own)
        (home / ".gemini" / "GEMINI.md").write_text(RULE)
    else:
        every = "SessionStart UserPromptSubmit Stop SessionEnd"
        write(home / ".claude" / "settings.json", {"hooks": hooks(*every.split())})
        (home / ".claude" / "CLAUDE.md").write_text(RULE)
        write(home / ".claude.json", {"mcpServers": server})


@pytest.fixture(params=["claude-code", "codex", "gemini"])
def kind(request: pytest.FixtureRequest) -> type[Agent]:
    found = AGENTS[request.param]
    found.need()
    return found


@pytest.fixture
def agent(kind: type[Agent], ada: Person) -> Iterator[Agent]:
    one = kind(ada, answering)
    furnish(one)
    with one.api:
        assert ada.dreamd("note", CAT).status == 0
        yield one


def test_a_dream_is_written_by_the_agent_in_one_turn_and_nothing_of_it_is_left(agent: Agent) -> None:
    dreamt = dream(agent)
    assert dreamt.status == 0, dreamt.err
    assert f"{agent.name}: 1 call, 1,010 tokens, price not known, 1 note" in dreamt.out
    assert CAT in agent.person.workspace.document.read_text()
    (request,) = agent.api.requests
    said = json.dumps(request)
    assert CAT in said
    assert "touch" not in said
    offered = {one["name"] for tool in request.get("tools", ()) for one in tool.get("functionDeclarations", [tool])}
    assert offered <= {"request_user_input", "apply_patch"}  # Codex offers these, and grants neither
    if agent.name != "codex":  # which reads the user's own AGENTS.md
        assert RULE not in said
    assert marks(agent) == []
    assert left(agent) == []


def test_an_agent_that_nobody_has_logged_in_leaves_a_dream_without_a_model(agent: Agent) -> None:
    dreamt = dream(agent, logged_in=False)
    assert dreamt.status == 0, dreamt.err
    (said,) = [line for line in dreamt.err.splitlines() if line.startswith("notice: the model failed")]
    assert f"extractive instead: {agent.name} has to ask you something first" in said
    assert "by hand until it answers" in said
    assert agent.api.requests == []
    lived.assert_once(agent.person.workspace, [CAT])


@pytest.mark.parametrize(
    ("status", "message", "said", "ended"),
    [
        (401, "invalid x-api-key", "has to ask you something first", 0),
        (400, "Your credit balance is too low to access the API; you exceeded your current quota", "used up", 1),
        (429, "You exceeded your current quota", "used up", 1),
    ],
)
def test_a_login_that_is_refused_or_used_up_is_said_at_once(
    agent: Agent, status: int, message: str, said: str, ended: int
) -> None:
    agent.api.refusal = (status, message)
    dreamt = dream(agent)
    assert said in dreamt.err
    assert "timeout" not in dreamt.err
    assert len(agent.api.requests) <= 6  # Codex connects five times more
    assert dreamt.status == ended, dreamt.err


def test_a_model_that_calls_a_tool_is_not_obeyed(kind: type[Agent], ada: Person) -> None:
    tools = {
        "claude-code": ("Bash", "command"),
        "codex": ("exec_command", "cmd"),
        "gemini": ("run_shell_command", "command"),
    }
    name, argument = tools[kind.name]
    one = kind(ada, lambda _: (Call(name, {argument: f"touch {ada.home.folder}/ran-tool"}, ""), "Done."))
    furnish(one)
    with one.api:
        assert ada.dreamd("note", CAT).status == 0
        dreamt = dream(one)
    assert marks(one) == []
    assert dreamt.status == 4, dreamt.err
    assert ada.dreamd("status", "--json").json["pending"]["notes"] == 1
