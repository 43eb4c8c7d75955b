"""What was written down before dreamd is found where agents keep it, and nothing of another project."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.ingest.existing_memory import ExistingMemory, Kind, existing_memory, slug
from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from tests.support.existing_memory import Home
from tests.support.repository import git


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.project.mkdir()
    return made


def workspace(home: Home) -> Workspace:
    return init_workspace(home.project, home.environment)


def found(home: Home, **environment: str) -> tuple[ExistingMemory, ...]:
    return existing_memory(workspace(home), home.environment | environment)


def names(home: Home, **environment: str) -> list[tuple[str, list[str]]]:
    """Kinds, and files below the home."""
    every = found(home, **environment)
    return [(one.kind.value, [str(path.relative_to(home.path)) for path in one.files]) for one in every]


def test_each_kind_is_found_and_what_is_another_projects_is_not(home: Home) -> None:
    home.worked_in()
    claude = str(home.claude_memory().parent.relative_to(home.path))
    assert names(home) == [
        ("instructions", ["my_shop/CLAUDE.md"]),
        ("instructions", ["my_shop/AGENTS.md"]),
        ("instructions", ["my_shop/GEMINI.md"]),
        ("memory", [f"{claude}/memory/MEMORY.md", f"{claude}/memory/testing.md"]),
        ("memory", [".codex/memories/MEMORY.md", ".codex/memories/rollout_summaries/a.md"]),
        ("sessions", [f"{claude}/one.jsonl"]),
        ("sessions", [f"{claude}-web/two.jsonl"]),
        ("sessions", [".codex/sessions/2026/11/02/rollout-2026-11-02T10-00-00-c11-02.jsonl"]),
    ]
    assert not any(one.own for one in found(home))
    assert found(home)[0].size_bytes == (home.project / "CLAUDE.md").stat().st_size


def test_agents_are_followed_to_where_their_variables_say(home: Home) -> None:
    home.worked_in()
    (home.path / ".claude").rename(home.path / "c")
    (home.path / ".codex").rename(home.path / "x")
    moved = names(home, CLAUDE_CONFIG_DIR=str(home.path / "c"), CODEX_HOME=str(home.path / "x"))
    assert [kind for kind, _ in moved] == ["instructions"] * 3 + ["memory"] * 2 + ["sessions"] * 3
    assert [kind for kind, _ in names(home)] == ["instructions"] * 3


def test_the_user_alone_says_where_claude_keeps_its_memory(home: Home) -> None:
    home.write("notes/MEMORY.md", "- The broker is called otter\n")
    home.write("secrets/keys.md", "- nobody's business\n")
    home.write("my_shop/.claude/settings.json", json.dumps({"autoMemoryDirectory": str(home.path / "secrets")}))
    home.write("my_shop/.claude/settings.local.json", json.dumps({"autoMemoryDirectory": "~/secrets"}))
    assert names(home) == []
    home.write(".claude/settings.json", json.dumps({"autoMemoryDirectory": "~/notes"}))
    assert names(home) == [("memory", ["notes/MEMORY.md"])]


def test_a_link_from_one_file_of_instructions_to_another_is_that_one(home: Home) -> None:
    home.write("my_shop/AGENTS.md", "The linter is called ruff here\n")
    (home.project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert names(home) == [("instructions", ["my_shop/CLAUDE.md"])]
    assert {"claude-code", "codex"} <= set(found(home)[0].agents)


def test_worktrees_share_what_was_said_in_each(home: Home) -> None:
    git(home.project, "init", "-q")
    git(home.project, "commit", "-q", "--allow-empty", "-m", "first")
    git(home.project, "worktree", "add", "-q", str(home.path / "fix"))
    home.claude_session("main", home.project, "a")
    home.claude_session("fix", home.path / "fix" / "web", "b")
    home.codex_session("11-02", home.path / "fix", "c")
    sessions = [one for one in found(home) if one.kind is Kind.SESSIONS]
    assert sum(len(one.files) for one in sessions) == 3
    # A folder of it with a workspace has what was said there, and the memory of the repository, which is one.
    home.write(str(home.claude_memory() / "MEMORY.md"), "- x\n")
    web = home.project / "web"
    web.mkdir()
    inner = existing_memory(init_workspace(web, home.environment), home.environment)
    assert [(one.kind, one.files[0].name) for one in inner] == [
        (Kind.MEMORY, "MEMORY.md"),
        (Kind.SESSIONS, "fix.jsonl"),
    ]


def test_the_global_workspace_has_what_this_user_wrote_for_all_projects(home: Home) -> None:
    home.worked_in()
    home.write(".claude/CLAUDE.md", "I prefer tea\n")
    home.write(".codex/AGENTS.md", "I prefer tea\n")
    home.write(".gemini/GEMINI.md", "I prefer tea\n")
    home.write(".codex/memories/memory_summary.md", "v1\n\nthe user is a data scientist\n")
    root = home.path / "data/dreamd/global"
    root.mkdir(parents=True)
    everywhere = existing_memory(init_workspace(root, home.environment), home.environment)
    assert [(one.path.name, one.kind, one.own) for one in everywhere] == [
        ("CLAUDE.md", Kind.INSTRUCTIONS, True),
        ("AGENTS.md", Kind.INSTRUCTIONS, True),
        ("GEMINI.md", Kind.INSTRUCTIONS, True),
        ("memories", Kind.MEMORY, False),
    ]


def test_what_is_no_readable_file_is_not_there(home: Home) -> None:
    os.mkfifo(home.project / "CLAUDE.md")
    (home.project / "AGENTS.md").symlink_to("AGENTS.md")
    (home.project / "GEMINI.md").mkdir()
    folder = home.claude_memory()
    folder.mkdir(parents=True)
    os.mkfifo(folder / "MEMORY.md")
    os.mkfifo(folder.parent / "one.jsonl")
    home.write(str(folder.parent / "two.jsonl"), "no json\n" * 3 + '{"cwd": 7}\n')
    home.write(str(folder.parent / "three.jsonl"), '{"cwd": "\\u0000"}\n{"payload": {"cwd": "relative"}}')
    home.write(".codex/memories/MEMORY.md", "applies_to: nothing\n")
    home.write(".codex/sessions/2026", "a file")
    assert found(home) == ()


def test_a_name_that_claude_code_cuts_is_found_where_one_fits(home: Home) -> None:
    deep = home.path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    cut = home.path / ".claude/projects" / f"{slug(deep)[:200]}-1a2b3c"
    home.write(str(cut / "memory/MEMORY.md"), "- x\n")
    made = init_workspace(deep, home.environment)
    assert [one.path for one in existing_memory(made, home.environment)] == [cut / "memory"]
    home.write(str(cut.with_name(f"{slug(deep)[:200]}-9z") / "memory/MEMORY.md"), "- y\n")
    assert existing_memory(made, home.environment) == ()


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0/")))
def test_a_slug_has_a_hyphen_for_each_unit_that_is_no_letter_or_digit(name: str) -> None:
    made = slug(Path("/") / "a" / f"x{name}") if name else "-a-x"
    assert len(made) == len(f"/a/x{name}".encode("utf-16-le")) // 2
    assert all(sign == "-" or (sign.isascii() and sign.isalnum()) for sign in made)
