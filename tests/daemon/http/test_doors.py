"""Who comes in: the token, Host and Origin at the port; at the socket, whose process it is."""

import logging
import os
import subprocess
import sys

import pytest

from daemon.config.settings import Config, HttpSection
from daemon.http.access_policy import SOCKET, RequestHeaders, is_our_host, is_our_origin, port_policy, refusal
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running, spoken

HTTP = HttpSection(allowed_hosts=("Memory.example.org", "proxy.example.org:8443"))
PATHS = (
    "/",
    "/v1/workspaces",
    "/v1/status",
    "/v1/openapi.json",
    "/metrics",
    "/mcp",
    "/v1/workspaces/a-000000/memory_state",
)


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ü"],
)
def test_without_the_token_nothing_is_answered(served: Running, authorization: str | None) -> None:
    headers = {"Authorization": authorization} if authorization is not None else {}
    for path in PATHS:
        answer = served.ask("GET", path, headers=headers, token=False)
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED"), path
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    posted = served.ask(
        "POST", "/v1/workspaces/a-000000/working_memory_note", {"note": "n"}, headers=headers, token=False
    )
    assert posted.status == 401


def test_the_token_in_the_query_is_none(served: Running) -> None:
    assert served.ask("GET", f"/v1/status?token={TOKEN}&access_token={TOKEN}", token=False).status == 401


def test_two_authorizations_are_none(served: Running) -> None:
    said = f"GET /v1/workspaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    twice = f"{said}Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    assert spoken(served.connected_to_port(), twice.encode()).startswith(b"HTTP/1.1 401 ")
    once = f"{said}Connection: close\r\n\r\n"
    assert spoken(served.connected_to_port(), once.encode()).startswith(b"HTTP/1.1 200 ")


def test_the_scheme_s_case_does_not_matter(served: Running) -> None:
    assert served.ask("GET", "/", token=False, headers={"Authorization": f"bearer {TOKEN}"}).status == 200


@pytest.mark.parametrize("path", ["/healthz", "/v1/workspaces"])
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1:1", "[::]", "", "localhost:"])
def test_a_name_that_is_not_ours_is_misdirected(served: Running, host: str, path: str) -> None:
    answer = served.ask("GET", path, headers={"Host": host})
    assert (answer.status, answer.code) == (421, "MISDIRECTED")


def test_our_names_are_heard_with_and_without_the_port(served: Running) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]", "LocalHost"):
        assert served.ask("GET", "/", headers={"Host": host}).status == 200
        assert served.ask("GET", "/", headers={"Host": f"{host}:{served.port}"}).status == 200


def test_a_request_without_a_host_is_misdirected(served: Running) -> None:
    said = f"GET /v1/workspaces HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    assert spoken(served.connected_to_port(), said.encode()).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "file://", "https://[::1]"]
)
def test_pages_of_others_are_refused(served: Running, origin: str) -> None:
    answer = served.ask("GET", "/v1/workspaces", headers={"Origin": origin})
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert answer.headers["Access-Control-Allow-Origin"] is None


def test_a_page_of_ours_still_needs_the_token(served: Running) -> None:
    ours = {"Origin": f"http://localhost:{served.port}"}
    assert served.ask("GET", "/", headers=ours).status == 200
    assert served.ask("GET", "/", headers=ours, token=False).status == 401


def test_preflights_agree_to_nothing(served: Running) -> None:
    asked = {"Origin": f"http://localhost:{served.port}", "Access-Control-Request-Method": "POST"}
    answer = served.ask("OPTIONS", "/v1/workspaces", headers=asked)
    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert not [header for header in answer.headers if header.lower().startswith("access-control")]


def test_pages_have_no_business_at_the_socket(served: Running) -> None:
    answer = served.ask_socket("GET", "/v1/workspaces", headers={"Origin": "http://localhost"})
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert served.ask_socket("GET", "/v1/workspaces", headers={"Host": "anything"}).status == 200


def test_the_configured_names_are_ours_at_once() -> None:
    house = OwnHouse()
    with running(house) as server:
        assert server.ask("GET", "/", headers={"Host": "memory.example.org"}).status == 421
        house.config = Config(http=HTTP)
        assert server.ask("GET", "/", headers={"Host": "memory.example.org"}).status == 200


def test_hosts() -> None:
    assert is_our_host("memory.EXAMPLE.org", 7349, HTTP)
    assert is_our_host("memory.example.org:7349", 7349, HTTP)
    assert is_our_host("proxy.example.org:8443", 7349, HTTP)
    assert not is_our_host("proxy.example.org", 7349, HTTP)
    assert not is_our_host("memory.example.org:80", 7349, HTTP)
    assert is_our_host("[fd00::1]:7349", 7349, HttpSection(host="fd00::1"))
    assert is_our_host("10.0.0.5", 7349, HttpSection(host="10.0.0.5"))
    assert not is_our_host("0.0.0.0:7349", 7349, HttpSection(host="0.0.0.0"))  # noqa: S104
    assert not is_our_host("[::]:7349", 7349, HttpSection(host="::"))


def test_origins() -> None:
    assert is_our_origin("http://127.0.0.1:7349", 7349, HTTP)
    assert is_our_origin("https://memory.example.org", 7349, HTTP)
    assert is_our_origin("https://proxy.example.org:8443", 7349, HTTP)
    assert is_our_origin("http://localhost", 80, HTTP)
    assert not is_our_origin("http://localhost", 7349, HTTP)
    assert not is_our_origin("http://localhost:80", 7349, HTTP)
    assert not is_our_origin("ftp://localhost:7349", 7349, HTTP)
    assert not is_our_origin("http://memory.example.org.evil.example", 7349, HTTP)
    assert not is_our_origin("http://memory.example.org@evil.example", 7349, HTTP)
    assert not is_our_origin("", 7349, HTTP)


