"""The pages of sessions: who holds what, what leaves next and why; what a person does there is done and recorded."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, text_of

RED, FRIDAY, LUNCH = "The build is red <i>since</i> Tuesday", "Ada wants the release on Friday", "Lunch was late"
# A name as a program may give it: characters that steer, and those of HTML and addresses.
MIND = "mind\u202e \u200b'\"><img src=x>&id=b/../%2e"

Ask = Callable[..., Any]


@pytest.fixture
def ask(served: Running, name: str) -> Ask:
    """Ask an operation of sessions."""

    def asked(called: str, **fields: Any) -> Any:
        answer = served.ask("POST", f"/v1/workspaces/{name}/sessions/{called}", fields)
        assert answer.status == 200, answer.body
        return answer.json

    return asked


@pytest.fixture
def mind(ask: Ask) -> str:
    """A session that holds two memories and let one go."""
    ask("session_open", session_id=MIND, policy="bounded", config={"max_items": 2})
    for content, importance in ((RED, 0.6), (FRIDAY, 0.9), (LUNCH, 0.1)):
        ask("memory_memorize", session_id=MIND, content=content, importance=importance, tags=["<b>tag</b>"])
    return MIND


def address(name: str, session: str, rest: str = "") -> str:
    return f"/w/{name}/session?session_id={quote(session, safe='')}{rest}"


def ledger(served: Running, name: str) -> list[tuple[str, str, str]]:
    acts = served.ask("GET", f"/v1/workspaces/{name}/acts").json["acts"]
    return [(one["act"], one["about"], one["outcome"]) for one in acts]


def test_the_list_says_what_fits_and_goes_on_with_a_cursor(browser: Browser, name: str, ask: Ask, mind: str) -> None:
    ask("session_open", session_id="closed", policy="budget")
    ask("session_close", session_id="closed")
    ask("working_memory_add", session_id="x" * 1_001, content="it has a long name", priority="low")
    text = text_of(browser.get(f"/w/{name}/sessions"))
    assert "bounded" in text
    assert "2 of 2" in text
    assert "100 %, approaching" in text
    assert "no limit but time" in text
    assert "closed 0 s ago" in text
    assert "too long for an address" in text
    page = browser.get(f"/w/{name}/sessions?limit=1")
    seen = 0
    while b'<p class="more">' in page.body:
        seen += page.body.count(b'data-item="session"')
        more = page.body.partition(b'<p class="more"><a href="')[2].partition(b'"')[0].decode().replace("&amp;", "&")
        page = browser.get(more)
    assert seen + page.body.count(b'data-item="session"') == 3
    found = browser.get(f"/w/{name}/sessions.json").json["session_list"]
    assert {one["session_id"] for one in found["sessions"]} == {MIND, "closed", "x" * 1_001}


def test_a_session_shows_what_the_operations_say(
    browser: Browser, served: Running, name: str, ask: Ask, mind: str
) -> None:
    page = browser.get(address(name, mind))
    text = text_of(page)
    for shown in ("2 memories of 2", "★ 0.90", RED, FRIDAY, "<b>tag</b>", "to the archive: capacity_exceeded", LUNCH):
        assert shown in text, shown
    assert text.index(RED) < text.index("Who leaves next, and why") < text.index("What left")
    assert text.index("What left") < text.index(LUNCH) < text.index("What happened")
    assert "mind⟨202E⟩" in text
    for hostile in (b"<i>since", b"<b>tag", b"<img"):
        assert hostile not in page.body
    replies = browser.get(address(name, mind).replace("session?", "session.json?")).json
    assert replies.pop("session_summary")["policy"] == "bounded"
    left = served.ask("GET", f"/v1/workspaces/{name}/sessions/archive?{urlencode({'session_id': MIND})}").json
    assert replies.pop("session_archive") == left
    for called, reply in replies.items():
        more = {"include_expired": True, "include_promoted": True} if called == "working_memory_list" else {}
        assert ask(called, session_id=MIND, **more) == reply, called
    assert len(replies) == 4


def test_parts_of_its_lists_follow_each_other(browser: Browser, name: str, ask: Ask) -> None:
    ask("session_open", session_id="s", policy="bounded", config={"max_items": 20})
    for number in range(40):
        ask("memory_memorize", session_id="s", content=f"memory {number:02}", importance=0.5)
    first = browser.get(f"/w/{name}/session.json?session_id=s").json
    memories = first["working_memory_list"]
    rest = browser.get(f"/w/{name}/session.json?session_id=s&cursor={quote(memories['next_cursor'])}").json
    assert len(memories["memories"] + rest["working_memory_list"]["memories"]) == 20
    earlier = browser.get(
        f"/w/{name}/session.json?session_id=s&before={first['session_events']['events'][-1]['key']}"
    ).json
    keys = [one["key"] for reply in (first, earlier) for one in reply["session_events"]["events"]]
    assert len(set(keys)) == 40
    assert keys == sorted(keys, reverse=True)
    page = browser.get(f"/w/{name}/session?session_id=s")
    assert text_of(page).count("More that left") == text_of(page).count("Earlier") == 1
    assert len(page.body) < 60_000


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_memory_is_hidden_brought_back_promoted_and_restored(
    browser: Browser, served: Running, name: str, ask: Ask, mind: str, headers: dict[str, str]
) -> None:
    act = f"/w/{name}/session/change"
    red, _, lunch = fields_of(browser.get(address(name, mind)), act)
    assert red["session_id"] == MIND

    def change(fields: dict[str, str], verdict: str) -> str:
        answer = browser.act(act, {**fields, "verdict": verdict}, headers)
        if headers:
            assert answer.status == 200
            return text_of(answer)
        assert answer.status == 303
        assert answer.headers["Location"].startswith(f"/w/{name}/session?session_id=mind%E2%80%AE")
        return text_of(browser.get(answer.headers["Location"]))

    def states() -> dict[str, tuple[str, bool]]:
        every = ask("working_memory_list", session_id=MIND, include_promoted=True)["memories"]
        return {one["content"]: (one["state"], one["promoted_to_id"] is not None) for one in every}

    assert "softly forgotten" in change(red, "forget")
    assert states()[RED] == ("hidden", False)
    if headers:
        every = fields_of(browser.act(act, {**red, "verdict": "forget"}, headers), act)
        (undo,) = [one for one in every if "verdict" in one]
        assert undo == {**red, "verdict": "restore"}
    change(red, "restore")
    assert states()[RED] == ("live", False)
    assert "a crystal too" in change(red, "promote")
    assert states()[RED] == ("live", True)
    change(lunch, "restore")  # it is the least important still
    assert LUNCH not in states()
    told = ledger(served, name)
    assert {(act, outcome) for act, _, outcome in told} == {("session: change", "done")}
    assert "promote memory 0 of session mind" in told[1][1]
    assert not [about for _, about, _ in told if "build" in about or "Lunch" in about]


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_a_session_is_swept_and_closed(
    browser: Browser, served: Running, name: str, ask: Ask, mind: str, headers: dict[str, str]
) -> None:
    page = browser.get(address(name, mind))
    assert b'hx-confirm="Close this session?' in page.body
    browser.act(f"/w/{name}/session/sweep", {"session_id": mind}, headers)
    browser.act(f"/w/{name}/session/close", {"session_id": mind}, headers)
    after = browser.get(address(name, mind))
    assert "It has nothing in mind." in text_of(after)
    assert "session/close" not in after.body.decode()
    assert ask("working_memory_stats", session_id=mind)["total_count"] == 0
    assert [act for act, _, _ in ledger(served, name)] == ["session: close", "session: sweep"]


def test_the_ledger_tells_no_secret_and_nothing_forgotten_by_the_name_of_a_session(
    browser: Browser, served: Running, name: str
) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    browser.act(f"/w/{name}/session/sweep", {"session_id": f"with {secret}"})
    browser.act(f"/w/{name}/forget/erase", {"text": "zanzibarite"})
    browser.act(f"/w/{name}/session/sweep", {"session_id": "the zanzibarite mine"})
    told = ledger(served, name)
    assert [act for act, _, _ in told] == ["session: sweep", "forget: erase", "session: sweep"]
    assert not [about for _, about, _ in told if secret in about or "zanzibarite" in about]


def test_what_is_not_there_is_said_and_recorded(browser: Browser, served: Running, name: str, mind: str) -> None:
    assert browser.get(f"/w/{name}/session?session_id=nobody").status == 404
    assert browser.get(f"/w/{name}/session").status == 422
    fields = {"session_id": mind, "memory_id": "nothing", "verdict": "forget"}
    answer = browser.act(f"/w/{name}/session/change", fields, HTMX)
    assert answer.status == 404
    assert answer.headers["HX-Retarget"] == "#said"
    assert ledger(served, name) == [("session: change", "", "NOT_FOUND")]
    assert browser.act(f"/w/{name}/session/change", {**fields, "verdict": "erase"}).status == 422


def test_without_sessions_the_page_says_what_opens_one(browser: Browser, name: str) -> None:
    assert "No session was ever opened." in text_of(browser.get(f"/w/{name}/sessions"))
