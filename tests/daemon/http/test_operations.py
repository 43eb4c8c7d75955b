"""Every operation, through both doors."""

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import pytest

from daemon.api.operations.table import OPERATIONS
from daemon.config.registry import name_of
from daemon.dream.progress import Step
from daemon.http.calls import notice_headers, wants_stream
from daemon.workspace.adoption import init_workspace, open_workspace
from state.codec import plain
from state.errors import NotFoundError, UnknownWorkspaceError, UsageError
from state.stores.disk.lock import acquire
from tests.daemon.http.house import GatedHouse, HauntedHouse, OwnHouse
from tests.daemon.http.running import Running, running
from tests.support.committing import id_of
from tests.support.session_talk import TALK, Say

NOTE = "Grüße aus Köln: the ledger is SQLite 🍵"
TRANSCRIPT = {"role": "user", "content": "the staging database is called heron"}
# In an order in which each has something to do.
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("working_memory_note", {"note": "Grüße aus Köln: the ledger is SQLite 🍵", "importance": 0.9}),
    ("memory_search", {"query": "which ledger", "limit": 3, "explain": True}),
    ("memory_bootstrap", {"context_window": 50_000}),
    ("bootstraps", {"limit": 5}),
    ("feel", {"event": "reward", "because": "the tests pass"}),
    ("mood", {}),
    ("ingest", {"paths": ["…"]}),
    ("take_in", {"files": [{"path": "…", "kind": "instructions", "own": True}]}),
    ("dream_now", {"mode": "propose"}),
    ("proposals", {}),
    ("decide", {"verdict": "approve"}),
    ("changes", {}),
    ("decide_changes", {"decline": []}),
    ("lines", {"limit": 50}),
    (
        "change_lines",
        {
            "changes": [
                {"action": "pin", "section": "Active Context", "expected": NOTE},
                {"action": "add", "section": "The Bond", "text": "Ada drinks no coffee"},
            ]
        },
    ),
    ("dream_status", {}),
    ("memory_state", {}),
    ("memory_why", {"text": "ledger"}),
    ("memory_why_not", {"text": "ledger", "session": ""}),
    ("history", {"limit": 5}),
    ("crystals", {"text": "ledg", "sort": "importance"}),
    ("crystal", {"id": NOTE}),
    ("gaps", {}),
    ("skills", {}),
    ("hormones", {"hours": 1, "samples": 3}),
    ("session_open", {"session_id": "mind"}),
    ("session_summary", {"session_id": "mind"}),
    ("session_archive", {"session_id": "mind", "limit": 1}),
    ("diff", {"file": True}),
    ("restore", {"version": 1}),
    ("dreams", {"limit": 2}),
    ("dream_details", {"version": 1}),
    ("acts", {}),
    ("supersede", {"older": NOTE, "newer": str(TRANSCRIPT["content"])}),
    ("forget", {"text": "Grüße aus Köln", "confirm": True}),
    ("configuration", {"key": "dream"}),
    ("recipes", {}),
    ("forgotten", {}),
    ("examine", {}),
    ("doctor", {}),
    ("repair", {}),
    ("export", {}),
)


def fields_of(operation: str, fields: dict[str, Any], folder: Path, root: Path) -> dict[str, Any]:
    if operation == "crystal":
        return {"id": id_of(open_workspace(root).database, fields["id"])[:8]}
    if operation == "take_in":
        written = folder / "CLAUDE.md"
        written.write_text("The linter is called ruff here\n")
        return {"files": [{**fields["files"][0], "path": str(written)}]}
    if operation != "ingest":
        return fields
    transcript = folder / "chat.jsonl"
    transcript.write_text(json.dumps(TRANSCRIPT) + "\n")
    return {"paths": [str(transcript)]}


def hear(heard: list[str], step: Step) -> None:
    heard.append(step.node)


def test_the_calls_are_all_that_there_are() -> None:
    """Those of sessions are held in a talk (tests/daemon/sessions/test_windows.py)."""
    sessions = {step.tool for step in TALK if isinstance(step, Say)}
    assert {operation for operation, _ in CALLS} | sessions == set(OPERATIONS)


