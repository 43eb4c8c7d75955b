"""Who comes in: the token, Host and Origin at the port; at the socket, whose process it is."""

import logging

import pytest

from daemon.config.settings import Config, HttpSection
from daemon.http.access_policy import is_our_host, is_our_origin, is_page, port_policy
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running, spoken
from tests.support.users import NOBODY, as_root, as_user

HTTP = HttpSection(allowed_hosts=("Memory.example.org", "proxy.example.org:8443"))
THERE = "/v1/workspaces/a-000000"
PATHS = ("/", "/v1/workspaces", "/v1/status", "/v1/openapi.json", "/metrics", "/mcp", f"{THERE}/memory_state")
WRONG = (
    None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ü",
    f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN},{TOKEN}", "Bearer " + "x" * 7_000,
)  # fmt: skip


@pytest.mark.parametrize("authorization", WRONG)
def test_without_the_token_nothing_is_answered(served: Running, authorization: str | None) -> None:
    headers = {"Authorization": authorization} if authorization is not None else {}
    for path in (*PATHS, f"/v1/status?token={TOKEN}&access_token={TOKEN}"):
        answer = served.ask("GET", path, headers=headers, token=False)
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED"), path
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    posted = served.ask("POST", f"{THERE}/working_memory_note", {"note": "n"}, headers=headers, token=False)
    assert posted.status == 401


def test_each_header_counts_as_often_as_it_comes(served: Running) -> None:
    bearer, ours = f"Authorization: Bearer {TOKEN}", f"Origin: http://localhost:{served.port}"
    for lines, status in (
        ((bearer,), b"200"),
        ((bearer.replace("Bearer", "bearer"),), b"200"),
        ((bearer, bearer), b"401"),
        ((bearer, "Host: localhost"), b"421"),
        ((bearer, ours), b"200"),
        ((bearer, ours, "Origin: http://evil.example"), b"403"),
    ):
        said = ["GET /v1/workspaces HTTP/1.1", "Host: localhost", *lines, "Connection: close", "", ""]
        heard = spoken(served.connected_to_port(), "\r\n".join(said).encode())
        # h11 itself refuses a second Host.
        assert heard.split(b" ")[1] in ((status, b"400") if status == b"421" else (status,)), lines


def test_a_name_that_is_not_ours_is_misdirected_and_ours_is_heard(served: Running) -> None:
    for path in ("/healthz", "/v1/workspaces"):
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1:1", "[::]", "", "localhost:"):
            answer = served.ask("GET", path, headers={"Host": host})
            assert (answer.status, answer.code) == (421, "MISDIRECTED")
        nameless = f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        assert spoken(served.connected_to_port(), nameless.encode()).startswith(b"HTTP/1.1 421 ")
    for host in ("localhost", "127.0.0.1", "[::1]", "LocalHost"):
        for named in (host, f"{host}:{served.port}"):
            assert served.ask("GET", "/", headers={"Host": named}).status == 200
    house = OwnHouse()
    with running(house) as server:
        assert server.ask("GET", "/", headers={"Host": "memory.example.org"}).status == 421
        house.config = Config(http=HTTP)  # at once
        assert server.ask("GET", "/", headers={"Host": "memory.example.org"}).status == 200


def test_pages_of_others_are_refused_and_ours_need_the_token(served: Running) -> None:
    for origin in ("http://evil.example", "null", "http://localhost:3000", "file://", "https://[::1]"):
        for path in ("/v1/workspaces", "/mcp"):
            answer = served.ask("GET", path, headers={"Origin": origin})
            assert (answer.status, answer.code) == (403, "FORBIDDEN")
            assert answer.headers["Access-Control-Allow-Origin"] is None
    ours = {"Origin": f"http://localhost:{served.port}"}
    assert served.ask("GET", "/", headers=ours).status == 200
    assert served.ask("GET", "/", headers=ours, token=False).status == 401
    answer = served.ask("OPTIONS", "/v1/workspaces", headers={**ours, "Access-Control-Request-Method": "POST"})
    assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
    assert not [header for header in answer.headers if header.lower().startswith("access-control")]
    at_the_socket = served.ask_socket("GET", "/v1/workspaces", headers={"Origin": "http://localhost"})
    assert (at_the_socket.status, at_the_socket.code) == (403, "FORBIDDEN")
    assert served.ask_socket("GET", "/v1/workspaces", headers={"Host": "anything"}).status == 200


OUR_HOSTS = (
    ("memory.EXAMPLE.org", HTTP), ("memory.example.org:7349", HTTP), ("proxy.example.org:8443", HTTP),
    ("[fd00::1]:7349", HttpSection(host="fd00::1")), ("10.0.0.5", HttpSection(host="10.0.0.5")),
)  # fmt: skip
OTHER_HOSTS = """proxy.example.org memory.example.org:80 localhost. 127.0.0.1. LOCALHOST.:7349 localhost:7349:7349
    localhost@evil.example [::1 ::1 0x7f.1 2130706433 127.1 127.0.0.1:07349 [::ffff:127.0.0.1]""".split()
OUR_ORIGINS = (
    ("http://127.0.0.1:7349", 7349), ("https://memory.example.org", 7349), ("https://proxy.example.org:8443", 7349),
    ("http://localhost", 80),
)  # fmt: skip
OTHER_ORIGINS = """http://localhost http://localhost:80 ftp://localhost:7349 http://memory.example.org.evil.example
    http://memory.example.org@evil.example""".split()


def test_which_names_and_pages_are_ours() -> None:
    assert [host for host, http in OUR_HOSTS if not is_our_host(host, 7349, http)] == []
    assert [host for host in (*OTHER_HOSTS, "localhost\t", "localhost, a") if is_our_host(host, 7349, HTTP)] == []
    for host in ("0.0.0.0", "::"):  # noqa: S104 - addresses to listen at are no names to be asked by
        assert not is_our_host(f"{host}:7349", 7349, HttpSection(host=host))
    assert [origin for origin, port in OUR_ORIGINS if not is_our_origin(origin, port, HTTP)] == []
    others = [*OTHER_ORIGINS, "", *(f"http://{host}" for host in OTHER_HOSTS[2:])]
    assert [origin for origin in others if is_our_origin(origin, 7349, HTTP)] == []
    for path in ("/v1", "/v1/x", "/mcp", "/mcp/a", "/metrics", "/healthz", "/readyz"):
        assert not is_page(path)
        assert is_page(path + "x") is (path not in {"/v1/x", "/mcp/a"})
    assert TOKEN not in repr(port_policy(TOKEN))


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
    assert (TOKEN in caplog.text, "heron" in caplog.text) == (False, False)
    assert "Invalid HTTP request" in caplog.text


@as_root
def test_another_user_is_not_heard_even_where_the_files_let_him(served: Running) -> None:
    def called(user: int) -> str:
        return as_user(user, lambda: spoken(served.connected(), b"GET /healthz HTTP/1.0\r\n\r\n"))

    folders = (served.path.parent, served.path.parent.parent)
    for folder in folders:
        folder.chmod(0o755)
    served.path.chmod(0o666)
    try:
        assert called(0).startswith("b'HTTP/1.1 200 ")
        assert called(NOBODY) in {"b''", "BrokenPipeError", "ConnectionResetError"}
    finally:
        served.path.chmod(0o600)
        for folder in folders:
            folder.chmod(0o700)
