"""The talk: every operation with arguments, in every window; each answers what the function itself answers.

Those of sessions have a talk of their own (tests/daemon/sessions/test_windows.py).
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from dreamd_client import Client

from daemon.api.access import LocalAccess
from daemon.api.daemon import HOUSEHOLD
from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.request import Request
from daemon.api.operations.table import OPERATIONS
from daemon.cli import OPERATIONS as COMMANDS
from daemon.config.settings import Config, McpSection
from daemon.mcp.tools import TOOLSETS, arguments_of
from daemon.workspace.adoption import open_workspace
from state.codec import encode
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Answer, Running
from tests.daemon.mcp.agents import talking
from tests.support.committing import id_of
from tests.support.running import Caller
from tests.support.session_talk import TALK, Say

NOTE = "Grüße aus Köln: the ledger is SQLite 🍵"
HERON = "the staging database is called heron"
Fields = dict[str, Any]
# In an order in which each has something to do; with the words of the command that is the same, where there is one.
CALLS: tuple[tuple[str, Fields, tuple[str, ...]], ...] = (
    ("working_memory_note", {"note": NOTE, "importance": 0.9}, ()),
    ("memory_search", {"query": "which ledger", "limit": 3}, ("search", "which", "ledger", "--limit", "3")),
    ("memory_bootstrap", {"context_window": 50_000}, ()),
    ("feel", {"event": "reward", "because": "it works"}, ("feel", "reward", "--because", "it works")),
    ("mood", {"hours": 1, "samples": 3}, ("mood", "--hours", "1", "--samples", "3")),
    ("ingest", {"paths": ["chat.jsonl"], "files": [{"path": "CLAUDE.md", "kind": "instructions", "own": True}]}, ()),
    ("dream_now", {"mode": "auto"}, ()),
    ("changes", {}, ()),
    ("decide_changes", {"decline": []}, ()),
    ("lines", {"limit": 50}, ()),
    (
        "change_lines",
        {
            "changes": [
                {"action": "pin", "section": "Active Context", "expected": NOTE},
                {"action": "add", "section": "The Bond", "text": "Ada drinks no coffee"},
            ]
        },
        (),
    ),
    ("dream_status", {}, ()),
    ("memory_state", {}, ()),
    ("memory_why", {"text": "ledger"}, ("why", "ledger")),
    ("memory_why_not", {"text": "ledger"}, ("why-not", "ledger")),
    ("history", {"limit": 5}, ("history", "--limit", "5")),
    ("crystals", {"text": "ledg", "sort": "importance"}, ()),
    ("crystal", {"id": "…"}, ()),
    ("gaps", {}, ()),
    ("skills", {}, ()),
    ("session_open", {"session_id": "mind"}, ()),
    ("session_summary", {"session_id": "mind"}, ()),
    ("session_archive", {"session_id": "mind", "limit": 1}, ()),
    ("diff", {"file": True}, ("diff", "--file")),
    ("restore", {"version": 1}, ("restore", "1")),
    ("dreams", {"limit": 2}, ()),
    ("dream_details", {"version": 1}, ()),
    ("acts", {}, ()),
    ("supersede", {"older": NOTE, "newer": HERON}, ("supersede", NOTE, HERON)),
    ("forget", {"text": "Grüße aus Köln", "confirm": True}, ()),
    ("configuration", {"key": "dream"}, ()),
    ("forgotten", {}, ()),
    ("doctor", {}, ()),
    ("repair", {}, ()),
    ("export", {}, ()),
)
# What differs between two calls that ask the same: moments, ids, what is reckoned of them, this process.
_MOVING = re.compile(
    r"\d+ s\b|\d+\.\d\d(?: █+)?|\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\d\d:\d\d(?::\d\d)?Z?|[0-9a-f]{8,}|\d+ ms"
)
_REDONE = ("age_days", "score", "at", "seconds", "bytes", "cosine", "size")
# Of these every call writes down that it was made, or says what the machine has.
_OF_THIS_MACHINE = ("export", "doctor")

Window = Callable[[AnyOperation, Fields, tuple[str, ...]], Any]


def still(value: Any, root: Path) -> Any:
    """The value without what moves."""
    if isinstance(value, str):
        return _MOVING.sub("…", value.replace(str(root), "ROOT").replace(str(root.parent), "FOLDER"))
    if isinstance(value, float):
        return round(value, 1)
    if isinstance(value, list):
        return [still(one, root) for one in value]
    if isinstance(value, dict):
        return {name: still(one, root) for name, one in value.items() if name not in _REDONE}
    return value


def itself(served: Running, root: Path) -> Window:
    """The function, in this process."""

    def call(operation: AnyOperation, fields: Fields, _: tuple[str, ...]) -> Any:
        with LocalAccess(open_workspace(root), Config(), "a test", embedding=served.house.embedding) as access:
            return json.loads(encode(operation.answer(access, operation.bind(**fields))))

    return call


def by_post(served: Running, root: Path) -> Window:
    name = served.house.register(root)

    def call(operation: AnyOperation, fields: Fields, _: tuple[str, ...]) -> Any:
        ask: Callable[..., Answer] = served.ask if operation.remote else served.ask_socket
        if not operation.remote:
            refused = served.ask("POST", f"/v1/workspaces/{name}/{operation.name}", fields)
            assert (refused.status, refused.code) == (403, "FORBIDDEN")
        answer = ask("POST", f"/v1/workspaces/{name}/{operation.name}", fields)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json"), answer.body
        return answer.json

    return call


def by_get(served: Running, root: Path) -> Window:
    post, name = by_post(served, root), served.house.register(root)

    def call(operation: AnyOperation, fields: Fields, words: tuple[str, ...]) -> Any:
        path = f"/v1/workspaces/{name}/{operation.name}"
        if not operation.reads:
            assert served.ask_socket("GET", path).headers["Allow"] == "POST"
            return post(operation, fields, words)
        query = urlencode({key: str(value) for key, value in fields.items()})
        answer = served.ask_socket("GET", f"{path}?{query}")
        assert answer.status == 200, answer.body
        return answer.json

    return call


def by_client(served: Running, root: Path) -> Window:
    name = served.house.register(root)

    def call(operation: AnyOperation, fields: Fields, _: tuple[str, ...]) -> Any:
        port = Client(name, address=f"http://127.0.0.1:{served.port}", token=TOKEN)
        return (port if operation.remote else Client(root)).call(operation.name, **fields)

    return call


def by_command(served: Running, root: Path, dreamd: Caller) -> Window:
    """Where there is a command that is the operation; it asks the daemon."""
    post = by_post(served, root)

    def call(operation: AnyOperation, fields: Fields, words: tuple[str, ...]) -> Any:
        if not words:
            return post(operation, fields, words)
        ended = dreamd(*words, "-w", root, "--json")
        assert ended.status == 0, ended.err
        if operation.reads and operation.name != "memory_search":  # a search counts its hits
            path = f"/v1/workspaces/{served.house.register(root)}/{operation.name}?as=text"
            text = still(served.ask_socket("POST", path, fields).body.decode(), root)
            assert still(dreamd(*words, "-w", root).out.strip(), root) in text
        return ended.json

    return call


def talk(window: Window, root: Path) -> dict[str, Any]:
    """Hold it, and return what was answered."""
    (root.parent / "chat.jsonl").write_text(json.dumps({"role": "user", "content": HERON}) + "\n")
    (root.parent / "CLAUDE.md").write_text("The linter is called ruff here\n")
    said: dict[str, Any] = {}
    for name, fields, words in CALLS:
        given = json.loads(json.dumps(fields).replace("chat.jsonl", str(root.parent / "chat.jsonl")))
        if name == "ingest":
            given["files"][0]["path"] = str(root.parent / "CLAUDE.md")
        if name == "crystal":
            given = {"id": id_of(open_workspace(root).database, NOTE)[:8]}
        said[name] = window(OPERATIONS[name], given, words)
    return said


@pytest.fixture(scope="module")
def answered(served: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the functions answer."""
    root = open_workspace(served.house.roots[served.house.make(tmp_path_factory.mktemp("talk") / "memory")]).root
    said = talk(itself(served, root), root)
    assert said["working_memory_note"]["text"] == NOTE
    assert "ledger" in said["memory_search"]["hits"][0]["text"]
    assert said["dream_now"]["outcome"]["mode"] == "auto"
    assert "ledger" in said["memory_state"]["text"]
    assert [one["id"] for one in said["crystals"]["crystals"]] == [said["crystal"]["crystal"]["id"]]
    assert "Ada drinks no coffee" in [line["text"] for line in said["change_lines"]["lines"]]
    assert [(one["number"], one["cause"]) for one in said["history"]["versions"]] == [(2, "edit"), (1, "dream")]
    assert said["restore"]["dream"]["number"] == 3
    assert said["forgotten"]["total"] == 1
    return {name: still(reply, root) for name, reply in said.items()}


