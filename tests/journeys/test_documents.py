"""The README and docs/, taken at their word: commands are pasted into a shell, links and names are looked up."""

import re
from pathlib import Path

import pytest

from daemon.cli import GROUPS
from daemon.config.settings import Config
from daemon.observability.metrics import Metrics, WorkspaceGauges
from state.dream import Reason
from tests.support.long_variants import spread
from tests.support.recipes import Follower, blocks, follower, function_call, transcript
from tests.support.running import ROOT
from tests.support.scripted_model import ScriptedModel, in_turn
from tests.support.serving import Home

CLIENT = str(ROOT / "daemon" / "client")  # where `dreamd_client` is
DOCUMENTS = (
    ROOT / "README.md",
    *(ROOT / f"docs/{name}.md" for name in "agents backup daemon architecture guarantees scope threat-model".split()),
)
# Blocks that need what is not here: the network, a provider's key, a running systemd. `make` is what runs this.
_NOT_HERE = (
    "make dream", "uv tool install", "pip install", "ollama pull", "ANTHROPIC_API_KEY", "install-service --now",
    "uv tool uninstall",
)  # fmt: skip
# Every command of a block counts; with nothing to do is no failure.
_STRICT = "trap 'status=$?; [ $status = 3 ] || exit $status' ERR\n"


def blocks_to_run(document: Path) -> list[str]:
    return [block for block in blocks(document, "sh") if not any(word in block for word in _NOT_HERE)]


@pytest.mark.parametrize("name", spread(["README.md", "docs/agents.md", "docs/backup.md", "docs/daemon.md"], 4))
@pytest.mark.parametrize(
    "daemon", [pytest.param(True, id="with a daemon"), pytest.param(False, id="without", marks=pytest.mark.full)]
)
def test_what_the_documents_say_to_type_works_when_it_is_pasted(home: Home, name: str, *, daemon: bool) -> None:
    me = follower(home)
    root = me.workspace.root
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "dreamd").symlink_to(me.program)
    (root / "docs").symlink_to(ROOT / "docs")
    (home.folder / ".cursor").mkdir()  # an agent that is installed
    for place in (".claude/projects/-home-ada-project", ".codex/sessions"):
        transcript(home.folder / place / "one.jsonl", "one", "I prefer tea over coffee")
    for written in (root / "CLAUDE.md", root / "AGENTS.md", home.folder / ".claude" / "CLAUDE.md"):
        written.write_text("The linter is called ruff here\n")
    found = blocks_to_run(ROOT / name)
    assert found
    script = in_turn(function_call("memory_search", {"query": "tea"}), "Nothing yet.")
    with ScriptedModel(script) as model:
        variables = {"OPENAI_BASE_URL": model.url, "AGENT_MODEL": "scripted", "PYTHONPATH": CLIENT}
        if daemon:
            with me.served():
                _pasted(me, found, variables)
        else:
            _pasted(me, [block for block in found if not _needs_a_daemon(block)], variables)


def _needs_a_daemon(block: str) -> bool:
    return "dreamd/token" in block or "curl" in block


def _pasted(me: Follower, found: list[str], variables: dict[str, str]) -> None:
    for block in found:
        # A person at a terminal is asked, and says yes.
        agreed = re.sub(r"^dreamd (dis)?connect", r"\g<0> --yes", me.own(block), flags=re.MULTILINE)
        ended = me.shell(_STRICT + agreed, **variables)
        assert ended.status == 0, (block, ended.out, ended.err)
        assert "dreamd: " not in ended.err.replace("dreamd: there is nothing new", ""), (block, ended.err)
        assert not re.search(r'^\{"error":', ended.out, re.MULTILINE), (block, ended.out)


def test_every_link_leads_to_something() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (document.parent / target).exists(), (document, target)


@pytest.mark.parametrize("page", ["guarantees", "threat-model"])
def test_the_programs_that_the_promises_name_are_there(page: str) -> None:
    modules = re.findall(r"python -m ([\w.]+)", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"))
    assert [name for name in modules if not _is_module(ROOT / name.replace(".", "/"))] == []


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def test_the_readme_groups_the_commands_as_the_help_does() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## Commands")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert [re.findall(r"`([\w-]+)", row) for row in rows] == [list(group) for group in GROUPS.values()]


def test_the_document_of_the_daemon_knows_its_reasons_metrics_and_events() -> None:
    document = (ROOT / "docs" / "daemon.md").read_text(encoding="utf-8")
    # A spike brings a pass, and no dream.
    assert [reason for reason in Reason if f"| {reason} |" not in document] == [Reason.SPIKE]
    standing = WorkspaceGauges("w", 1, 1.0, {"generated": 1})
    figures, _ = Metrics("0", 0.0, lambda: (standing,)).render()
    families = re.findall(r"^# TYPE (dreamd_\w+)", figures.decode(), re.MULTILINE)
    assert [name for name in families if f"`{name}`" not in document and name != "dreamd_scrape_failures_total"] == []
    said = set()
    for path in (ROOT / "daemon").rglob("*.py"):
        said |= set(
            re.findall(r"\.(?:info|warning|error)\(\s*\"([a-z]+(?:_[a-z]+)+|started|stopped)\"", path.read_text())
        )
    assert len(said) > 20
    assert sorted(event for event in said if f"`{event}`" not in document) == []


def test_the_document_of_the_daemon_shows_keys_and_defaults_that_there_are() -> None:
    import yaml

    (block,) = blocks(ROOT / "docs" / "daemon.md", "yaml")
    shown = yaml.safe_load(block)
    assert Config.model_validate(shown) == Config()
