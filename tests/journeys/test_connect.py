"""`dreamd connect` as a person runs it: real commands, a home of one's own, and agents that are files or scripts.

tests/clients/ has the agents themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.folders import PLACE
from tests.support.running import Ended, process

IN_FILES = {
    "cursor": (".cursor/mcp.json", ".cursor/hooks.json"),
    "opencode": (".config/opencode/plugin/dreamd.js",),
    "vscode": (".config/Code/User/mcp.json",),
    "zed": (".config/zed/settings.json",),
}
BY_PROGRAM = {"claude-code": "claude", "codex": "codex", "gemini": "gemini"}
USUAL = "/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a home, a project whose name has blanks and quotes, and a workspace in it."""

    home: Path
    project: Path

    def __call__(self, *words: str | Path, folder: Path | None = None, path: str = USUAL) -> Ended:
        return process(
            *words,
            folder=folder or self.project,
            HOME=str(self.home),
            XDG_STATE_HOME=str(self.home / ".local/state"),
            XDG_DATA_HOME=str(self.home / ".local/share"),
            PATH=path,
        )

    def program(self, name: str, script: str, folder: Path | None = None) -> str:
        """Make a program of this name, and return a PATH that has it."""
        folder = folder or self.home / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
        return f"{folder}:{USUAL}"

    def files(self) -> dict[str, bytes]:
        """Every file of the home, the project and the plugins; not dreamd's state."""
        paths = {str(path.relative_to(self.home)): path for path in self.home.rglob("*") if path.is_file()}
        own = (".local/state", ".local/share/dreamd")
        return {
            name: path.read_bytes()
            for name, path in paths.items()
            if not name.startswith(own) or name.startswith(".local/share/dreamd/agents")
        }


@pytest.fixture
def ada() -> Iterator[Person]:
    with TemporaryDirectory(prefix="ada-", dir=PLACE) as folder:  # a short path: a socket's must be
        person = Person(Path(folder), Path(folder) / 'Ada\'s "own" project')
        person.project.mkdir()
        assert person("init", person.project, "--no-daemon").status == 0
        yield person


def test_every_agent_is_connected_twice_as_once_and_taken_out_again(ada: Person) -> None:
    before = ada.files()
    first = ada("connect", *IN_FILES, "--yes", "--json")
    assert (first.status, first.json["done"]) == (0, [*IN_FILES]), first.out
    connected = ada.files()
    assert connected.keys() - before.keys() == {name for names in IN_FILES.values() for name in names}
    assert all(b"dreamd" in content for name, content in connected.items() if name not in before)
    again = ada("connect", *IN_FILES, "--yes", "--json")
    assert [one["changes"] for one in again.json["agents"]] == [[]] * len(IN_FILES)
    assert ada.files() == connected
    assert ada("disconnect", "--yes").status == 0
    assert ada.files() == before
    assert ada("disconnect", "--yes").status == 3
    assert ada("disconnect", "zed", "--yes").status == 0


def test_nothing_is_changed_before_somebody_agrees(ada: Person) -> None:
    before = ada.files()
    shown = ada("connect", "cursor")
    assert (shown.status, "nothing was changed; --yes does it" in shown.err) == (1, True)
    assert f"{ada.home}/.cursor/mcp.json: mcpServers.dreamd\n    before: null\n    after: {{" in shown.out
    tried = ada("connect", "cursor", "--dry-run", "--json")
    assert (tried.status, len(tried.json["agents"][0]["changes"])) == (0, 4)
    assert ada("connect", "cursor", "--json").json["done"] == []
    assert ada.files() == before


@pytest.mark.parametrize("agent", BY_PROGRAM)
def test_an_agent_without_its_program_or_that_refuses_is_said_and_nothing_is_left(ada: Person, agent: str) -> None:
    path = ada.program(BY_PROGRAM[agent], "echo no such command >&2; exit 1", ada.home / "tools")
    before = ada.files()
    missing = ada("connect", agent, "--yes")
    assert (missing.status, f"'{BY_PROGRAM[agent]}' is not on the PATH" in missing.err) == (1, True)
    refused = ada("connect", agent, "--yes", path=path)
    assert (refused.status, "no such command" in refused.err) == (1, True)
    assert ada.files() == before
    assert ada("connect", agent, "--check", path=path).status == 1


def test_a_program_is_found_where_installers_put_it(ada: Person) -> None:
    for folder in (".local/bin", ".claude/local", "bin"):
        (ada.home / folder).mkdir(parents=True)
        ada.program("claude", "echo no such command >&2; exit 1", ada.home / folder)
        shown = ada("connect", "claude-code", "--dry-run")  # as in a service, whose PATH has none of them
        assert (shown.status, "run: claude plugin marketplace add" in shown.out) == (0, True), shown
        (ada.home / folder / "claude").unlink()


def test_where_nothing_can_be_written_nothing_is_half_done(ada: Person) -> None:
    ran = ada.home / "ran"
    path = ada.program("claude", f"echo $* >> '{ran}'")
    (ada.home / ".local/share/dreamd/agents").write_text("a file")
    refused = ada("connect", "claude-code", "--yes", path=path)
    assert (refused.status, "a file stands where a folder should be" in refused.err) == (1, True)
    assert not ran.exists()


def test_a_file_with_comments_is_left_alone_and_the_others_are_connected(ada: Person) -> None:
    settings = ada.home / ".config/zed/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('// mine\n{"theme": "dark"}\n')
    done = ada("connect", "zed", "vscode", "--yes", "--json")
    assert (done.status, done.json["done"], settings.read_text()[:7]) == (1, ["vscode"], "// mine")
    assert "not plain JSON" in done.err
    assert '"source": "custom"' in done.err


def test_only_those_that_are_installed_are_connected_unless_named(ada: Person) -> None:
    nothing = ada("connect")
    assert (nothing.status, "claude-code" in nothing.err) == (3, True)
    path = ada.program("opencode", "exit 0")
    assert ada("connect", "--yes", "--json", path=path).json["done"] == ["opencode"]


@pytest.mark.full
def test_check_tries_what_was_written_and_leaves_no_trace(ada: Person) -> None:
    assert ada("note", "Ada prefers tea").status == 0
    assert ada("connect", "cursor", "vscode", "--yes").status == 0
    checked = ada("connect", "--check", "--json")
    assert checked.status == 0, checked.out
    said = [one["what"] for one in checked.json["checks"]]
    assert sum("the server answers" in one for one in said) == 2
    assert sum("session start gives" in one and "characters" in one for one in said) == 1
    assert {one["state"] for one in checked.json["checks"] if one["agent"] == "vscode"} == {"ok", "waits for you"}
    assert ada("status", "--json").json["last_bootstrap"] is None  # to try it is no reading
    hooks = ada.home / ".cursor/hooks.json"
    hooks.write_text(hooks.read_text().replace("bootstrap", "search"))
    (wrong,) = (one for one in ada("connect", "cursor", "--check", "--json").json["checks"])
    assert (wrong["state"], wrong["advice"]) == ("WRONG", "dreamd connect cursor")


def test_no_program_of_the_project_is_run(ada: Person) -> None:
    ran = ada.home / "ran"
    for name in BY_PROGRAM.values():
        ada.program(name, f"echo $0 >> '{ran}'", ada.project / "bin")
    path = f"bin:./bin::{USUAL}"
    assert ada("connect", *BY_PROGRAM, "--yes", path=path).status == 1
    assert ada("connect", "--check", path=path).status == 3
    assert not ran.exists()
