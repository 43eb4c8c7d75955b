"""One conversation with working memory that uses every tool, rightly and wrongly, in whatever window it is held.

session_talk.json has what is said. A window carries out a call and answers plain JSON: the tool's value, or the error
as `{"error", "code", "details"}`.
"""

import json
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.disk.workspace import Workspace
from tests.support.working import SECRET

# call(tool, fields) -> the answer
Window = Callable[[str, dict[str, Any]], Any]

HOSTILE = "../../etc/passwd\0'; DROP TABLE sessions; --\r\n\u202e東京 🦓 %s {0} $(id)"
MISSING = "working_memory_chat-nobody_20200101-000000"
_TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?")
_FIGURES = re.compile(r'"(0\.\d+)"')
_STAMPS = re.compile(r"_\d{8}-\d{6}")
_IDS = re.compile(r'"[0-9a-f]{32}"')  # of crystals, which are random


@dataclass(frozen=True, slots=True)
class Say:
    """A call. `code` is that of the error which answers it; `named`: what its memory is called from now on."""

    tool: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    named: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    """Something that happens to the workspace meanwhile."""

    act: Callable[[Workspace], None]


def _crystals_fail(workspace: Workspace) -> None:
    # A trigger of somebody else's would keep the database from being opened; a word index that is torn does not.
    _run(workspace, "UPDATE words_data SET block = zeroblob(8) WHERE id IN (1, 10)")


def _crystals_work(workspace: Workspace) -> None:
    _run(workspace, "INSERT INTO words (words) VALUES ('rebuild')")


def _crystals_forgotten(workspace: Workspace) -> None:
    connection = open_database(workspace.database)
    ids = [row["id"] for row in connection.execute("SELECT id FROM crystals WHERE text = 'Only for a while'")]
    Crystals(connection).remove(ids)
    connection.close()
    assert len(ids) == 1


def _run(workspace: Workspace, statement: str) -> None:
    connection = open_database(workspace.database)
    connection.execute(statement)
    connection.close()


_DEEDS = {"fail": _crystals_fail, "work": _crystals_work, "forgotten": _crystals_forgotten}


def _step(row: dict[str, Any]) -> Say | Do:
    if "do" in row:
        return Do(_DEEDS[row["do"]])
    return Say(row["tool"], row["fields"], row.get("code", ""), row.get("named", ""))


TALK = tuple(map(_step, json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))))


def held(
    window: Window, workspace: Workspace, tools: Container[str], beside: Window | None = None
) -> list[tuple[Say, Any]]:
    """The conversation in a window that has these tools: each call, and what was answered but for the time of day.

    What the window has no tool for is said `beside` it.
    """
    ids: dict[str, str] = {}
    said = []
    for step in TALK:
        if isinstance(step, Do):
            step.act(workspace)
            continue
        has_tool = step.tool in tools
        if not has_tool and beside is None:
            continue
        asked = window if has_tool or beside is None else beside
        answer = asked(step.tool, filled(step.fields, ids))
        assert ("code" in answer) is bool(step.code), (step, answer)
        assert answer.get("code", "") == step.code, (step, answer)
        if step.named:
            ids[step.named] = (answer.get("memory") or answer)["id"]
        if has_tool:
            said.append((step, timeless(answer, workspace)))
    return said


def filled(value: Any, ids: Mapping[str, str]) -> Any:
    """What a value of session_talk.json stands for: with the ids of what was named."""
    if isinstance(value, dict):
        if value.keys() == {"id of"}:
            return ids[value["id of"]]
        return {filled(key, ids): filled(one, ids) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, ids) for one in value]
    if isinstance(value, str):
        return value.replace("SECRET", SECRET).replace("HOSTILE", HOSTILE).replace("MISSING", MISSING)
    return value


def timeless(answer: Any, workspace: Workspace) -> Any:
    """An answer that is the same at every time and place: scores fall with age, in their last digits."""
    text = json.dumps(answer)
    for path, name in ((workspace.root, "ROOT"), (workspace.state, "STATE")):
        text = text.replace(json.dumps(str(path))[1:-1], name)
    text = _IDS.sub('"ID"', _STAMPS.sub("_STAMP", _TIMES.sub("TIME", text)))
    text = _FIGURES.sub(lambda found: f'"{float(found[1]):.3f}"', text)
    return json.loads(text, parse_float=lambda number: round(float(number), 3))


def is_part(part: Any, whole: Any) -> bool:
    """Whether everything in it stands in the whole under the same names."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and is_part(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_part, part, whole))
    return bool(part == whole)
