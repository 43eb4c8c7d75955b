"""One conversation with working memory that uses every tool, rightly and wrongly, in whatever window it is held.

A window carries out a call and answers plain JSON: the tool's value, or the error as `{"error", "code", "details"}`.
"""

import json
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
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
class The:
    """The id of the memory that was added under this name."""

    name: str


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


def _add(session: str, content: str, priority: str, named: str, **more: Any) -> Say:
    fields = {"session_id": session, "content": content, "priority": priority, **more}
    return Say("working_memory_add", fields, named=named)


def _of(tool: str, name: str, session: str = "chat", code: str = "", **more: Any) -> Say:
    return Say(f"working_memory_{tool}", {"session_id": session, "memory_id": The(name), **more}, code)


def _in(tool: str, session: str = "chat", code: str = "", **more: Any) -> Say:
    return Say(tool, {"session_id": session, **more}, code)


TALK: tuple[Say | Do, ...] = (
    # The fifteen.
    _add(
        "chat",
        "Meeting notes from today's standup",
        "high",
        "notes",
        tags=["meeting", "standup", "team"],
        metadata={"meeting_type": "standup", "duration": "15min"},
    ),
    _add("chat", "User prefers Python examples", "critical", "critical"),
    _add("chat", "A thought", "low", "low", agent_id="a", source="tool", importance=0.4, step_index=3),
    _of("get", "notes"),
    _in("working_memory_list_pending"),
    _of("get", "critical"),
    _in("working_memory_list"),
    _in("working_memory_list", include_promoted=True),
    _of("relation_add", "notes", relation_type="references", target_element_id="skill_python", metadata={"k": "v"}),
    _of("relation_add", "low", relation_type="depends_on", target_element_id="notes"),
    _of("promote", "notes"),
    _of("promote", "notes"),
    _in("working_memory_list_promoted"),
    _of("expire", "low"),
    _of("get", "low", code="EXPIRED"),
    _in("working_memory_list_expired"),
    _in("working_memory_list", include_expired=True),
    _in("working_memory_stats"),
    _of("extend_ttl", "low"),
    _of("get", "low"),
    _in("working_memory_search"),
    _in("working_memory_search", query="PYTHON", include_promoted=True),
    _in("working_memory_search", tags=["standup", "Team"], priority="high", include_promoted=True),
    _in("working_memory_search", query="nobody says this"),
    _in("working_memory_export"),
    _in("working_memory_bulk_promote", memory_ids=[The("low"), MISSING, The("notes")]),
    _in("working_memory_bulk_promote", memory_ids=[]),
    # What is refused.
    _in("working_memory_get", memory_id=MISSING, code="NOT_FOUND"),
    *(_of(tool, "notes", session="another", code="NOT_FOUND") for tool in ("get", "promote", "expire", "extend_ttl")),
    _of("relation_add", "notes", session="another", code="NOT_FOUND", relation_type="r", target_element_id="t"),
    _add("chat", f"The token is {SECRET}", "low", "secret"),
    _of("promote", "secret"),
    _add("chat", " ", "low", "blank"),
    _of("promote", "blank", code="VALIDATION_ERROR"),
    _add("chat", "Only for a while", "low", "while"),
    _of("promote", "while"),
    Do(_crystals_forgotten),
    _of("promote", "while", code="ALREADY_PROMOTED"),
    _add("chat", "Never delivered", "low", "never"),
    Do(_crystals_fail),
    _of("promote", "never", code="STORAGE_ERROR"),
    Do(_crystals_work),
    _in("working_memory_list_promoted"),
    # Ids and contents are data.
    _add(HOSTILE, f"{HOSTILE} content", "low", "hostile", tags=[HOSTILE], metadata={HOSTILE: HOSTILE}),
    _of("get", "hostile", session=HOSTILE),
    _of("relation_add", "hostile", session=HOSTILE, relation_type=HOSTILE, target_element_id=HOSTILE),
    _of("promote", "hostile", session=HOSTILE),
    _in("working_memory_search", session=HOSTILE, query="東京", tags=[HOSTILE], include_promoted=True),
    _of("get", "notes", session=HOSTILE, code="NOT_FOUND"),
    # A budget.
    _in("session_open", "count", policy="budget", config={"soft_limit": 3, "hard_limit": 4, "batch_size": 2}),
    _in("session_open", "count", policy="budget", config={"soft_limit": 3, "hard_limit": 4, "batch_size": 2}),
    _in("session_open", "count", policy="ttl", code="VALIDATION_ERROR"),
    _in("session_open", "wrong", policy="budget", config={"soft_limit": 9, "hard_limit": 4}, code="VALIDATION_ERROR"),
    *(_add("count", f"Decision {number}", "medium", f"d{number}", tags=["decision"]) for number in range(4)),
    *(_add("count", f"Plain {number}", "medium", f"p{number}") for number in range(2)),
    _in("working_memory_stats", "count"),
    _of("expire", "d3", session="count", code="VALIDATION_ERROR"),
    _of("get", "d0", session="count", code="NOT_FOUND"),
    _in("session_preview", "count", limit=2),
    # Tokens.
    _in("session_open", "tokens", policy="hybrid", config={"max_tokens": 100}),
    Say(
        "memory_memorize", {"session_id": "tokens", "content": "Temporary information", "token_count": 60}, named="t0"
    ),
    Say(
        "memory_memorize",
        {"session_id": "tokens", "content": "Architecture", "token_count": 60, "importance": 0.9, "step_index": 2},
        named="t1",
    ),
    _in("memory_memorize", "tokens", content="Too large", token_count=101, code="VALIDATION_ERROR"),
    _in("memory_recall", "tokens", query="temporary"),
    _in("memory_capacity", "tokens"),
    Say("memory_restore", {"session_id": "tokens", "memory_id": The("t1")}),
    Say("memory_restore", {"session_id": "tokens", "memory_id": MISSING}, code="NOT_FOUND"),
    _in("memory_context", "tokens"),
    _in("memory_context", "tokens", strategy="important", max_tokens=10),
    # A bounded mind.
    _in("session_open", "mind", policy="bounded", config={"max_items": 3}),
    *(
        Say("memory_memorize", {"session_id": "mind", "content": text, **more}, named=text)
        for text, more in (
            ("Tea is at four", {"importance": 0.9, "tags": ["plan"], "agent_id": "ada"}),
            ("The kettle hums", {"importance": 0.2}),
            ("Tea needs a pot", {"importance": 0.5, "priority": "high", "metadata": {"room": "kitchen"}}),
            ("Dust", {"importance": 0.1}),
        )
    ),
    Say("memory_reassess", {"session_id": "mind", "memory_id": The("Tea needs a pot"), "importance": "3/10"}),
    _in("memory_remember", "mind"),
    _in("memory_remember", "mind", limit=1),
    _in("memory_remember", "mind", limit=1, cursor=The("Tea is at four")),
    _in("memory_remember", "mind", cursor=MISSING, code="VALIDATION_ERROR"),
    _in("memory_remember", "mind", prompt="tea", limit=1),
    _in("memory_remember", "mind", filters={"tags": ["plan"], "agent_id": "ada"}),
    _in("memory_summarize", "mind"),
    _in("memory_summarize", "mind", scope="by_tag:plan", token_limit=20),
    _in("memory_summarize", "mind", scope="everything", code="VALIDATION_ERROR"),
    _in("memory_capacity", "mind"),
    _in("memory_forget", "mind", instruction="least important"),
    _in("memory_forget", "mind", instruction="oldest", mode="hard", code="CONFIRM_REQUIRED"),
    _in("memory_forget", "mind", instruction="the tea", code="UNSUPPORTED_INSTRUCTION"),
    _in("memory_forget", "mind", instruction="position:9", code="NOT_FOUND"),
    _in("memory_forget", "mind", instruction="position:0", mode="hard", confirm=True),
    _in("memory_recall", "mind"),
    _in("working_memory_export", "mind"),
    _in("session_events", "mind", limit=4),
    _in("session_sweep", "mind"),
    # The end.
    _in("working_memory_clear_session"),
    _in("working_memory_list", include_expired=True, include_promoted=True),
    _in("memory_recall", query="standup"),
    _in("session_close", "mind"),
    _in("session_close", "mind"),
    _in("session_close", "never", code="NOT_FOUND"),
    _in("session_events", "never", code="NOT_FOUND"),
    *(
        _in(tool, "never")
        for tool in (
            "working_memory_list",
            "working_memory_stats",
            "working_memory_clear_session",
            "memory_remember",
            "memory_capacity",
        )
    ),
    Say("session_list"),
)


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
    """With the ids in the places of the names."""
    if isinstance(value, The):
        return ids[value.name]
    if isinstance(value, Mapping):
        return {key: filled(one, ids) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, ids) for one in value]
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