def test_a_port_has_a_token_that_is_not_shown() -> None:
    with pytest.raises(ValueError, match="token"):
        port_policy("")
    assert TOKEN not in repr(port_policy(TOKEN))
    assert SOCKET.is_local
    assert not port_policy(TOKEN).is_local


def test_every_origin_counts() -> None:
    visit = RequestHeaders(
        "/", 7349, ("localhost",), ("http://localhost:7349", "http://evil.example"), (f"Bearer {TOKEN}",)
    )
    refused = refusal(port_policy(TOKEN), visit, HTTP)
    assert refused is not None
    assert refused.status == 403


def test_every_answer_is_safe_in_a_browser(served: Running, name: str) -> None:
    answers = [
        served.ask("GET", "/"),
        served.ask("GET", "/metrics"),
        served.ask("GET", "/nothing"),
        served.ask("GET", "/", token=False),
        served.ask("GET", f"/v1/workspaces/{name}/mood", headers={"Accept": "application/x-ndjson"}),
        served.ask_socket("GET", "/"),
    ]
    for answer in answers:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["Server"] is None


def test_neither_token_nor_query_is_logged(served: Running, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        served.ask("GET", f"/v1/workspaces/{name}/memory_why?text=heron")
        served.ask("GET", f"/v1/workspaces/{name}/memory_why?text=heron&token={TOKEN}", token=False)
        spoken(served.connected_to_port(), f"BAD REQUEST {TOKEN} heron\r\n\r\n".encode())
    assert TOKEN not in caplog.text
    assert "heron" not in caplog.text
    assert "Invalid HTTP request" in caplog.text


CALLING = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(30)
    connection.connect(sys.argv[1])
    try:
        connection.sendall(b"GET /healthz HTTP/1.0\\r\\n\\r\\n")
        sys.stdout.buffer.write(connection.recv(100))
    except OSError:
        pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_heard_even_where_the_files_let_him(served: Running) -> None:
    def called(user: int) -> bytes:
        words = [sys.executable, "-c", CALLING, str(served.path), str(user)]
        return subprocess.run(words, capture_output=True, check=True, timeout=300).stdout

    folders = (served.path.parent, served.path.parent.parent)
    for folder in folders:
        folder.chmod(0o755)
    served.path.chmod(0o666)
    try:
        assert called(0).startswith(b"HTTP/1.1 200 ")
        assert called(65_534) == b""
    finally:
        served.path.chmod(0o600)
        for folder in folders:
            folder.chmod(0o700)


@pytest.mark.parametrize(
    "token",
    ["", "x" * 7_000, "\u00e9" * 40, TOKEN + "\u00a0", TOKEN.upper(), TOKEN[:-1] + "\x7f", f"{TOKEN},{TOKEN}"],
)
def test_no_token_of_whatever_length_and_letters_is_ours(token: str) -> None:
    visit = RequestHeaders("/v1/status", 7349, ("localhost",), (), (f"Bearer {token}",))
    refused = refusal(port_policy(TOKEN), visit, HTTP)
    assert refused is not None
    assert refused.status == 401


RESEMBLING = (
    *("localhost.", "127.0.0.1.", "LOCALHOST.:7349", "localhost:7349:7349", "localhost@evil.example", "[::1", "::1"),
    *(
        "0x7f.1",
        "2130706433",
        "127.1",
        "localhost\t",
        "127.0.0.1:07349",
        "localhost, a.example",
        "[::ffff:127.0.0.1]",
    ),
)
LEADING_OUT = (
    *("..", "%2e%2e", "..%2f..%2fetc", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "a%00b", "%ff%fe", "....//....//etc"),
    *("a%2f..%2fb", "%252e%252e%252f", ".", "~", "%5c..%5c"),
)


@pytest.mark.parametrize("host", RESEMBLING)
def test_a_name_that_only_resembles_ours_is_none_of_ours(host: str) -> None:
    assert not is_our_host(host, 7349, HTTP)
    assert not is_our_origin(f"http://{host}", 7349, HTTP)


def test_two_hosts_are_one_too_many() -> None:
    visit = RequestHeaders("/", 7349, ("localhost", "localhost"), (), (f"Bearer {TOKEN}",))
    refused = refusal(port_policy(TOKEN), visit, HTTP)
    assert refused is not None
    assert refused.status == 421


@pytest.mark.parametrize("name", LEADING_OUT)
def test_a_name_in_an_address_leads_nowhere(served: Running, name: str) -> None:
    for path in (f"/v1/workspaces/{name}/memory_state", f"/v1/workspaces/{name}", f"/mcp/{name}"):
        answer = served.ask("GET", path)
        assert answer.status in {400, 403, 404, 405}, path
        assert "root:" not in str(answer.body)


def test_json_that_is_nested_without_end_is_refused_and_the_next_is_answered(served: Running, name: str) -> None:
    deep = b'{"note": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    answer = served.ask(
        "POST", f"/v1/workspaces/{name}/working_memory_note", body=deep, headers={"Content-Type": "application/json"}
    )
    assert answer.status in {400, 422}
    assert served.ask("GET", "/").status == 200
