"""What is sent badly is refused in words, and harms nobody."""

import json
from typing import Any

import pytest

from daemon.api.workers import Limits
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import BEARER, JSON, TOKEN, Running, running, spoken

NOTE = b'{"note": "the swift is early"}'


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "note"),
        ({"note": 5}, "note"),
        ({"note": None}, "note"),
        ({"note": "n", "importance": 2}, "importance"),
        ({"note": "n", "importance": "0.5"}, "importance"),
        ({"note": "n", "importance": True}, "importance"),
        ({"note": "n", "colour": "red"}, "colour"),
        ({"note": "n", "": 1}, ""),
    ],
)
def test_a_field_that_is_wrong_is_named(served: Running, name: str, fields: dict[str, Any], named: str) -> None:
    answer = served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", fields)
    assert (answer.status, answer.code) == (422, "VALIDATION_ERROR")
    assert list(answer.json["details"]["fields"]) == [named]
    assert named in answer.json["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"note",
        b"[]",
        b'"note"',
        b"null",
        b"\xff\xfe",
        b'{"note": "\xff"}',
        b'{"note": "\\ud800"}',
        b"[" * 100_000,
        b'{"note": ' * 50_000,
        b'{"note": "n", "importance": ' + b"9" * 10_000 + b"}",
        b'{"note": "n"} {}',
        "{'note': 'n'}".encode("utf-16"),
    ],
)
def test_a_body_that_is_no_object_is_refused(served: Running, name: str, body: bytes) -> None:
    answer = served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", body=body, headers=JSON)
    assert (answer.status, answer.code) == (400, "VALIDATION_ERROR")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1"])
