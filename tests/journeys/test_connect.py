"""`dreamd connect` as a person runs it: real commands, agents' real files, a home of one's own."""

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.folders import PLACE
from tests.support.long_variants import spread
from tests.support.repository import git
from tests.support.running import Ended, process

AGENTS = ("claude-code", "codex", "cursor", "gemini", "opencode", "vscode", "zed")
SETTINGS = (
    '// mine\n{\n  "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "lint"}]}]}, // lint\n}\n'
)
GRACE = "mcp_optional_startup_grace_ms"
CODEX = '# mine\nmodel = "gpt-5"  # the usual one\n'
PROGRAM = "#!/bin/sh\nexit 0\n"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a home, a project whose name has blanks and quotes, and a workspace in it."""

    home: Path
    project: Path

    def __call__(self, *words: str | Path, folder: Path | None = None, path: str = "/usr/bin:/bin") -> Ended:
        own = self.home / ".local"
        return process(
            *words,
            folder=folder or self.project,
            HOME=str(self.home),
            XDG_STATE_HOME=str(own / "state"),
            XDG_DATA_HOME=str(own / "share"),
            PATH=path,
        )

    def connect(self, *words: str, path: str = "/usr/bin:/bin") -> Ended:
        return self("connect", "-w", self.project, "--yes", *words, path=path)

    def files(self) -> dict[str, bytes]:
        """Every file of the home and the project but dreamd's own."""
        every = (path for path in self.home.rglob("*") if path.is_file())
        own = (".dreamd", "state", "share")
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in every
            if not any(part in own for part in path.relative_to(self.home).parts)
        }


@pytest.fixture
def ada() -> Iterator[Person]:
    with TemporaryDirectory(prefix="ada-", dir=PLACE) as folder:  # a short path: a socket's must be
        person = Person(Path(folder), Path(folder) / 'Ada\'s "own" project')
        person.project.mkdir()
        assert person("init", person.project, "--no-daemon").status == 0
        yield person


def parsed(path: Path) -> Any:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def test_every_agent_is_connected_twice_as_once_and_taken_out_again(ada: Person) -> None:
    before = ada.files()
    first = ada.connect(*AGENTS)
    assert first.status == 0, first.err
    connected = ada.files()
    for name, key in {
        ".mcp.json": "mcpServers",
        ".codex/config.toml": "mcp_servers",
        ".cursor/mcp.json": "mcpServers",
        ".gemini/settings.json": "mcpServers",
        "opencode.json": "mcp",
        ".vscode/mcp.json": "servers",
        ".zed/settings.json": "context_servers",
    }.items():
        server = json.dumps(parsed(ada.project / name)[key]["dreamd"], ensure_ascii=False)
        assert str(ada.project) in server.replace('\\"', '"'), name
    again = ada.connect(*AGENTS)
    assert (again.status, again.out.count("it is connected"), ada.files()) == (0, len(AGENTS), connected)
    assert ada("disconnect", "--yes", "-w", ada.project).status == 0
    assert ada.files() == before
    assert ada("disconnect", "--yes", "-w", ada.project).status == 3


@pytest.mark.parametrize(("own", "waits"), [("# mine\n[features]\na = true\n", 10_000), (f"{GRACE} = 0\n", 0)])
def test_codex_waits_for_its_servers_as_long_as_its_owner_says(ada: Person, own: str, waits: int) -> None:
    file = ada.project / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(own)
    for _ in range(2):
        assert ada.connect("codex").status == 0
        assert parsed(file)[GRACE] == waits
    assert ada("disconnect", "--yes", "-w", ada.project).status == 0
    assert file.read_text() == own


def test_the_change_is_shown_as_a_diff_and_the_old_file_is_kept(ada: Person) -> None:
    settings = ada.project / ".claude" / "settings.local.json"
    settings.parent.mkdir()
    settings.write_text(SETTINGS)
    tried = ada.connect("claude-code", "--dry-run")
    assert settings.read_text() == SETTINGS
    assert "+" in tried.out
    assert "mcp__dreamd" in tried.out
    done = ada.connect("claude-code", "--json").json
    assert done["changed"] == ["claude-code"]
    copies = {backup["path"]: backup["copy"] for backup in done["backups"]}
    assert Path(copies[str(settings)]).read_text() == SETTINGS
    assert Path(copies[str(settings)]).stat().st_mode & 0o077 == 0
    assert copies[str(ada.project / ".mcp.json")] == ""
    text = settings.read_text()
    assert text.startswith("// mine\n")
    assert "// lint" in text
    assert text.count('"lint"') == 1


