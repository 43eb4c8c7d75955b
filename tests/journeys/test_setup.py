"""Two commands from nothing to an agent that remembers, and one that undoes it: setup, uninstall."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.folders import PLACE
from tests.support.repository import git
from tests.support.running import Caller
from tests.support.scripted_model import ScriptedModel


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of somebody who has Cursor, and settings of their own in its file; a short path, as for a socket."""
    with tempfile.TemporaryDirectory(prefix="ada-", dir=PLACE) as folder:
        home = Path(folder)
        for name, value in {"HOME": home, "DREAMD_SOCKET": home / "sock", "XDG_CACHE_HOME": home / ".cache"}.items():
            monkeypatch.setenv(name, str(value))
        for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        (home / ".cursor").mkdir()
        (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {"other": {"command": "true"}}}\n')
        monkeypatch.chdir(home)
        yield home
        monkeypatch.undo()


def servers(home: Path) -> set[str]:
    return set(json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"])


def memories(home: Path) -> list[str]:
    return sorted(path.parent.name for path in (home / ".local/share/dreamd").glob("*/place"))


@pytest.mark.full
def test_setup_connects_proves_and_can_be_run_again_and_uninstall_leaves_the_memories(
    home: Path, dreamd: Caller
) -> None:
    done = dreamd("setup", "--yes")
    assert done.status == 0, f"{done.out}{done.err}"
    assert "- The harbour office opens at 9:30 on weekdays" in done.out
    assert servers(home) == {"other", "dreamd"}
    assert memories(home) == []  # the proof is thrown away
    project = home / "shop"
    git(home, "init", "--quiet", project)
    assert dreamd("note", "-w", project, "The till closes at nine").status == 0
    assert dreamd("setup", "--yes").status == 0
    removed = dreamd("uninstall", "--yes")
    assert removed.status == 0, f"{removed.out}{removed.err}"
    assert f"{home}/.local/share/dreamd: the memories" in removed.out
    assert servers(home) == {"other"}
    assert "till closes at nine" in dreamd("bootstrap", project).out
    assert dreamd("uninstall", "--yes").status == 0


@pytest.mark.full
def test_setup_proves_the_model_that_is_configured_and_says_what_does_not_work(
    home: Path, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(home / ".cursor")
    with ScriptedModel(lambda _, __: "nonsense") as model:
        for name, value in model.variables.items():
            monkeypatch.setenv(name, value)
        done = dreamd("setup", "--yes")
    assert (done.status, "Not done: proof" in done.out) == (1, True)
    assert "as configured" in done.out
    assert memories(home) == []


def test_uninstall_asks_first(home: Path, dreamd: Caller) -> None:
    ended = dreamd("uninstall")
    assert (ended.status, "--yes" in ended.err, servers(home)) == (3, True, {"other"})


def test_uninstall_deletes_nothing_that_is_its_owners(
    home: Path, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {
        ".config/opencode/plugin/dreamd.js": "// mine",
        ".gemini/policies/dreamd.toml": "# mine",
        ".cursor/hooks.json": '{"hooks": {"sessionEnd": [{"command": "mine --agent cursor-x"}]}}',
        "sock/notes.md": "mine",
    }
    for name, text in own.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    assert dreamd("connect", "cursor", "--yes").status == 0
    assert "mine --agent cursor-x" in (home / ".cursor/hooks.json").read_text()
    dreamd("uninstall", "--yes")
    assert [name for name in own if not (home / name).exists()] == []
    monkeypatch.setenv("DREAMD_SOCKET", str(home / "sock/notes.md"))
    dreamd("uninstall", "--yes")
    assert (home / "sock/notes.md").exists()
