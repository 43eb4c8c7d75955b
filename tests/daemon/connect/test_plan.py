"""Connecting changes agents' files as little as can be, and disconnecting undoes exactly that."""

import json
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
EVERYWHERE = Place(Scope.USER, ROOT, None, ("/opt/my tools/dreamd",), {"HOME": "/home/ada"})
FILES = [
    pytest.param(file, id=f"{agent.name}-{place.scope}-{file.path.name}")
    for place in (HERE, EVERYWHERE)
    for agent in AGENTS
    for file in agent.files(place, nothing)
    if file.head is None
]
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
TEXTS = {
    "json": st.one_of(
        st.sampled_from(
            ["", "{}", "{}\n", "// nothing yet\n", "{\n}\n", JSONC, JSONC.replace("\n", "\r\n"), "\ufeff{}"]
        ),
        st.dictionaries(
            st.sampled_from(["hooks", "mcpServers", "permissions", "mcp", "servers", "instructions", "é", "version"]),
            st.one_of(st.dictionaries(st.text(max_size=4), st.integers(), max_size=2), st.just({})),
            max_size=4,
        ).map(lambda value: json.dumps(value, indent=2)),
    ),
    "toml": st.sampled_from(["", "\n", "# nothing yet\n", TOML, TOML.replace("\n", "\r\n"), 'model = "x"']),
}


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


@pytest.mark.parametrize("file", FILES)
def test_what_was_there_stays_and_what_is_put_in_is_found(file: AgentFile) -> None:
    own = OWN[format_of(file.path)]
    text, written = planned(file, own)
    assert all(edit.holds(format_of(file.path), text, one.setting) for one in written.puts)
    comments = {"json": ("// mine", "/* as it was */", "// the linter"), "toml": ("# mine", "# the usual one")}
    assert all(comment in text for comment in comments[format_of(file.path)])
    before, after = read(file, own), read(file, text)
    assert before["hooks"]["SessionStart"][0] in after["hooks"]["SessionStart"]
    assert before.keys() <= after.keys()
    text, written = planned(file, None)
    assert written.created
    assert disconnected(text, written).after is None
    assert read(file, text)  # and it can be read by those who do not know comments
    json.loads(text) if format_of(file.path) == "json" else tomllib.loads(text)
    assert "required" not in text  # no agent waits for dreamd to start


@pytest.mark.parametrize("file", FILES)
def test_doing_it_again_changes_nothing_and_undoing_it_leaves_every_byte(file: AgentFile) -> None:
    @given(TEXTS[format_of(file.path)])
    def holds(before: str) -> None:
        try:
            text, written = planned(file, before)
        except DocumentError:  # a list where an object would have to be: nothing is written
            return
        assert planned(file, text, written) == (text, written)
        back = disconnected(text, written)
        assert (back.left, back.after) == ((), before)

    holds()


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


def test_a_new_place_of_the_program_replaces_the_old_one_alone() -> None:
    moved = Place(Scope.PROJECT, ROOT, ROOT, ("/new/dreamd",), HERE.environment)
    every = (zip(agent.files(HERE, nothing), agent.files(moved, nothing), strict=True) for agent in AGENTS)
    for old, new in ((old, new) for pairs in every for old, new in pairs if old.head is None):
        own = OWN.get(format_of(old.path), "# mine\n")
        second, rewritten = planned(new, *planned(old, own))
        assert "my tools" not in second
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