@pytest.mark.full
def test_a_file_shows_the_memory_where_no_hook_does_and_where_it_is_asked_for(ada: Person) -> None:
    (ada.project / "GEMINI.md").write_text("# Be brief\n")
    before = ada.files()
    assert ada.connect("vscode", "claude-code", "cursor", "gemini", "--file").status == 0
    shown = [".github/instructions/dreamd.instructions.md", ".claude/rules/dreamd.md", ".gemini/dreamd.md"]
    paths = [ada.project / name for name in (*shown, ".cursor/rules/dreamd.mdc")]
    assert ada("note", "-w", ada.project, "Ada prefers tea").status == 0
    assert ada("dream", ada.project).status == 0
    assert ["Ada prefers tea" in path.read_text() for path in paths] == [True] * 4
    assert (ada.project / "GEMINI.md").read_text() == "@.gemini/dreamd.md\n\n# Be brief\n"
    assert "bootstrap" not in (ada.project / ".claude/settings.local.json").read_text()
    checked = ada.connect("--check", "--json")
    assert checked.status == 0, checked.out
    assert sum(" shows " in one["what"] for one in checked.json["checks"]) == 4
    paths[0].write_text(paths[0].read_text().replace("tea", "cocoa"))
    (changed,) = (one for one in ada.connect("--check", "--json").json["checks"] if not one["sound"])
    assert changed["state"] == "waits for you"
    paths[1].unlink()
    missing = ada.connect("claude-code", "--check", "--json")
    assert (missing.status, missing.json["checks"][0]["state"]) == (1, "WRONG")
    memory = {name: content for name, content in ada.files().items() if "MEMORY" in name or "memory" in name}
    assert ada("disconnect", "--yes", "-w", ada.project).status == 0
    assert ada.files() == before | memory
    backups = ada.home / ".local/state/dreamd/connections/backups"
    assert not [path for path in backups.iterdir() if "Ada prefers" in path.read_text()]  # it could not be forgotten
    paths[0].parent.mkdir(parents=True)
    paths[0].write_text("mine\n")
    assert "not dreamd's" in ada.connect("vscode").err
    assert ada("connect", "--user", "--file", "claude-code").status == 2


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_text('{"mcpServers": {'), ".mcp.json"),
        (lambda path: path.symlink_to(path.parents[1] / "authorized"), ".mcp.json"),
        (lambda path: path.write_text(f'{{"a": "{"x" * 300_000}"}}'), ".mcp.json has 300,009 bytes"),
    ],
    ids=["broken", "leads out", "megabytes"],
)
def test_a_file_of_a_project_that_cannot_be_meant_is_told_and_nothing_is_written(
    ada: Person, spoil: Callable[[Path], object], said: str
) -> None:
    (ada.home / "authorized").write_text("{}")
    spoil(ada.project / ".mcp.json")
    before = ada.files()
    refused = ada.connect("claude-code")
    assert (refused.status, said in refused.err) == (1, True)
    assert ada.files() == before


def test_the_user_s_own_file_may_be_a_link_into_a_folder_of_dotfiles(ada: Person) -> None:
    dotfiles = ada.home / ".dotfiles" / "codex.toml"
    dotfiles.parent.mkdir()
    dotfiles.write_text(CODEX)
    (ada.home / ".codex").mkdir()
    (ada.home / ".codex" / "config.toml").symlink_to(dotfiles)
    assert ada.connect("codex", "--user").status == 0
    assert (ada.home / ".codex" / "config.toml").is_symlink()
    assert dotfiles.read_text().startswith("# mine\n")
    assert "dreamd" in tomllib.loads(dotfiles.read_text())["mcp_servers"]
    assert ada("disconnect", "--yes", "--user").status == 0
    assert dotfiles.read_text() == CODEX
    (ada.home / ".codex" / "config.toml").unlink()
    (ada.home / ".codex" / "config.toml").symlink_to("config.toml")
    refused = ada.connect("codex", "--user")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "Too many levels of symbolic links" in refused.err


