"""The recipes have the paths of the workspace, and of the folders that are not the usual ones."""

import json
import shlex
from pathlib import Path

from daemon.api.recipes import recipes
from daemon.config.paths import program
from daemon.workspace.adoption import init_workspace
from tests.support.running import Caller

ROOT = Path("/srv/Ada's memory")
HOME = {"HOME": "/home/ada"}


def test_each_recipe_has_its_file_and_its_text() -> None:
    every = recipes(ROOT, ("/usr/bin/dreamd",), HOME)
    claude, hooks = every[:2]
    any_other, by_hand = every[-2:]
    assert (claude.agent, claude.file) == ("Claude Code", ".mcp.json")
    server = json.loads(claude.text)["mcpServers"]["dreamd"]
    assert (server["command"], server["args"], server["env"]) == ("/usr/bin/dreamd", ["mcp", "-w", str(ROOT)], {})
    assert (hooks.agent, hooks.file) == ("Claude Code", ".claude/settings.local.json")
    assert json.loads(hooks.text)["hooks"].keys() == {"SessionStart", "PreCompact", "SessionEnd"}
    assert [one.file for one in every if not one.file] == ["", ""]
    assert shlex.split(any_other.text) == ["/usr/bin/dreamd", "mcp", "-w", str(ROOT)]
    assert [shlex.split(line)[1] for line in by_hand.text.splitlines()] == ["bootstrap", "note"]


def test_what_the_agent_s_server_could_not_know_is_among_it() -> None:
    elsewhere = {**HOME, "DREAMD_SOCKET": "/run/dreamd.sock", "XDG_STATE_HOME": "/srv/state"}
    server = json.loads(recipes(ROOT, ("dreamd",), elsewhere)[0].text)["mcpServers"]["dreamd"]
    assert server["env"] == {"DREAMD_SOCKET": "/run/dreamd.sock", "XDG_STATE_HOME": "/srv/state"}


def test_init_says_how_to_connect_and_what_is_left_to_do_by_hand(dreamd: Caller, tmp_path: Path) -> None:
    folder = init_workspace(tmp_path / "here").root
    printed = dreamd("init", folder).out
    assert f"  dreamd connect -w {folder}\n" in printed
    for one in recipes(folder, program(), {"HOME": "/nonexistent"}):
        assert (f"{one.what}:\n" in printed) is not bool(one.file)