@pytest.mark.parametrize("through", ["post", "get", "client", "command"])
def test_every_window_answers_what_the_function_answers(
    served: Running,
    answered: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dreamd: Caller,
    through: str,
) -> None:
    monkeypatch.setenv("DREAMD_SOCKET", str(served.path))
    root = served.house.roots[served.house.make(tmp_path / "memory")]
    windows = {"post": by_post, "get": by_get, "client": by_client}
    window = by_command(served, root, dreamd) if through == "command" else windows[through](served, root)
    for name, reply in talk(window, root).items():
        if name not in _OF_THIS_MACHINE:
            assert still(reply, root) == answered[name], name


def test_an_agent_reads_the_text_that_http_has(served: Running, name: str) -> None:
    root = served.house.roots[name]
    for one, said in (("working_memory_note", {"note": NOTE, "importance": 0.9}), ("dream_now", {})):
        assert served.ask("POST", f"/v1/workspaces/{name}/{one}", said).status == 200
    asked = {
        one: fields for one, fields, _ in CALLS if OPERATIONS[one] in TOOLSETS["memory"] and OPERATIONS[one].reads
    }
    assert len(asked) == 4

    with talking(agent_of(served.house, name)) as agent:
        for one, fields in asked.items():
            text = served.ask("POST", f"/v1/workspaces/{name}/{one}?as=text", fields).body.decode()
            assert still(agent.says(one, **fields), root) == still(text, root)