def test_every_operation_answers_at_the_port(served: Running, name: str, tmp_path: Path) -> None:
    replies = {}
    for called, fields in CALLS:
        operation = OPERATIONS[called]
        path = f"/v1/workspaces/{name}{operation.path}"
        asked = fields_of(called, fields, tmp_path, served.house.roots[name])
        if operation.method == "GET":
            query = urlencode({key: str(value).lower() for key, value in asked.items()})
            answer = served.ask("GET", f"{path}?{query}")
        else:
            answer = served.ask("POST", path, asked)
        if not operation.remote:
            assert (answer.status, answer.code) == (403, "FORBIDDEN")
            continue
        assert answer.status == 200, (called, answer.body)
        assert answer.headers["Content-Type"] == "application/json"
        replies[called] = answer.json
    assert replies["working_memory_note"]["text"] == "Grüße aus Köln: the ledger is SQLite 🍵"
    assert "ledger" in replies["memory_search"]["hits"][0]["text"]
    assert replies["dream_now"]["outcome"]["mode"] == "propose"
    assert replies["decide"]["version"] == 1
    assert "ledger" in replies["memory_state"]["text"]
    assert replies["memory_why"]["lines"]
    assert [one["id"] for one in replies["crystals"]["crystals"]] == [replies["crystal"]["id"]]
    assert len(replies["hormones"]["curve"]) == 3
    assert replies["forgotten"]["total"] == 1
    assert replies["diff"]["diff"] == ""
    assert "Ada drinks no coffee" in [line["text"] for line in replies["change_lines"]["lines"]]
    assert NOTE in [line["text"] for section in replies["lines"]["sections"] for line in section["lines"]]
    assert [(version["number"], version["cause"]) for version in replies["history"]["versions"]] == [
        (2, "edit"),
        (1, "dream"),
    ]
    assert replies["restore"]["dream"]["number"] == 3


def test_every_operation_answers_the_client_at_the_socket(served: Running, name: str, tmp_path: Path) -> None:
    root = served.house.roots[name]
    for called, fields in CALLS:
        operation = OPERATIONS[called]
        asked = operation.bind(**fields_of(called, fields, tmp_path, root))
        heard: list[str] = []
        reply = served.client.call(root, operation, asked, partial(hear, heard))
        assert type(reply) is operation.reply
        if called == "dream_now":
            assert heard[-1:] == ["propose"]
    assert served.house.roots[name] == root


def test_a_search_as_of_a_day_ends_there(served: Running, name: str) -> None:
    there = f"/v1/workspaces/{name}"
    served.ask("POST", f"{there}/notes", {"note": "the swift nests under the roof"})

    def found(**fields: Any) -> list[str]:
        answer = served.ask("POST", f"{there}/search", {"query": "where does the swift nest", **fields})
        assert answer.status == 200
        return [hit["text"] for hit in answer.json["hits"]]

    assert found() == ["the swift nests under the roof"]
    assert found(as_of="2999-01-01T00:00:00Z", explain=True) == ["the swift nests under the roof"]
    assert found(as_of="2001-01-01T00:00:00+02:00", explain=True) == []


def test_both_forms_of_an_answer_hold_the_same(served: Running, name: str) -> None:
    path = f"/v1/workspaces/{name}/bootstrap"
    served.ask("POST", f"/v1/workspaces/{name}/notes", {"note": "the swift nests under the roof"})
    whole, lines = served.ask("GET", path), served.ask("GET", path, headers={"Accept": "application/x-ndjson"})
    assert lines.headers["Content-Type"].startswith("application/x-ndjson")
    (line,) = lines.body.splitlines()
    assert json.loads(line) == {"reply": whole.json}
    assert "swift" in whole.json["text"]


def test_a_step_is_told_before_the_reply_is_made(tmp_path: Path) -> None:
    house = GatedHouse()
    house.shut.add(house.make(tmp_path))
    steps: list[Step] = []

    def told(step: Step) -> None:
        steps.append(step)
        house.gate.set()

    with running(house) as server:
        operation = OPERATIONS["memory_state"]
        reply = server.client.call(tmp_path, operation, operation.bind(), told)
    assert steps == [Step("gate", "waits")]
    assert reply.text == ""


def test_an_error_after_a_step_is_the_last_line(tmp_path: Path) -> None:
    house = GatedHouse()
    name = house.make(tmp_path)
    house.shut.add(name)
    house.gate.set()
    with running(house) as server:
        path = f"/v1/workspaces/{name}/diff"
        answer = server.ask("GET", path, headers={"Accept": "application/x-ndjson"})
        whole = server.ask("GET", path)
    step, end = (json.loads(line) for line in answer.body.splitlines())
    assert answer.status == 200
    assert step == {"step": {"node": "gate", "figures": "waits"}}
    assert end == {"error": whole.json}
    assert (whole.status, whole.code) == (404, "NOT_FOUND")


