"""Operations over HTTP, beside the table (tests/doors): forms of a reply, steps, errors, roots."""

import json
import time
from functools import partial
from pathlib import Path

from daemon.api.operations.table import OPERATIONS
from daemon.dream.progress import Step
from daemon.http.calls import notices_header
from daemon.workspace.adoption import init_workspace
from tests.daemon.http.house import GatedHouse, HauntedHouse, OwnHouse
from tests.daemon.http.running import Running, running

LINES = {"Accept": "application/x-ndjson"}
STATUS = OPERATIONS["dream_status"]


def test_the_form_of_an_answer_is_that_of_accept_or_of_the_query(served: Running, name: str) -> None:
    path = f"/v1/workspaces/{name}/memory_bootstrap"
    served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", {"note": "the swift nests under the roof"})
    text = served.ask("GET", f"{path}?as=text")
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert served.ask("POST", path, {}, headers={"Accept": "text/plain"}).body == text.body
    (line,) = served.ask("POST", f"{path}?as=text", {}, headers=LINES).body.splitlines()
    assert json.loads(line) == {"reply": text.body.decode()}
    gaps = served.ask("GET", f"/v1/workspaces/{name}/gaps?as=text").body  # it has no text of its own
    assert json.loads(gaps) == {"gaps": [], "total": 0}
    for accept, kind in (
        ("*/*", "application/json"),
        ("text/html, Application/X-NDJSON;q=0.9", "application/x-ndjson"),
        ("application/x-ndjson, application/json", "application/x-ndjson"),
        ("text/plain, application/json", "text/plain"),
    ):
        assert served.ask("GET", path, headers={"Accept": accept}).headers["Content-Type"].startswith(kind)


def test_a_step_is_told_before_the_reply_is_made_and_an_error_is_the_last_line(tmp_path: Path) -> None:
    house = GatedHouse()
    name = house.make(tmp_path)
    house.shut.add(name)
    steps: list[Step] = []

    def told(step: Step) -> None:
        steps.append(step)
        house.gate.set()

    with running(house) as server:
        operation = OPERATIONS["memory_state"]
        assert server.client.call(name, operation, operation.bind(), told).text == ""
        path = f"/v1/workspaces/{name}/diff"
        answer, whole = server.ask("GET", path, headers=LINES), server.ask("GET", path)
    assert steps == [Step("gate", "waits")]
    step, end = (json.loads(line) for line in answer.body.splitlines())
    assert answer.status == 200
    assert step == {"step": {"node": "gate", "figures": "waits"}}
    assert end == {"error": whole.json}
    assert (whole.status, whole.code) == (404, "NOT_FOUND")


def test_a_client_that_goes_away_does_not_stop_a_dream(tmp_path: Path) -> None:
    house = GatedHouse()
    name = house.make(tmp_path)
    with running(house) as server:
        server.ask("POST", f"/v1/workspaces/{name}/working_memory_note", {"note": "the crane returns in March"})
        house.shut.add(name)
        request = f"POST /v1/workspaces/{name}/dream_now HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\n"
        for accept in (request, request.replace("x-ndjson", "json")):
            with server.connected() as connection:
                head = f"{accept}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"
                connection.sendall(head.encode() + b"{}")
                assert house.entered.acquire(timeout=300)
        house.shut.clear()
        house.gate.set()
        for _ in range(1_200):
            if server.ask("GET", f"/v1/workspaces/{name}/memory_state").json["version"]:
                break
            time.sleep(0.05)
        assert "crane" in server.ask("GET", f"/v1/workspaces/{name}/memory_state").json["text"]


def test_a_workspace_is_taken_up_and_let_go_at_the_socket_alone(served: Running, tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path)
    root, named = workspace.root, {"name": workspace.name}
    assert served.ask("GET", f"/v1/workspaces/{workspace.name}/dream_status").code == "UNKNOWN_WORKSPACE"
    for operation in ("register", "release", "login"):
        assert served.ask("POST", f"/v1/{operation}", {"path": str(root)}).code == "FORBIDDEN"
    assert served.client.post("/v1/register", {"path": str(root)}) == named
    assert str(root) in [one["root"] for one in served.client.get("/v1/workspaces")["workspaces"]]
    assert served.ask_socket("POST", "/v1/release", named).json == named
    assert served.ask_socket("POST", "/v1/release", named).code == "UNKNOWN_WORKSPACE"
    for path in ("relative", str(tmp_path / "nowhere"), "/\0"):
        assert served.ask_socket("POST", "/v1/register", {"path": path}).status == 400
    assert served.ask_socket("POST", "/v1/register", {"path": 1}).status == 422


def test_the_daemon_tells_of_itself(served: Running, name: str) -> None:
    answer = served.ask("GET", "/v1/workspaces")
    assert name in [one["name"] for one in answer.json["workspaces"]]
    read = [one["workspace"] for one in served.ask("GET", "/v1/status").json["workspaces"]]
    assert str(served.house.roots[name]) in read
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
        for headers in ({}, LINES, {"Accept": "text/plain"}):
            answer = server.ask("GET", f"/v1/workspaces/{name}/memory_state", headers=headers)
            assert (answer.status, answer.code) == (500, "FAILED")
            assert b"memory" not in answer.body
            assert b"Traceback" not in answer.body


def test_notices_come_in_both_forms(served: Running, name: str) -> None:
    served.house.roots[name].joinpath("transcripts").mkdir()
    served.house.roots[name].joinpath("transcripts", "Köln.jsonl").write_text("{broken\n")
    path = f"/v1/workspaces/{name}/dream_now"
    served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", {"note": "the heron is back"})
    lines = served.ask("POST", path, {"mode": "dry"}, headers=LINES).body.splitlines()
    notices = [json.loads(line)["notice"] for line in lines if line.startswith(b'{"notice"')]
    header = served.ask("POST", path, {"mode": "auto"}).headers["Dreamd-Notices"]
    assert header.isascii()
    assert any("Köln" in notice for notice in json.loads(header))
    assert set(notices) <= set(json.loads(header))


def test_a_header_holds_a_few_notices() -> None:
    (header,) = notices_header([f"notice {number} ✗\nof many {'ä' * 10_000}" for number in range(100)]).values()
    shown = json.loads(header)
    assert (len(shown), shown[-1]) == (10, "and 100 in all")
    assert shown[0].startswith("notice 0 ✗ of many ä")
    assert header.isascii()
    assert header.isprintable()
    assert len(header) < 20_000
    assert notices_header([]) == {}
