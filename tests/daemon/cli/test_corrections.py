"""What the owner corrects, what waits for it goes along: no later dream writes it all the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.table import OPERATIONS
from daemon.config.settings import load
from daemon.workspace.adoption import open_workspace
from tests.support.model_characters import inputs_of, lines_of
from tests.support.running import Caller
from tests.support.scripted_model import Reply, ScriptedModel

OLD, NEW, MINE = (f"The staging port is {port}" for port in (8080, 9090, 7070))
TEA, WALL = "Ada prefers tea in the morning", "The harbour wall is of granite"


def updating(request: dict[str, Any], _number: int) -> Reply:
    """Writes each input into the place of the line with the same beginning, or adds it."""
    lines = {text.partition(" is ")[0]: name for name, _, text in lines_of(request)}
    inputs = [one for one in inputs_of(request) if one[0].startswith("N")]
    operations: list[dict[str, Any]] = [
        {"op": "revise", "line": line} if (line := lines.get(text.partition(" is ")[0])) else {"op": "add"}
        for _, _, text in inputs
    ]
    for operation, (name, _, text) in zip(operations, inputs, strict=True):
        operation |= {"section": "Active Context", "text": text, "cites": [name]}
    return Reply(json.dumps({"operations": operations, "consumed": [name for name, *_ in inputs]}))


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A model that updates lines, each of which its owner is asked about."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ScriptedModel(updating) as model:
        file = tmp_path / "config.yaml"
        file.write_text(
            f"model: {{name: openai/scripted, api_base: '{model.url}'}}\n"
            "dream: {approve: {revise: ask}}\nembeddings: {idle_minutes: 5}\n"
        )
        yield file


def dreamt(dreamd: Caller, here: Path, config: Path, *notes: str) -> str:
    for note in notes:
        assert dreamd("note", note, "-w", here).status == 0
    ended = dreamd("dream", here, "--config", config)
    assert ended.status == 0, ended.err
    return (here / "MEMORY.md").read_text(encoding="utf-8")


def corrected(here: Path, config: Path, action: str, text: str) -> None:
    """By the operation of the window, or in the file."""
    if action == "file":
        file = here / "MEMORY.md"
        file.write_text(file.read_text(encoding="utf-8").replace(OLD, text), encoding="utf-8")
        return
    change, asked = OPERATIONS["change_lines"], OPERATIONS["lines"]
    with LocalAccess(open_workspace(here), load(config), "test") as access:
        sections = access.run(asked, asked.bind()).sections
        (line,) = [one.id for section in sections for one in section.lines if one.text == OLD]
        one = {"action": action, "line": line, "expected": OLD, "text": text}
        access.run(change, change.bind(changes=(one,)))


@pytest.mark.parametrize(
    ("action", "text"), [("wrong", MINE), ("wrong", ""), ("edit", MINE), ("delete", ""), ("file", MINE)]
)
def test_a_change_that_waits_for_a_line_its_owner_corrects_never_applies(
    dreamd: Caller, here: Path, config: Path, action: str, text: str
) -> None:
    dreamt(dreamd, here, config, OLD)
    assert OLD in dreamt(dreamd, here, config, NEW)
    assert NEW in dreamd("review", "-w", here, "--config", config, "--json").json["changes"][0]["new"]
    corrected(here, config, action, text)
    after = dreamt(dreamd, here, config, TEA)
    assert TEA in after
    assert NEW not in after
    assert OLD not in after.replace(f"not true that: {OLD}", "")
    assert text in after
    assert dreamd("review", "-w", here, "--config", config).status == 3
    dreamt(dreamd, here, config, WALL)
    assert dreamd("review", "-w", here, "--config", config).status == 3


def test_a_restore_to_before_the_correction_brings_the_change_back(dreamd: Caller, here: Path, config: Path) -> None:
    dreamt(dreamd, here, config, OLD)
    dreamt(dreamd, here, config, NEW)
    corrected(here, config, "edit", MINE)
    assert dreamd("restore", 2, "-w", here, "--config", config).status == 0
    (change,) = dreamd("review", "-w", here, "--config", config, "--json").json["changes"]
    assert (change["old"], change["new"]) == ([OLD], NEW)


def test_a_change_whose_text_was_forgotten_stops_no_dream(dreamd: Caller, here: Path, config: Path) -> None:
    dreamt(dreamd, here, config, OLD)
    dreamt(dreamd, here, config, NEW)
    assert dreamd("review", "1", "--approve", "-w", here, "--config", config).status == 0
    assert dreamd("forget", NEW, "--yes", "-w", here, "--config", config).status == 0
    assert dreamd("restore", "2", "-w", here, "--config", config).status == 0
    assert TEA in dreamt(dreamd, here, config, TEA)
    assert WALL in dreamt(dreamd, here, config, WALL)
    assert dreamd("review", "-w", here, "--config", config).status == 3