def test_a_client_that_goes_away_does_not_stop_a_dream(tmp_path: Path) -> None:
    house = GatedHouse()
    name = house.make(tmp_path)
    with running(house) as server:
        server.ask("POST", f"/v1/workspaces/{name}/notes", {"note": "the crane returns in March"})
        house.shut.add(name)
        body = b"{}"
        request = f"POST /v1/workspaces/{name}/dream HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\n"
        for accept in (request, request.replace("x-ndjson", "json")):
            with server.connected() as connection:
                head = f"{accept}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
                assert house.entered.acquire(timeout=300)
        house.shut.clear()
        house.gate.set()
        for _ in range(1_200):
            if server.ask("GET", f"/v1/workspaces/{name}/state").json["version"]:
                break
            time.sleep(0.05)
        assert "crane" in server.ask("GET", f"/v1/workspaces/{name}/state").json["text"]


def test_the_socket_takes_up_a_workspace_whose_root_is_named(served: Running, tmp_path: Path) -> None:
    root = init_workspace(tmp_path / "ungewöhnlich %41").root
    operation = OPERATIONS["dream_status"]
    with pytest.raises(UnknownWorkspaceError):
        served.client.call(root, operation, operation.bind())
    there = f"/v1/workspaces/{name_of(root)}/status"
    said = {"Dreamd-Workspace": quote(os.fsencode(root))}  # which of them is meant, and no more
    assert served.ask_socket("GET", there, headers=said).code == "UNKNOWN_WORKSPACE"
    assert served.client.call(root, operation, operation.bind(), register=True).workspace == str(root)
    assert served.client.call(root, operation, operation.bind()).workspace == str(root)


def test_a_root_that_is_not_the_name_s_is_refused(served: Running, tmp_path: Path) -> None:
    init_workspace(tmp_path)
    path = f"/v1/workspaces/{name_of(tmp_path)}/status"
    for said in (str(tmp_path / "other"), "relative", "/", f"{tmp_path}%00", ""):
        answer = served.ask_socket("GET", path, headers={"Dreamd-Workspace": said})
        assert (answer.status, answer.code) == (400, "VALIDATION_ERROR"), said
    operation = OPERATIONS["dream_status"]
    with pytest.raises(UsageError):
        served.client.call(tmp_path / "nowhere", operation, operation.bind(), register=True)


def test_the_port_takes_up_nothing(served: Running, tmp_path: Path) -> None:
    root = init_workspace(tmp_path).root
    there = f"/v1/workspaces/{name_of(root)}"
    assert served.ask("GET", f"{there}/status", headers={"Dreamd-Workspace": str(root)}).code == "UNKNOWN_WORKSPACE"
    assert served.ask("POST", "/v1/workspaces", {"path": str(root)}).status == 403
    assert served.ask("DELETE", there).status == 403
    assert name_of(root) not in served.house.roots


def test_a_workspace_is_taken_up_and_let_go_at_the_socket(served: Running, tmp_path: Path) -> None:
    root = init_workspace(tmp_path).root
    assert served.client.post("/v1/workspaces", {"path": str(root)}) == {"name": name_of(root)}
    assert str(root) in [one["root"] for one in served.client.get("/v1/workspaces")["workspaces"]]
    there = f"/v1/workspaces/{name_of(root)}"
    assert served.ask_socket("DELETE", there).json == {"name": name_of(root)}
    assert served.ask_socket("DELETE", there).code == "UNKNOWN_WORKSPACE"
    for path in ("relative", str(tmp_path / "nowhere"), "/\0"):
        assert served.ask_socket("POST", "/v1/workspaces", {"path": path}).status == 400
    assert served.ask_socket("POST", "/v1/workspaces", {"path": 1}).status == 422


def test_the_daemon_tells_of_itself(served: Running, name: str) -> None:
    answer = served.ask("GET", "/v1/workspaces")
    assert name in [one["name"] for one in answer.json["workspaces"]]
    assert str(served.house.roots[name]) in [
        one["workspace"] for one in served.ask("GET", "/v1/status").json["workspaces"]
    ]
    assert served.ask("GET", "/").json["openapi"] == "/v1/openapi.json"
    served.ask("GET", f"/v1/workspaces/{name}/mood")
    metrics = served.ask("GET", "/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain")
    assert b'dreamd_requests_total{code="OK",operation="mood"}' in metrics.body


