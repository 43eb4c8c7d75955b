"""Connecting changes agents' files as little as can be, and disconnecting undoes exactly that."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.connect import edit
from daemon.connect.agent import Agent, AgentFile, Place, Scope, commands_in, format_of
from daemon.connect.agents import AGENTS
from daemon.connect.edit import Setting
from daemon.connect.plan import Written, connected, disconnected
from state.agents import READERS
from state.errors import DocumentError


def nothing(*_: object) -> object:
    """Of every file: it is not there."""
    return {}


ROOT = Path('/srv/Ada\'s "own" memory')
HERE = Place(Scope.PROJECT, ROOT, ROOT, ("/opt/my tools/dreamd",), {"HOME": "/home/ada"})
JSONC = """// mine
{
    "theme": "dark", /* as it was */
    "mcpServers": {"other": {"command": "x"}},
    "servers": {},
    "hooks": {
        // the linter
        "SessionStart": [{"hooks": [{"type": "command", "command": "lint"}]}],
    },
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
}
"""
TOML = """# mine
model = "gpt-5"  # the usual one

[mcp_servers.other]
command = "x"

# the linter
[[hooks.SessionStart]]
[[hooks.SessionStart.hooks]]
type = "command"
command = "lint"

[projects."/srv"]
trust_level = "trusted"
"""
OWN = {"json": JSONC, "toml": TOML}


def read(file: AgentFile, text: str) -> Any:
    return edit.read(format_of(file.path), text)


def planned(file: AgentFile, text: str | None, last: Written | None = None) -> tuple[str, Written]:
    """The file when it is connected, and what the record says of it."""
    made = connected(file, text, last)
    assert made.after is not None
    assert made.written is not None
    return made.after, made.written


def test_what_the_agent_s_server_could_not_know_is_among_it() -> None:
    own = {"DREAMD_SOCKET": "/run/dreamd.sock", "XDG_STATE_HOME": "/srv/state"}
    assert replace(HERE, environment={**HERE.environment, **own}).server()["env"] == own


def test_every_agent_is_known_to_the_bootstrap() -> None:
    names = {agent.name for agent in AGENTS}
    assert names <= READERS.keys()


def test_what_somebody_else_set_or_changed_since_stays_and_is_told() -> None:
    file = AGENTS[0].files(HERE, nothing)[0]
    text, written = planned(file, None)
    edited = text.replace('"alwaysLoad": true', '"alwaysLoad": false')
    back = disconnected(edited, written)
    assert (back.after, [one.path for one in back.left]) == (edited, [("mcpServers", "dreamd")])
    with pytest.raises(DocumentError, match=r"mcpServers\.dreamd has another value"):
        connected(file, '{"mcpServers": {"dreamd": {"command": "mine"}}}', None)
    allowed = AgentFile(ROOT / "x.json", "", (Setting(("permissions", "allow"), "mcp__dreamd", item=True),))
    text = '{"permissions": {"allow": ["mcp__dreamd"]}}'
    after, written = planned(allowed, text)
    assert (after, disconnected(text, written).after) == (text, text)


def test_what_is_said_later_joins_what_is_there() -> None:
    file = AgentFile(ROOT / "x.json", "", (Setting(("hooks", "Stop"), {"command": "x"}, item=True),))
    text, written = planned(file, '{"hooks": {"Stop": []}}')
    lines = text.replace("[", '[{"command": "mine"}, ')
    more = replace(file, settings=(*file.settings, Setting(("trusted",), value=True)))
    second, rewritten = planned(more, lines, written)
    assert read(more, second)["hooks"]["Stop"] == [{"command": "mine"}, {"command": "x"}]
    assert disconnected(second, rewritten).after == '{"hooks": {"Stop": [{"command": "mine"}, ]}}'


@pytest.mark.parametrize("here", [HERE, replace(HERE, scope=Scope.USER, workspace=None)])
def test_a_new_place_of_the_program_replaces_the_old_one_alone(here: Place) -> None:
    moved = replace(here, program=("/new/dreamd",))
    every = (zip(agent.files(here, nothing), agent.files(moved, nothing), strict=True) for agent in AGENTS)
    for old, new in ((old, new) for pairs in every for old, new in pairs if old.head is None):
        for own in (OWN.get(format_of(old.path), "# mine\n"), None):
            second, rewritten = planned(new, *planned(old, own))
            assert "my tools" not in second
            assert "required" not in second  # no agent waits for dreamd to start
            assert planned(new, second, rewritten) == (second, rewritten)
            assert disconnected(second, rewritten).after == own


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish"])
@pytest.mark.parametrize("name", ["dreamd", 'Ada\'s "own" $tools/dreamd'])
def test_a_hook_is_silent_and_ends_well_whether_dreamd_is_there_or_not(shell: str, name: str, tmp_path: Path) -> None:
    if (found := shutil.which(shell)) is None:
        pytest.skip(f"no {shell} here")
    program = tmp_path / name
    here = Place(Scope.PROJECT, ROOT, ROOT, (str(program) if "/" in name else name,), {"HOME": "/home/ada"})
    settings = [one for agent in AGENTS for file in agent.files(here, nothing) for one in file.settings]
    hooks = {command for one in settings for command in commands_in(one)}
    assert len(hooks) == 5  # the end of a session is the same for all, and each agent has a beginning of its own

    def ran(command: str) -> tuple[int, bytes, bytes]:
        ended = subprocess.run([found, "-c", command], capture_output=True, check=False, env={"PATH": str(tmp_path)})
        return ended.returncode, ended.stdout, ended.stderr

    assert {ran(command) for command in hooks} == {(0, b"", b"")}
    program.parent.mkdir(exist_ok=True)
    for status in (0, 2):
        program.write_text(f"#!/bin/sh\necho $1 $3\nexit {status}\n")
        program.chmod(0o755)
        expected = {(0, f"{word} {ROOT}\n".encode(), b"") for word in ("bootstrap", "ingest")}
        assert {ran(command) for command in hooks} == expected


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent.name in ("claude-code", "codex")])
def test_a_thousand_hooks_that_came_with_a_repository_take_no_hour(agent: Agent) -> None:
    file = agent.files(HERE, nothing)[0 if agent.name == "codex" else 1]
    made, written = planned(file, None)
    copies = made + "".join(one.text for one in written.puts[1:2] * 1_000)
    text = copies if agent.name == "codex" else f"/* {copies} */{made}"
    assert disconnected(text, written).after is not None
