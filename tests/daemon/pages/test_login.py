"""Logging in: by a link that works once; a session is a browser's own, and opens pages alone."""

import json
import os
import stat
import time
from pathlib import Path

import pytest

from daemon.config.settings import Config, HttpSection
from daemon.http.logins import LINK_SECONDS, MOST_SESSIONS, SESSION_SECONDS, Logins
from daemon.pages.window import PageWindow
from state.errors import OverloadedError
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import BEARER, TOKEN, Running, running, spoken
from tests.daemon.pages.browser import Browser, link, text_of
from tests.support.users import NOBODY, as_root, as_user


def cookie_of(id_: str) -> tuple[str, ...]:
    return (f"other=1; dreamd={id_}",)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_link_works_once_and_leads_where_it_was_asked_for(served: Running, name: str) -> None:
    browser, path = Browser(served), link(served, name)
    first = browser.get(path)
    assert (first.status, first.headers["Location"]) == (303, f"/w/{name}/today")
    assert browser.get(path).status == 410
    set_cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in set_cookie
    assert "SameSite=Strict" in set_cookie
    assert path.rpartition("/")[2] not in set_cookie


def test_whoever_looks_at_a_link_does_not_use_it_up(served: Running) -> None:
    browser, path = Browser(served), link(served)
    looked = browser.head(path)
    assert (looked.status, looked.headers["Set-Cookie"], looked.body) == (200, None, b"")
    assert browser.get(path).status == 303


