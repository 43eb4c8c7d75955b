"""What is sent badly is refused in words, and harms nobody."""

import json
from typing import Any

import pytest

from tests.daemon.http.running import JSON, TOKEN, Running, spoken

NOTE = b'{"note": "the swift is early"}'
# Bodies of a note that are refused with 422, by the field that is named.
FIELDS: dict[str, tuple[dict[str, Any] | bytes, ...]] = {
    "note": ({}, {"note": 5}),
    "importance": ({"importance": 2}, {"importance": "0.5"}, *(
        b'{"note": "n", "importance": %s}' % number for number in (b"NaN", b"Infinity", b"1e999", b"-1"))),
    "colour": ({"colour": "red"},),
}  # fmt: skip
# And with 400: they are no JSON object.
NO_OBJECTS = (
    b"", b"{", b"[]", b"\xff\xfe", b'{"note": "\xff"}', b'{"note": "\\ud800"}', b"[" * 100_000, b'{"note": ' * 50_000,
    b'{"note": "n", "importance": ' + b"9" * 10_000 + b"}", "{'note': 'n'}".encode("utf-16"),
)  # fmt: skip
# Queries, by operation and status; of 422 the first field is named.
QUERIES = {
    ("history", 422): "limit= limit=99999999999999999999 limit=1&limit=2 colour=red limit=1.5 as=x as=json&as=text",
    ("memory_why", 400): f"text=%ff {'&'.join(f'a{number}=1' for number in range(101))}",
    ("memory_why", 404): f"text={'%F0%9F%8D%B5' * 10_000}",  # the longest text fits
    ("memory_why", 422): f"text={'a' * 10_001}",
    # No seconds since 1970, no other spelling of a day.
    ("memory_search", 422): "since=2026&query=x as_of=2026-13-12&query=x until=12.3.2026&query=x",
    ("diff", 404): "file=true file=True versions=0&versions=1",  # there is no version
    ("diff", 422): "file=perhaps",
}
NOWHERE = f"""/v1/workspaces/../memory_state /v1/workspaces/..%2f..%2fetc/memory_state
    /v1/workspaces/a%00b/memory_state /v1/workspaces/%ff/memory_state /v1/workspaces/{"a" * 5_000}/memory_state
    /v1/workspaces//memory_state /v1/workspaces/a/__class__ /v1/workspaces/a //v1/workspaces /v1/../healthz /no"""


def test_a_body_that_is_wrong_is_refused(served: Running, name: str) -> None:
    cases = [(one, 422, field) for field, bodies in FIELDS.items() for one in bodies]
    for body, status, field in (*cases, *((one, 400, "") for one in NO_OBJECTS)):
        said = body if isinstance(body, bytes) else json.dumps({"note": "n", **body} if body else body).encode()
        answer = served.ask("POST", f"/v1/workspaces/{name}/working_memory_note", body=said, headers=JSON)
        assert (answer.status, answer.code) == (status, "VALIDATION_ERROR"), said[:99]
        if field:
            assert list(answer.json["details"]["fields"]) == [field]
            assert field in answer.json["error"]


@pytest.mark.parametrize(("operation", "status"), QUERIES)
def test_a_query_is_read_by_its_kinds(served: Running, name: str, operation: str, status: int) -> None:
    for query in QUERIES[operation, status].split():
        answer = served.ask("GET", f"/v1/workspaces/{name}/{operation}?{query}")
        assert answer.status == status, answer.body
        if status == 422:
            assert list(answer.json["details"]["fields"]) == [query.partition("=")[0]]