def test_a_number_that_is_none_is_refused(served: Running, name: str, number: str) -> None:
    body = f'{{"note": "n", "importance": {number}}}'.encode()
    assert served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", body=body, headers=JSON).status == 422


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_only_json_is_taken(served: Running, name: str, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind is not None else {}
    answer = served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", body=NOTE, headers=headers)
    assert (answer.status, answer.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert served.ask_socket("POST", "/v1/register", body=b'{"path": "/"}', headers=headers).status == 415
    packed = {**JSON, "Content-Encoding": "gzip"}
    assert served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", body=NOTE, headers=packed).status == 415


def test_json_with_a_charset_is_json(served: Running, name: str) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", body=NOTE, headers=headers).status == 200


def test_a_body_that_is_too_large_is_refused(served: Running, name: str) -> None:
    path = f"/v1/workspaces/{name}/memory_search"
    fitting = json.dumps({"query": "swift"}).encode().ljust(1024 * 1024)
    assert served.ask("POST", path, body=fitting, headers=JSON).status == 200
    answer = served.ask("POST", path, body=fitting + b" ", headers=JSON)
    assert (answer.status, answer.code) == (413, "TOO_LARGE")
    assert served.ask_socket("POST", path, body=fitting + b" ", headers=JSON).status == 413


def test_a_body_whose_size_is_not_said_is_counted(served: Running, name: str) -> None:
    head = f"POST /v1/workspaces/{name}/working_memory_note HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
    small = b"%x\r\n%s\r\n" % (len(NOTE), NOTE)
    for chunks, status in ((chunk * 17, b"413"), (small, b"200")):
        with served.connected_to_port() as connection:
            connection.sendall(head.encode() + chunks + b"0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 " + status)


def test_what_is_refused_is_not_waited_for(served: Running) -> None:
    head = "POST /v1/workspaces/a-000000/working_memory_note HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    with served.connected_to_port() as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    "query",
    [
        "limit=many",
        "limit=",
        "limit=-1",
        "limit=99999999999999999999999999999999",
        "limit=1&limit=2",
        "colour=red",
        "limit=1.5",
    ],
)
def test_a_query_that_is_wrong_names_its_field(served: Running, name: str, query: str) -> None:
    answer = served.ask("GET", f"/v1/workspaces/{name}/history?{query}")
    assert (answer.status, answer.code) == (422, "VALIDATION_ERROR")
    assert list(answer.json["details"]["fields"]) == [query.partition("=")[0]]


@pytest.mark.parametrize("query", ["text=%ff", "&".join(f"a{number}=1" for number in range(101))])
def test_a_query_that_cannot_be_read_is_refused(served: Running, name: str, query: str) -> None:
    assert served.ask("GET", f"/v1/workspaces/{name}/memory_why?{query}").status == 400


def test_a_query_is_read_by_its_kinds(served: Running, name: str) -> None:
    for query in ("file=true", "file=True", "file=false&old=0&new=1"):
        answer = served.ask("GET", f"/v1/workspaces/{name}/diff?{query}")
        assert (answer.status, answer.code) == (404, "NOT_FOUND"), answer.body  # there is no version yet
    assert served.ask("GET", f"/v1/workspaces/{name}/diff?file=perhaps").status == 422


def test_the_longest_text_fits_into_a_query(served: Running, name: str) -> None:
    assert served.ask("GET", f"/v1/workspaces/{name}/memory_why?text={'%F0%9F%8D%B5' * 10_000}").status == 404
    assert served.ask("GET", f"/v1/workspaces/{name}/memory_why?text={'a' * 10_001}").status == 422


@pytest.mark.parametrize(
    "path",
    [
        "/v1/workspaces/../memory_state",
        "/v1/workspaces/%2e%2e/memory_state",
        "/v1/workspaces/..%2f..%2fetc/memory_state",
        "/v1/workspaces/%2Fetc%2Fpasswd/memory_state",
        "/v1/workspaces/a%00b/memory_state",
        "/v1/workspaces/%ff/memory_state",
        f"/v1/workspaces/{'a' * 5_000}/state",
        "/v1/workspaces//state",
        "/v1/workspaces/a/memory_state/",
        "/v1/workspaces/",
        "//v1/workspaces",
        "/v1/../healthz",
        "/nothing",
    ],
)
def test_what_is_not_there_is_not_found(served: Running, path: str) -> None:
    for ask in (served.ask, served.ask_socket):
        answer = ask("GET", path)
        assert answer.status == 404
        assert answer.code in ("NOT_FOUND", "UNKNOWN_WORKSPACE")


def test_another_name_in_the_request_line_is_not_found(served: Running) -> None:
    said = f"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    heard = spoken(served.connected_to_port(), said.encode(), b"Connection: close\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 404 ")


def test_another_method_is_answered_with_those_that_there_are(served: Running, name: str) -> None:
    there = f"/v1/workspaces/{name}"
    for method, path, allowed in (
        ("GET", f"{there}/working_memory_note", "POST"),
        ("HEAD", f"{there}/working_memory_note", "POST"),
        ("DELETE", f"{there}/memory_state", "GET, HEAD, POST"),
        ("TRACE", "/v1/workspaces", "GET, HEAD, POST"),
        ("BREW", "/healthz", "GET, HEAD"),
    ):
        answer = served.ask(method, path)
        assert answer.status == 405
        assert method == "HEAD" or answer.code == "METHOD_NOT_ALLOWED"
        assert answer.headers["Allow"] == allowed
    for path in ("/v1/register", f"{there}/ingest"):  # these are not at the port at all
        for method in ("GET", "POST"):
            assert served.ask(method, path, {}).code == "FORBIDDEN"
    assert served.ask_socket("GET", "/v1/register").headers["Allow"] == "POST"


def test_head_is_get_without_a_body(served: Running, name: str) -> None:
    for path in ("/healthz", "/v1/workspaces", f"/v1/workspaces/{name}/memory_state"):
        answer = served.ask("HEAD", path)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["Content-Type"] == "application/json"


def test_headers_have_a_limit(served: Running) -> None:
    assert served.ask("GET", "/", headers={"X-Large": "a" * 100_000}).status == 200
    said = f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nX-Large: ".encode()
    with served.connected_to_port() as connection:
        connection.sendall(said)
        heard = b""
        try:
            for _ in range(1_000):
                connection.sendall(b"a" * 65_536)
        except OSError:  # it is not listened to any more
            pass
        else:
            pytest.fail("64 MB of headers were taken")
        try:
            heard = connection.recv(65_536)
        except ConnectionResetError:
            heard = b""
    assert heard == b"" or heard.startswith(b"HTTP/1.1 400 ")
    assert served.ask("GET", "/healthz").status == 200


def test_many_bad_requests_leave_the_server_as_it_was(served: Running) -> None:
    for said in (
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 9,
    ):
        with served.connected_to_port() as connection:
            connection.sendall(said)
        with served.connected() as connection:
            connection.sendall(said)
    assert served.ask("GET", "/healthz").status == 200


def test_an_upgrade_is_not_followed(served: Running) -> None:
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "x",
        "Sec-WebSocket-Version": "13",
    }
    assert served.ask("GET", "/healthz", headers=headers).status == 200


def test_mcp_is_answered_by_who_is_asked_to() -> None:
    heard: list[tuple[str, bytes]] = []

    async def mcp(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        heard.append((scope["path_params"].get("workspace", ""), message["body"]))
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    class Endpoint:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await mcp(scope, receive, send)

    with running(OwnHouse(), Limits(body_bytes=1_000), Endpoint()) as server:
        assert server.ask("POST", "/mcp", body=b"1").status == 202
        assert server.ask_socket("DELETE", "/mcp/a-000000").status == 202
        assert server.ask("POST", "/mcp", body=b"1", token=False).status == 401
        assert server.ask("POST", "/mcp", body=b"1", headers={"Origin": "http://evil.example"}).status == 403
        assert server.ask("POST", "/mcp", body=b"1" * 1_001, headers=BEARER).status == 413
    assert heard == [("", b"1"), ("a-000000", b"")]


def test_a_large_body_is_taken_in_and_refused_as_an_mcp_client_shows_it(served: Running) -> None:
    for path in ("/mcp", "/mcp/a-000000"):
        answer = served.ask("POST", path, body=b"1" * 10_000_000, headers=JSON)
        assert (answer.status, answer.json["jsonrpc"], answer.json["id"]) == (413, "2.0", None)
        assert "send less at once" in answer.json["error"]["message"]
        assert answer.json["error"]["data"]["code"] == "TOO_LARGE"


def test_without_mcp_there_is_none(served: Running) -> None:
    assert served.ask("POST", "/mcp", {}).status == 404
