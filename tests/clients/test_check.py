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
    path = ada.home.folder / ".gemini/trustedFolders.json"
    write(path, {name: how for name, how in json.loads(path.read_text()).items() if name != str(ada.project)})


def claude_runs_no_hooks(ada: Person) -> None:
    change(ada.home.folder / ".claude/settings.json", "disableAllHooks", value=True)


def claude_has_it_switched_off(ada: Person) -> None:
    assert ada.run("claude", "plugin", "disable", "dreamd@dreamd").status == 0


def gemini_runs_no_hooks(ada: Person) -> None:
    change(ada.home.folder / ".gemini/settings.json", "hooksConfig", {"enabled": False})


def nobody_trusts_codex(ada: Person) -> None:
    assert ada.dreamd("disconnect", "codex", "--yes").status == 0
    assert ada.dreamd("connect", "codex", "--yes").status == 0


def codex_has_another_one(ada: Person) -> None:
    (hooks,) = (ada.home.folder / ".codex/plugins/cache/dreamd").rglob("hooks.json")
    hooks.write_text(hooks.read_text().replace("bootstrap", "search"))


def the_file_has_gone(ada: Person) -> None:
    (ada.home.folder / "config/opencode/plugin/dreamd.js").unlink()


CASES: list[Any] = [
    *[(name, None, "ok") for name in AGENTS],
    ("claude-code", claude_runs_no_hooks, "WRONG"),
    ("claude-code", claude_has_it_switched_off, "WRONG"),
    ("codex", nobody_trusts_codex, "waits for you"),
    ("codex", codex_has_another_one, "WRONG"),
    ("gemini", untrusted, "waits for you"),
    ("gemini", gemini_runs_no_hooks, "WRONG"),
    ("opencode", the_file_has_gone, "WRONG"),
]


@pytest.mark.parametrize(
    ("name", "way", "state"),
    [pytest.param(*case, id=f"{case[0]}-{case[2]}-{number}") for number, case in enumerate(CASES)],
)
def test_what_is_said_to_be_shown_is_shown(
    ada: Person, name: str, way: Callable[[Person], None] | None, state: str
) -> None:
    AGENTS[name].need()
    agent = AGENTS[name](ada, lambda _: ("Understood.",))
    with agent.api:
        agent.ready()
        assert ada.dreamd("note", CAT).status == 0
        assert ada.dreamd("dream").status == 0
        connected = agent.connect()
        assert connected.status == 0, (connected.out, connected.err)
        if way:
            way(ada)
        checked = ada.dreamd("connect", name, "--check", "--json").json["checks"]
        states = {one["state"] for one in checked}
        assert state in states, checked
        assert ("WRONG" in states) == (state == "WRONG"), checked
        answered = agent.ask(QUESTION)
    assert (answered.ended.status == 0 and answered.requests) or state != "ok", answered.ended.err
    is_shown = any(answered.reached(CAT, number) for number in range(len(answered.requests)))
    assert is_shown == (states == {"ok"}), (checked, answered.requests)
