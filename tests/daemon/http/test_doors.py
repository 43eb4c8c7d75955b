"""Who comes in: the token, Host and Origin at the port; at the socket, whose process it is."""

import logging
import os
import subprocess
import sys

import pytest

from daemon.config.settings import Config, HttpSection
from daemon.http.access_policy import SOCKET, is_our_host, is_our_origin, port_policy, refusal
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running, spoken

HTTP = HttpSection(allowed_hosts=("Memory.example.org", "proxy.example.org:8443"))
THERE = "/v1/workspaces/a-000000"
PATHS = ("/", "/v1/workspaces", "/v1/status", "/v1/openapi.json", "/metrics", "/mcp", f"{THERE}/memory_state")


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ü"],
)
def test_without_the_token_nothing_is_answered(served: Running, authorization: str | None) -> None:
    headers = {"Authorization": authorization} if authorization is not None else {}
    for path in (*PATHS, f"/v1/status?token={TOKEN}&access_token={TOKEN}"):
        answer = served.ask("GET", path, headers=headers, token=False)
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED"), path
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    posted = served.ask("POST", f"{THERE}/working_memory_note", {"note": "n"}, headers=headers, token=False)
    assert posted.status == 401


@pytest.mark.parametrize(
    "token",
    ["", "x" * 7_000, "\u00e9" * 40, TOKEN + "\u00a0", TOKEN.upper(), TOKEN[:-1] + "\x7f", f"{TOKEN},{TOKEN}"],
)
def test_no_token_of_whatever_length_and_letters_is_ours(token: str) -> None:
    assert status_of(authorizations=(f"Bearer {token}",)) == 401


def status_of(
    hosts: tuple[str, ...] = ("localhost",),
    origins: tuple[str, ...] = (),
    authorizations: tuple[str, ...] = (f"Bearer {TOKEN}",),
) -> int:
    """The status with which the port refuses these headers; 0: it does not."""
    every = {b"host": hosts, b"origin": origins, b"authorization": authorizations}
    headers = [(name, one.encode("latin-1", "replace")) for name, values in every.items() for one in values]
    scope = {"type": "http", "path": "/", "method": "GET", "server": ("127.0.0.1", 7349), "headers": headers}
    refused = refusal(port_policy(TOKEN), scope, HTTP)
    return refused.status if refused is not None else 0


def test_each_header_counts_as_often_as_it_comes(served: Running) -> None:
    assert status_of() == 0
    assert status_of(hosts=("localhost", "localhost")) == 421
    assert status_of(origins=("http://localhost:7349", "http://evil.example")) == 403
    assert status_of(authorizations=(f"Bearer {TOKEN}",) * 2) == 401
    assert status_of(authorizations=(f"bearer {TOKEN}",)) == 0
    said = f"GET /v1/workspaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    for more, status in ((f"Authorization: Bearer {TOKEN}\r\n", b"401"), ("", b"200")):
        heard = spoken(served.connected_to_port(), f"{said}{more}Connection: close\r\n\r\n".encode())
        assert heard.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("path", ["/healthz", "/v1/workspaces"])
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1:1", "[::]", "", "localhost:"])
def test_a_name_that_is_not_ours_is_misdirected(served: Running, host: str, path: str) -> None:
    answer = served.ask("GET", path, headers={"Host": host})
    assert (answer.status, answer.code) == (421, "MISDIRECTED")
    nameless = f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    assert spoken(served.connected_to_port(), nameless.encode()).startswith(b"HTTP/1.1 421 ")


def test_our_names_are_heard_with_and_without_the_port(served: Running) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]", "LocalHost"):
        for named in (host, f"{host}:{served.port}"):
            assert served.ask("GET", "/", headers={"Host": named}).status == 200


def test_the_configured_names_are_ours_at_once() -> None:
    house = OwnHouse()
    with running(house) as server:
        assert server.ask("GET", "/", headers={"Host": "memory.example.org"}).status == 421
        house.config = Config(http=HTTP)
        assert server.ask("GET", "/", headers={"Host": "memory.example.org"}).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "file://", "https://[::1]"]
)
def test_pages_of_others_are_refused(served: Running, origin: str) -> None:
    answer = served.ask("GET", "/v1/workspaces", headers={"Origin": origin})
    assert (answer.status, answer.code) == (403, "FORBIDDEN")
    assert answer.headers["Access-Control-Allow-Origin"] is None


