"""What `dreamd connect --check` says of an agent is what its model sees, also where something is in the way."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.native_clients import AGENTS, Person, write

CAT = "Ada's cat is called Zanzibar, and sleeps in the piano"
QUESTION = "What is the name of Ada's cat?"

pytestmark = pytest.mark.full


def change(path: Path, name: str, value: object) -> None:
    write(path, {**json.loads(path.read_text(encoding="utf-8")), name: value})


def untrusted(ada: Person) -> None:
    (ada.home.folder / ".gemini/trustedFolders.json").unlink()


def claude_runs_no_hooks(ada: Person) -> None:
    change(ada.project / ".claude/settings.local.json", "disableAllHooks", value=True)


def gemini_runs_no_hooks(ada: Person) -> None:
    change(ada.home.folder / ".gemini/settings.json", "hooksConfig", {"enabled": False})


def gemini_runs_not_ours(ada: Person) -> None:
    change(ada.project / ".gemini/settings.json", "hooksConfig", {"disabled": ["dreamd"]})


def nobody_trusts_codex(ada: Person) -> None:
    assert ada.dreamd("disconnect", "codex", "--yes").status == 0
    assert ada.dreamd("connect", "codex", "--yes").status == 0


def instructions_are_others(ada: Person) -> None:
    change(ada.project / "opencode.json", "instructions", ["docs/*.md"])


IN_FILE = ("--file",)  # with rules of Claude Code, and an import of Gemini CLI's
CASES: list[Any] = [
    *[(name, None, "ok") for name in AGENTS],
    *[(name, IN_FILE, "ok") for name in ("claude-code", "gemini")],
    ("claude-code", claude_runs_no_hooks, "WRONG"),
    ("codex", nobody_trusts_codex, "waits for you"),
    ("gemini", untrusted, "waits for you"),
    ("gemini", gemini_runs_no_hooks, "WRONG"),
    ("gemini", gemini_runs_not_ours, "WRONG"),
    ("opencode", instructions_are_others, "WRONG"),
]


@pytest.mark.parametrize(
    ("name", "way", "state"),
    [pytest.param(*case, id=f"{case[0]}-{case[2]}-{number}") for number, case in enumerate(CASES)],
)
def test_what_is_said_to_be_shown_is_shown(
    ada: Person, name: str, way: Callable[[Person], None] | tuple[str, ...] | None, state: str
) -> None:
    AGENTS[name].need()
    agent = AGENTS[name](ada, lambda _: ("Understood.",))
    with agent.api:
        agent.ready()
        assert ada.dreamd("note", CAT).status == 0
        assert ada.dreamd("dream").status == 0
        connected = agent.connect(*(way if isinstance(way, tuple) else ()))
        assert connected.status == 0, connected.err
        if callable(way):
            way(ada)
        checked = ada.dreamd("connect", name, "--check", "--json").json["checks"]
        states = {one["state"] for one in checked}
        assert state in states, checked
        assert ("WRONG" in states) == (state == "WRONG"), checked
        answered = agent.ask(QUESTION)
    assert (answered.ended.status == 0 and answered.requests) or state != "ok", answered.ended.err
    is_shown = any(answered.reached(CAT, number) for number in range(len(answered.requests)))
    assert is_shown == (states == {"ok"}), (checked, answered.requests)


@pytest.mark.parametrize(
    ("name", "file", "adds"),
    [
        ("claude-code", ".claude.json", "claude mcp add -s user other -- /bin/true"),
        ("codex", ".codex/config.toml", "codex mcp add other -- /bin/true"),
        ("gemini", ".gemini/settings.json", "gemini mcp add -s user other /bin/true"),
    ],
)
def test_what_an_agent_writes_anew_in_its_own_file_is_disconnected_all_the_same(
    ada: Person, name: str, file: str, adds: str
) -> None:
    AGENTS[name].need()
    (ada.home.folder / ".codex").mkdir()
    assert ada.dreamd("connect", name, "--user", "--yes", "--trust").status == 0
    added = ada.run(*adds.split())
    assert added.status == 0, added.err
    assert "/bin/true" in (ada.home.folder / file).read_text()
    done = ada.dreamd("disconnect", name, "--user", "--yes")
    assert (done.status, "stays" in done.err) == (0, False), done.err
    left = (ada.home.folder / file).read_text()
    assert "/bin/true" in left
    assert str(ada.home.folder / "bin" / "dreamd") not in left
    assert "bootstrap" not in left