def test_only_those_that_are_installed_are_connected_unless_named(ada: Person, tmp_path: Path) -> None:
    nothing = ada.connect()
    assert nothing.status == 3
    assert "claude-code" in nothing.err
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "codex").write_text(PROGRAM)
    (folder / "codex").chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    assert ada.connect("--json", path=path).json["changed"] == ["codex"]
    assert "Codex" in ada("init", ada.project, path=path).out


@pytest.mark.full
def test_check_tries_what_was_written(ada: Person) -> None:
    missing = ada.connect("claude-code", "--check", "--json")
    assert (missing.status, missing.json["checks"][0]["advice"]) == (1, "dreamd connect claude-code")
    assert ada("note", "-w", ada.project, "Ada prefers tea").status == 0
    assert ada.connect("claude-code", "codex").status == 0
    checked = ada.connect("--check", "--json")
    assert checked.status == 0, checked.out
    said = [one["what"] for one in checked.json["checks"]]
    assert sum("as it was written" in one for one in said) == 3
    assert sum("the server answers" in one for one in said) == 2
    assert sum("session start gives" in one for one in said) == 2
    receipts = ada("status", "-w", ada.project, "--json").json["last_bootstrap"]
    assert receipts is None  # to try it is no reading
    settings = ada.project / ".claude" / "settings.local.json"
    settings.write_text(settings.read_text().replace("mcp__dreamd", "mcp__other"))
    broken = ada.connect("--check", "--json")
    assert broken.status == 1
    (wrong,) = (one for one in broken.json["checks"] if not one["sound"])
    assert "permissions.allow" in wrong["what"]


@pytest.mark.full
def test_check_runs_nothing_that_came_with_the_project(ada: Person, tmp_path: Path) -> None:
    ran, folder = ada.home / "ran", ada.project / "bin"
    assert ada.connect("claude-code").status == 0
    for place in (folder, tmp_path / "bin"):
        place.mkdir()
        (place / "claude").write_text(f"#!/bin/sh\necho $0 >> '{ran}'\necho '  Status: Connected'\n")
        (place / "claude").chmod(0o755)
    relative = ada.connect("--check", path="bin:./bin::/usr/bin:/bin")
    assert (relative.status, ran.exists()) == (0, False)
    found = ada.connect("--check", path=f"bin:{tmp_path}/bin:/usr/bin:/bin")
    assert (found.status, set(ran.read_text().split())) == (0, {f"{tmp_path}/bin/claude"})
    ran.unlink()
    servers = ada.project / ".mcp.json"  # the agent would start what a pull has put there
    servers.write_text(servers.read_text().replace('"mcp"', '"rm"'))
    assert ada.connect("--check", path=f"{tmp_path}/bin:/usr/bin:/bin").status == 1
    assert not ran.exists()


def test_without_a_terminal_nothing_is_written_but_with_yes(ada: Person) -> None:
    before = ada.files()
    shown = ada("connect", "-w", ada.project, "claude-code")
    assert "+" in shown.out
    assert "nothing was written; --yes writes it" in shown.err
    assert ada("connect", "-w", ada.project, "claude-code", "--json").json["changed"] == []
    assert ada("connect", "--user", "claude-code", "--dry-run").status == 0
    at_home = ada("connect", "claude-code", "-w", ada.project, folder=ada.home)
    assert (at_home.status, "--user" in at_home.err) == (2, True)
    assert ada.files() == before
    assert not (ada.home / ".local" / "share" / "dreamd" / "global").exists()


def test_what_was_said_once_holds_until_it_is_disconnected(ada: Person) -> None:
    settings = ada.project / ".claude" / "settings.local.json"
    assert ada.connect("claude-code", "codex", "--no-auto-memory", "--trust").status == 0
    connected = ada.files()
    assert ada.connect("claude-code", "codex").status == 0
    assert ada.files() == connected
    assert parsed(settings)["autoMemoryEnabled"] is False
    assert parsed(ada.home / ".codex" / "config.toml")["projects"][str(ada.project)] == {"trust_level": "trusted"}
    assert ada("disconnect", "--yes", "-w", ada.project).status == 0
    assert ada.connect("claude-code").status == 0
    assert "autoMemoryEnabled" not in parsed(settings)