def test_a_page_of_ours_needs_the_token_and_no_page_is_agreed_with(served: Running) -> None:
    ours = {"Origin": f"http://localhost:{served.port}"}
    assert served.ask("GET", "/", headers=ours).status == 200
    assert served.ask("GET", "/", headers=ours, token=False).status == 401
    answer = served.ask("OPTIONS", "/v1/workspaces", headers={**ours, "Access-Control-Request-Method": "POST"})
    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert not [header for header in answer.headers if header.lower().startswith("access-control")]
    at_the_socket = served.ask_socket("GET", "/v1/workspaces", headers={"Origin": "http://localhost"})
    assert (at_the_socket.status, at_the_socket.code) == (403, "FORBIDDEN")
    assert served.ask_socket("GET", "/v1/workspaces", headers={"Host": "anything"}).status == 200


HOSTS = (
    ("memory.EXAMPLE.org", HTTP, True),
    ("memory.example.org:7349", HTTP, True),
    ("proxy.example.org:8443", HTTP, True),
    ("proxy.example.org", HTTP, False),
    ("memory.example.org:80", HTTP, False),
    ("[fd00::1]:7349", HttpSection(host="fd00::1"), True),
    ("10.0.0.5", HttpSection(host="10.0.0.5"), True),
    ("0.0.0.0:7349", HttpSection(host="0.0.0.0"), False),  # noqa: S104
    ("[::]:7349", HttpSection(host="::"), False),
)
ORIGINS = (
    ("http://127.0.0.1:7349", 7349, True),
    ("https://memory.example.org", 7349, True),
    ("https://proxy.example.org:8443", 7349, True),
    ("http://localhost", 80, True),
    ("http://localhost", 7349, False),
    ("http://localhost:80", 7349, False),
    ("ftp://localhost:7349", 7349, False),
    ("http://memory.example.org.evil.example", 7349, False),
    ("http://memory.example.org@evil.example", 7349, False),
    ("", 7349, False),
)
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


def test_which_names_and_pages_are_ours() -> None:
    assert [host for host, http, ours in HOSTS if is_our_host(host, 7349, http) is not ours] == []
    assert [origin for origin, port, ours in ORIGINS if is_our_origin(origin, port, HTTP) is not ours] == []
    assert [host for host in RESEMBLING if is_our_host(host, 7349, HTTP)] == []
    assert [host for host in RESEMBLING if is_our_origin(f"http://{host}", 7349, HTTP)] == []


def test_a_port_has_a_token_that_is_not_shown() -> None:
    with pytest.raises(ValueError, match="token"):
        port_policy("")
    assert TOKEN not in repr(port_policy(TOKEN))
    assert (SOCKET.is_local, port_policy(TOKEN).is_local) == (True, False)


def test_every_answer_is_safe_in_a_browser(served: Running, name: str) -> None:
    mood = f"/v1/workspaces/{name}/mood"
    answers = [served.ask("GET", path) for path in ("/", "/metrics", "/nothing", f"{mood}?as=text")]
    answers += [served.ask("GET", "/", token=False), served.ask_socket("GET", "/")]
    answers.append(served.ask("GET", mood, headers={"Accept": "application/x-ndjson"}))
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


LEADING_OUT = (
    *("..", "%2e%2e", "..%2f..%2fetc", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "a%00b", "%ff%fe", "....//....//etc"),
    *("a%2f..%2fb", "%252e%252e%252f", ".", "~", "%5c..%5c"),
)


@pytest.mark.parametrize("name", LEADING_OUT)
def test_a_name_in_an_address_leads_nowhere(served: Running, name: str) -> None:
    for path in (f"/v1/workspaces/{name}/memory_state", f"/v1/workspaces/{name}", f"/v1/{name}", f"/mcp/{name}"):
        answer = served.ask("GET", path)
        assert answer.status in {400, 403, 404, 405}, path
        assert "root:" not in str(answer.body)