def test_only_json_is_taken(served: Running, name: str) -> None:
    path = f"/v1/workspaces/{name}/working_memory_note"
    for kind in (None, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"Content-Type": kind} if kind is not None else {}
        answer = served.ask("POST", path, body=NOTE, headers=headers)
        assert (answer.status, answer.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert served.ask_socket("POST", "/v1/register", body=b'{"path": "/"}', headers=headers).status == 415
    assert served.ask("POST", path, body=NOTE, headers={**JSON, "Content-Encoding": "gzip"}).status == 415
    with_charset = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert served.ask("POST", path, body=NOTE, headers=with_charset).status == 200


def test_a_body_that_is_too_large_is_refused(served: Running, name: str) -> None:
    path = f"/v1/workspaces/{name}/memory_search"
    fitting = json.dumps({"query": "swift"}).encode().ljust(1024 * 1024)
    assert served.ask("POST", path, body=fitting, headers=JSON).status == 200
    answer = served.ask("POST", path, body=fitting + b" ", headers=JSON)
    assert (answer.status, answer.code) == (413, "TOO_LARGE")
    assert served.ask_socket("POST", path, body=fitting + b" ", headers=JSON).status == 413
    for mcp in ("/mcp", "/mcp/a-000000"):  # as a client of MCP shows it
        answer = served.ask("POST", mcp, body=b"1" * 10_000_000, headers=JSON)
        assert (answer.status, answer.json["jsonrpc"], answer.json["id"]) == (413, "2.0", None)
        assert answer.json["error"]["data"]["code"] == "TOO_LARGE"
    head = f"POST /v1/workspaces/{name}/working_memory_note HTTP/1.1\r\nHost: localhost\r\n"  # its size is not said
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk, small = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536), b"%x\r\n%s\r\n" % (len(NOTE), NOTE)
    for chunks, status in ((chunk * 17, b"413"), (small, b"200")):
        with served.connected_to_port() as connection:
            connection.sendall(head.encode() + chunks + b"0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 " + status)


def test_what_is_not_there_is_not_found_and_another_method_names_those_that_there_are(
    served: Running, name: str
) -> None:
    for path in NOWHERE.split():
        for ask in (served.ask, served.ask_socket):
            answer = ask("GET", path)
            assert (answer.status, answer.code in ("NOT_FOUND", "UNKNOWN_WORKSPACE")) == (404, True), path
    there = f"/v1/workspaces/{name}"
    for method, path, allowed in (
        ("GET", f"{there}/working_memory_note", "POST"),
        ("DELETE", f"{there}/working_memory_note", "POST"),
        ("DELETE", f"{there}/memory_state", "GET, HEAD, POST"),
        ("TRACE", "/v1/workspaces", "GET, HEAD, POST"),
        ("BREW", "/healthz", "GET, HEAD"),
    ):
        answer = served.ask(method, path)
        assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "METHOD_NOT_ALLOWED", allowed)
    for path in ("/v1/register", f"{there}/ingest"):  # these are not at the port at all
        for method in ("GET", "POST"):
            assert served.ask(method, path, {}).code == "FORBIDDEN"
    for path in ("/healthz", "/v1/workspaces", f"{there}/memory_state"):
        answer = served.ask("HEAD", path)
        assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, b"", "application/json")


def test_headers_have_a_limit(served: Running) -> None:
    assert served.ask("GET", "/", headers={"X-Large": "a" * 100_000}).status == 200
    said = f"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nX-Large: ".encode()
    with served.connected_to_port() as connection:
        connection.sendall(said)
        with pytest.raises(OSError):  # noqa: PT011 - it is not listened to any more
            connection.sendall(b"a" * (64 << 20))
    assert served.ask("GET", "/healthz").status == 200


def test_many_bad_requests_leave_the_server_as_it_was(served: Running) -> None:
    for said in (
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 9,
    ):
        for connect in (served.connected_to_port, served.connected):
            with connect() as connection:
                connection.sendall(said)
    bearer = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode()
    named = spoken(served.connected_to_port(), b"GET http://evil.example/healthz HTTP/1.1\r\n", bearer)
    assert named.startswith(b"HTTP/1.1 404 ")
    with served.connected_to_port() as connection:  # what is refused is not waited for
        head = b"POST /v1/workspaces/a-000000/feel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        connection.sendall(head + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}
    assert served.ask("GET", "/healthz", headers={**upgrade, "Sec-WebSocket-Version": "13"}).status == 200