@as_root
def test_a_link_and_a_session_are_of_no_use_to_another_user_of_the_machine(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json", TOKEN)
    with running(OwnHouse(), window=PageWindow(logins)) as server:
        path, browser = f"/login/{logins.link(user=os.geteuid())}", Browser(server)
        assert status_for(NOBODY, server, path) == "410"
        assert browser.get(path).status == 303
        browser.log_in()
        assert status_for(os.geteuid(), server, "/", browser.cookie) == "200"
        assert status_for(NOBODY, server, "/", browser.cookie) == "401"
    behind_proxy = OwnHouse(Config(http=HttpSection(allowed_hosts=("memory.example",))))
    with running(behind_proxy, window=PageWindow(logins)) as server:
        assert status_for(NOBODY, server, "/", browser.cookie) == "200"


def status_for(user: int, server: Running, path: str, cookie: str = "") -> str:
    """What a program of this user gets."""
    said = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n".encode()
    return as_user(user, lambda: int(spoken(server.connected_to_port(), said).split(b" ")[1]))


def test_without_a_session_every_page_says_how_to_log_in(served: Running, name: str) -> None:
    browser = Browser(served)
    for path in ("/", f"/w/{name}/today", f"/w/{name}/today.json", f"/w/{name}/events", "/events", "/nothing"):
        answer = browser.get(path)
        assert answer.status == 401, path
        assert "dreamd open" in text_of(answer)
    assert browser.post(f"/w/{name}/today/dream", {}).status == 401
    assert browser.get(f"/w/{name}/today", {"Accept": "application/json"}).code == "UNAUTHORIZED"


def test_cookies_of_other_programs_hide_no_session_and_none_that_was_made_up_is_one(browser: Browser) -> None:
    made_up = ["", "x" * 43, "a;b", '"', "ü", "x" * 9000]
    others = [
        'a={"b": "c"}',
        "a=b c",
        "a",
        "=",
        '"',
        'a="',
        "a=é",
        "Path=/",
        "dreamd",
        *(f"dreamd={one}" for one in made_up),
    ]
    for other in others:
        for cookies in (f"{other}; {browser.cookie}", f"{browser.cookie}; {other}"):
            assert browser.get("/", {"Cookie": cookies.encode().decode("latin-1")}).status == 200, cookies
        assert browser.get("/", {"Cookie": other.encode().decode("latin-1")}).status == 401, other


def test_a_new_session_ends_the_old_one_and_who_logs_out_is_out(served: Running) -> None:
    browser = Browser(served)
    browser.log_in()
    before = browser.cookie
    browser.log_in()
    assert browser.get("/").status == 200
    assert Browser(served, cookie=before).get("/").status == 401
    answer = browser.act("/logout", {})
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    assert browser.get("/").status == 401


def test_no_cookie_is_slow(tmp_path: Path) -> None:
    logins = Logins(tmp_path / "logins.json", TOKEN)

    def seconds(header: str) -> float:
        began = time.thread_time()
        assert logins.session((header,)) is None
        return time.thread_time() - began

    plain = seconds("a=1; " * 20_000)
    for header in ('dreamd="' + "\\" * 100_000 + '"', 'a="' + 'x\\"' * 33_000, f"dreamd={'x' * 43};" * 2_000):
        assert seconds(header) < 20 * plain


def test_a_session_opens_pages_and_no_operation(served: Running, browser: Browser, name: str) -> None:
    for path in ("/v1/status", "/v1/workspaces", f"/v1/workspaces/{name}/memory_state", "/metrics", "/mcp"):
        assert browser.get(path).status == 401, path
    assert browser.post(f"/v1/workspaces/{name}/dream_now", {}).status == 401
    assert served.ask("POST", "/v1/login", {}).status == 403  # a link is given at the socket alone


def test_the_token_reads_pages_and_sends_no_form(served: Running, name: str) -> None:
    assert set(served.ask("GET", f"/w/{name}/today.json").json) >= {"dream_status", "proposals", "history"}
    assert served.ask("GET", "/").json["dreamd"]
    form = {"Content-Type": "application/x-www-form-urlencoded", **BEARER}
    assert served.ask("POST", f"/w/{name}/today/dream", body=b"csrf=x", headers=form).status == 403


@pytest.mark.parametrize("path", ["/metrics%0a", "/mcp%0a", "/healthz%0a", "/v1/status%0a", "/v1%0A"])
def test_no_line_break_makes_a_page_of_what_programs_ask(browser: Browser, path: str) -> None:
    assert browser.get(path).status == 401
    assert browser.post(path, {}).status == 401


ORIGINS = [{"Origin": one} for one in ("http://evil.example", "http://127.0.0.1:9", "null", "")]


@pytest.mark.parametrize("headers", [*ORIGINS, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
def test_a_form_of_another_origin_is_refused_even_with_the_right_field(
    browser: Browser, name: str, headers: dict[str, str]
) -> None:
    assert browser.act(f"/w/{name}/today/dream", {}, headers).status == 403
    assert browser.act("/logout", {}, headers).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_page_of_another_origin_loads_ours_but_a_link_may_lead_here(
    browser: Browser, name: str, site: str
) -> None:
    for mode in ("no-cors", "cors", "same-origin", "websocket", ""):
        answer = browser.get(f"/w/{name}/today", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode})
        assert answer.status == 403, mode
    assert browser.get(f"/w/{name}/today", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status == 200


def test_every_page_forbids_frames_scripts_of_others_and_storage(browser: Browser, name: str) -> None:
    for path in ("/", f"/w/{name}/today", f"/w/{name}/memory", f"/w/{name}/nothing", "/login/none"):
        answer = browser.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'"), path
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_sessions_outlive_the_daemon_and_not_the_token(tmp_path: Path) -> None:
    path, clock = tmp_path / "state" / "logins.json", Clock()
    logins = Logins(path, TOKEN, clock)
    opened = logins.redeem(logins.link("/w/a/now"))
    assert opened is not None
    assert opened[1] == "/w/a/now"
    session = logins.session(cookie_of(opened[0]))
    assert session is not None
    assert Logins(path, TOKEN, clock).session(cookie_of(opened[0])) == session
    assert Logins(path, f"{TOKEN}x", clock).session(cookie_of(opened[0])) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert opened[0] not in path.read_text()
    clock.now += SESSION_SECONDS
    assert logins.session(cookie_of(opened[0])) is None


def test_a_session_is_of_the_user_who_came_with_the_link_also_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "logins.json"
    logins = Logins(path, TOKEN)
    known, unknown = logins.redeem(logins.link(), lambda: 1000), logins.redeem(logins.link())
    assert known is not None
    assert unknown is not None
    for one in (logins, Logins(path, TOKEN)):
        ids = (known[0], unknown[0])
        assert [one.session(cookie_of(id_), lambda: 1001) is not None for id_ in ids] == [False, True]
        assert [one.session(cookie_of(id_), lambda: 1000) is not None for id_ in ids] == [True, True]
        assert one.session(cookie_of(known[0])) is not None  # where nobody says who comes


def test_a_link_that_nobody_used_is_old_after_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    logins = Logins(tmp_path / "logins.json", TOKEN, clock)
    code = logins.link()
    clock.now += LINK_SECONDS
    assert logins.redeem(code) is None
    for _ in range(32):
        logins.link()
    with pytest.raises(OverloadedError):
        logins.link()
    clock.now += LINK_SECONDS
    assert logins.redeem(logins.link()) is not None


def test_the_oldest_of_too_many_sessions_goes(tmp_path: Path) -> None:
    clock = Clock()
    logins = Logins(tmp_path / "logins.json", TOKEN, clock)
    ids = []
    for _ in range(MOST_SESSIONS + 3):
        clock.now += 1
        opened = logins.redeem(logins.link())
        assert opened is not None
        ids.append(opened[0])
    alive = [logins.session(cookie_of(one)) is not None for one in ids]
    assert alive == [False] * 3 + [True] * MOST_SESSIONS


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": "b"}', b"\xff", b'{"a": null}'])
def test_a_file_of_sessions_that_is_none_logs_everybody_out_and_nobody_in(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "logins.json"
    path.write_bytes(content)
    logins = Logins(path, TOKEN)
    assert logins.session(cookie_of("a")) is None
    opened = logins.redeem(logins.link())
    assert opened is not None
    assert Logins(path, TOKEN).session(cookie_of(opened[0])) is not None
    assert len(json.loads(path.read_text())) == 1