def test_it_is_alive_and_ready_for_who_has_no_token() -> None:
    house = OwnHouse()
    with running(house) as server:
        for ask in (partial(server.ask, token=False), server.ask_socket):
            house.reason = "recovering /srv/memory of /home/ada"
            assert ask("GET", "/healthz").json == {"status": "alive"}
            unready = ask("GET", "/readyz")
            assert (unready.status, unready.code) == (503, "NOT_READY")
            assert unready.json["error"] == "recovering … of …"
            house.reason = ""
            assert ask("GET", "/readyz").json == {"status": "ready"}


def test_a_defect_is_answered_without_its_words(tmp_path: Path) -> None:
    house = HauntedHouse()
    name = house.make(tmp_path)
    with running(house) as server:
        for headers in ({}, {"Accept": "application/x-ndjson"}):
            answer = server.ask("GET", f"/v1/workspaces/{name}/state", headers=headers)
            assert (answer.status, answer.code) == (500, "FAILED")
            assert b"memory" not in answer.body
            assert b"Traceback" not in answer.body


def test_what_is_refused_of_a_workspace_says_so_by_its_status(served: Running, name: str) -> None:
    there = f"/v1/workspaces/{name}"

    def said(*words: Any) -> tuple[int, str]:
        answer = served.ask(*words)
        return answer.status, answer.code

    assert said("POST", f"{there}/dream", {}) == (409, "NOTHING_TO_DO")
    assert said("POST", f"{there}/restore", {"version": 7}) == (404, "NOT_FOUND")
    assert said("GET", f"{there}/diff?old=1") == (400, "VALIDATION_ERROR")
    assert said("GET", "/v1/workspaces/nobody-000000/state") == (404, "UNKNOWN_WORKSPACE")
    operation = OPERATIONS["diff"]
    with pytest.raises(NotFoundError):
        served.client.call(served.house.roots[name], operation, operation.bind())


@pytest.mark.parametrize("path", ["dream", "examination"])
def test_a_busy_workspace_is_a_conflict_that_passes(path: str, tmp_path: Path) -> None:
    house = OwnHouse(wait_seconds=0)
    name = house.make(tmp_path)
    with running(house) as server, acquire(open_workspace(tmp_path), "dreamd dream"):
        answer = server.ask("POST", f"/v1/workspaces/{name}/{path}", {})
        assert (answer.status, answer.code) == (409, "BUSY")
        assert int(answer.headers["Retry-After"]) > 0


def test_notices_come_in_both_forms(served: Running, name: str) -> None:
    served.house.roots[name].joinpath("transcripts").mkdir()
    served.house.roots[name].joinpath("transcripts", "Köln.jsonl").write_text("{broken\n")
    path = f"/v1/workspaces/{name}/dream"
    served.ask("POST", f"/v1/workspaces/{name}/notes", {"note": "the heron is back"})
    lines = served.ask("POST", path, {"mode": "dry"}, headers={"Accept": "application/x-ndjson"}).body.splitlines()
    notices = [json.loads(line)["notice"] for line in lines if line.startswith(b'{"notice"')]
    whole = served.ask("POST", path, {"mode": "auto"})
    shown = [unquote(header) for header in whole.headers.get_all("Dreamd-Notice") or []]
    assert any("Köln" in notice for notice in shown)
    assert all(notice.isascii() for notice in whole.headers.get_all("Dreamd-Notice") or [])
    assert set(notices) <= set(shown)


def test_headers_hold_a_few_notices() -> None:
    headers = notice_headers(f"notice {number} ✗\nof many {'ä' * 10_000}" for number in range(100))
    assert len(headers) == 10
    assert unquote(headers[-1][1]) == "and 100 in all"
    assert unquote(headers[0][1]).startswith("notice 0 ✗ of many ä")
    assert all(value.isascii() and value.isprintable() and len(value) < 4_000 for _, value in headers)


@pytest.mark.parametrize(
    ("accept", "stream"),
    [
        ([], False),
        (["*/*"], False),
        (["application/json"], False),
        (["application/x-ndjson"], True),
        (["text/html, Application/X-NDJSON;q=0.9"], True),
        (["application/json", "application/x-ndjson"], False),
        (["application/x-ndjson, application/json"], True),
    ],
)
def test_who_asks_for_lines_gets_lines(accept: list[str], stream: bool) -> None:  # noqa: FBT001
    assert wants_stream(accept) is stream


def test_what_a_reply_holds_is_what_the_codec_writes(served: Running, name: str) -> None:
    root = served.house.roots[name]
    operation = OPERATIONS["history"]
    assert plain(served.client.call(root, operation, operation.bind(limit=1))) == {"versions": []}