@pytest.mark.full
def test_in_all_projects_and_in_one_of_them_is_told_to_be_twice(ada: Person) -> None:
    assert ada.connect("claude-code", "--user").status == 0
    checked = ada("connect", "--check", "-w", ada.project, "--json")
    assert checked.status == 0, checked.out
    assert str(ada.home / ".claude" / "settings.json") in checked.out
    assert "reads the memory twice" in ada.connect("claude-code").err


@pytest.mark.parametrize("form", spread(["plain", "index-4", "sha256", "worktree", "submodule"], 5))
def test_what_dreamd_writes_in_a_repository_is_kept_out_of_git_and_said_once(ada: Person, form: str) -> None:
    top = ada.home / "Ada's [code] *"
    git(ada.home, "init", "-q", "--object-format=sha256" if form == "sha256" else "-q", str(top))
    (top / "memory").mkdir()
    for name in (".mcp.json", "memory/mine.md"):
        (top / name).write_text("{}\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "mine")
    if form == "index-4":
        git(top, "update-index", "--index-version", "4")
    if form == "worktree":
        git(top, "worktree", "add", "-q", str(ada.home / "tree"))
        top = ada.home / "tree"
    if form == "submodule":
        git(ada.home, "init", "-q", str(ada.home / "above"))
        git(ada.home / "above", "submodule", "--quiet", "add", str(top), "below")
        top = ada.home / "above" / "below"
    exclude = top / git(top, "rev-parse", "--git-path", "info/exclude").strip()
    exclude.write_bytes(before := exclude.read_bytes().rstrip(b"\n"))
    said = ada("init", "--separate", top, "--no-daemon", folder=top)
    notes = "memory/scratch.md, memory/.scratch.md.*.displaced"
    assert f"MEMORY.md, MEMORY.md.seed-backup, {notes}, .dreamd, transcripts\n" in said.out
    assert "kept out of git" not in ada("init", "--separate", top, "--no-daemon", folder=top).out
    assert ada("note", "Ada prefers tea", folder=top).status == 0
    assert ada("dream", folder=top).status == 0
    (after_init,) = {exclude.read_bytes()}
    assert after_init.endswith(before)
    connected = ada("connect", "--yes", "claude-code", "cursor", folder=top)
    assert ": .claude/settings.local.json, .cursor/mcp.json, .cursor/hooks.json\n" in connected.out
    assert "kept out of git" not in ada("connect", "--yes", "claude-code", "cursor", folder=top).out
    assert git(top, "status", "--porcelain") == " M .mcp.json\n"  # what Ada has committed is not hidden
    assert ada("disconnect", "--yes", "--all", folder=ada.home).out.count("no longer kept out of git by") == 1
    assert exclude.read_bytes() == after_init
    assert git(top, "status", "--porcelain") == ""


def test_a_memory_that_git_tracks_stays_tracked_and_another_repository_is_not_touched(ada: Person) -> None:
    git(ada.home, "init", "-q", str(ada.home / "other"))
    (ada.project / ".git").write_text(f"gitdir: {ada.home}/other/.git\n")
    before = (ada.home / "other" / ".git" / "info" / "exclude").read_bytes()
    assert ada("init", ada.project, "--no-daemon", "--json").json["git"]["names"] == []
    assert (ada.home / "other" / ".git" / "info" / "exclude").read_bytes() == before
    (ada.project / ".git").unlink()
    git(ada.home, "init", "-q", str(ada.project))
    (ada.project / "MEMORY.md").write_text("# Memory\n")
    git(ada.project, "add", "-f", "MEMORY.md")
    said = ada("init", ada.project, "--no-daemon", "--json").json["git"]
    names = ["MEMORY.md.seed-backup", "memory/", ".dreamd", "transcripts"]
    assert said == {"file": ".git/info/exclude", "names": names}