def agent_of(house: OwnHouse, name: str) -> Callable[..., Any]:
    """What a server of MCP asks."""

    def call(operation: AnyOperation, request: Request, *_: object) -> Any:
        with house.open(name, lambda _: None) as access:
            return access.run(operation, request), access.config.zone

    return call


def test_the_talks_have_every_operation() -> None:
    sessions = {step.tool for step in TALK if isinstance(step, Say)}
    assert {operation for operation, *_ in CALLS} | sessions == set(OPERATIONS)
    assert {words[0] for _, _, words in CALLS if words} == set(COMMANDS)


def test_an_agent_may_set_what_is_not_its_owners_alone() -> None:
    for operation in TOOLSETS["memory"]:
        assert not {"mode", "explain", "look", "receipt", "agent"} & set(arguments_of(operation))


def test_wrong_arguments_are_named_in_every_window(served: Running, name: str, dreamd: Caller) -> None:
    root = served.house.roots[name]
    config = Config(mcp=McpSection(toolsets=("memory", "sessions")))
    wrong: dict[str, Fields] = {
        one.name: {"nonsense": 1, **{each.name: {"no": ["such"]} for each in one.parameters}}
        for one in (*OPERATIONS.values(), *HOUSEHOLD.values())
    }
    for operation in OPERATIONS.values():
        with pytest.raises(FieldsError) as error:
            operation.bind(**wrong[operation.name])
        assert "nonsense" in str(error.value)
        assert "such" not in str(error.value).replace("nonsense", "")
    for table, there in ((OPERATIONS, f"/v1/workspaces/{name}"), (HOUSEHOLD, "/v1")):
        for operation in table.values():
            ask: Callable[..., Answer] = served.ask if operation.remote else served.ask_socket
            answers = [ask("POST", f"{there}/{operation.name}", wrong[operation.name])]
            if operation.reads:
                answers.append(ask("GET", f"{there}/{operation.name}?nonsense=1"))
            for answer in answers:
                assert (answer.status, answer.code) == (422, "VALIDATION_ERROR"), answer.body
                assert "nonsense" in answer.json["details"]["fields"]

    with talking(agent_of(served.house, name), config=config) as agent:
        for tool in (*TOOLSETS["memory"], *TOOLSETS["sessions"]):
            assert agent.refused(tool.name, **wrong[tool.name])["code"] == "VALIDATION_ERROR"
    for _, _, words in CALLS:
        if words:
            assert dreamd(words[0], "-w", root, "--nonsense", "1").status == 2
