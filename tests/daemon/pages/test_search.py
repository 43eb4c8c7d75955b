"""The page of search: what the operation finds and why, among what is wanted; looking leaves no trace."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import utc_now
from state.search.ranking import WEIGHTS
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, text_of
from tests.support.committing import id_of

HERON, CRANE = "The staging database is called heron", "The staging database is called crane"


@pytest.fixture
def noted(served: Running, name: str) -> str:
    """A workspace with two notes."""
    for note in (HERON, "Mira prefers <b>short</b> guides"):
        assert served.ask("POST", f"/v1/workspaces/{name}/notes", {"note": note}).status == 200
    return name


def traces(served: Running, name: str) -> list[Any]:
    """What a search of an agent's would leave."""
    asked = (
        "SELECT id, accesses, last_accessed_at FROM crystals ORDER BY id",
        "SELECT * FROM gaps",
        "SELECT * FROM pointers",
    )
    with closing(sqlite3.connect(open_workspace(served.house.roots[name]).database)) as connection:
        return [connection.execute(one).fetchall() for one in asked]


def test_what_is_found_is_shown_with_its_shares_and_leads_to_its_crystal(
    browser: Browser, served: Running, noted: str
) -> None:
    page = browser.get(f"/w/{noted}/search?query=what+is+the+staging+database+called")
    text = text_of(page)
    asked = {"query": "what is the staging database called", "limit": 10, "explain": True, "look": True}
    reply = served.ask("POST", f"/v1/workspaces/{noted}/search", asked).json
    assert reply["good"]
    assert HERON in text
    assert "nothing good" not in text
    assert f"{reply['hits'][0]['score']:.2f}" in text
    crystal = id_of(open_workspace(served.house.roots[noted]).database, HERON)
    assert f'hx-get="/w/{noted}/crystal?id={crystal}" hx-target="#beside"'.encode() in page.body
    shown = browser.get(f"/w/{noted}/search.json?query=what+is+the+staging+database+called").json
    hits = shown["memory_search"]["hits"]
    assert [hit["id"] for hit in hits] == [hit["id"] for hit in reply["hits"]]
    assert [one["name"] for one in hits[0]["signals"]["shares"]] == list(WEIGHTS)
    assert page.body.count(b'<svg class="bar"') == len(hits)
    assert b"<b>short</b>" not in page.body
    part = browser.get(f"/w/{noted}/search?query=heron", HTMX)
    assert HERON in text_of(part)
    assert b"<nav" not in part.body


def test_looking_leaves_no_trace_and_an_agents_search_does(browser: Browser, served: Running, noted: str) -> None:
    looked = [f"/w/{noted}/search?query={query}" for query in ("staging+database", "who+owns+the+zeppelin+hangar")]
    for path in looked:
        browser.get(path)
    before = traces(served, noted)
    assert before[1] == []
    for path in looked:
        assert browser.get(path).status == 200
    assert traces(served, noted) == before
    for query in ("staging database", "who owns the zeppelin hangar"):
        served.ask("POST", f"/v1/workspaces/{noted}/search", {"query": query, "agent": "codex"})
    after = traces(served, noted)
    assert [one == other for one, other in zip(after[:2], before[:2], strict=True)] == [False] * 2


def test_only_what_is_wanted_is_found(browser: Browser, noted: str) -> None:
    today = utc_now().date()
    for wanted, found in {
        "origin=scratch": True,
        "origin=seed": False,
        "trust=agent": True,
        "trust=owner": False,
        "session=none": False,
        "speaker=nobody": False,
        f"since={today - timedelta(days=1)}": True,
        f"since={today + timedelta(days=2)}": False,
        f"until={today - timedelta(days=1)}": False,
        f"as_of={today}": True,
        "as_of=2001-01-01": False,
        "origin=&kind=&trust=&session=&speaker=&since=&until=&as_of=": True,
    }.items():
        page = browser.get(f"/w/{noted}/search?query=staging+database&{wanted}")
        assert page.status == 200, wanted
        assert (HERON in text_of(page)) is found, wanted
        assert ("The filters leave too little" in text_of(page)) is not found, wanted


@pytest.mark.parametrize(
    "wanted",
    [
        "since=yesterday",
        "as_of=9999-12-31",
        "until=-1",
        "limit=0",
        "limit=51",
        "origin=moon",
        "query=a&query=b",
        "other=1",
    ],
)
def test_what_cannot_be_wanted_is_said(browser: Browser, noted: str, wanted: str) -> None:
    assert browser.get(f"/w/{noted}/search?{wanted}").status == 422


def test_that_nothing_good_was_found_is_said_plainly(browser: Browser, noted: str) -> None:
    page = text_of(browser.get(f"/w/{noted}/search?query=prefers+zeppelins+with+engines+of+brass+and+oak"))
    assert "Nothing in the memory answers this well. What follows is only the nearest." in page
    assert "Mira prefers" in page


def test_a_superseded_result_says_what_holds_now(browser: Browser, served: Running, noted: str) -> None:
    served.ask("POST", f"/v1/workspaces/{noted}/notes", {"note": CRANE})
    browser.get(f"/w/{noted}/search?query=database")  # the notes become crystals
    database = open_workspace(served.house.roots[noted]).database
    ids = {"older": id_of(database, HERON), "newer": id_of(database, CRANE)}
    assert served.ask_socket("POST", f"/v1/workspaces/{noted}/supersessions", ids).status == 200
    assert f"holds now: {CRANE}" in text_of(browser.get(f"/w/{noted}/search?query=what+is+the+database+called"))


def test_what_left_a_session_is_found_if_it_is_wanted(browser: Browser, served: Running, name: str) -> None:
    sessions = f"/v1/workspaces/{name}/sessions"
    served.ask("POST", f"{sessions}/working_memory_add", {"session_id": "a/b", "content": HERON, "priority": "low"})
    served.ask("POST", f"{sessions}/session_close", {"session_id": "a/b"})
    assert HERON not in text_of(browser.get(f"/w/{name}/search?query=heron"))
    page = browser.get(f"/w/{name}/search?query=heron&archived=true")
    assert HERON in text_of(page)
    assert f'href="/w/{name}/session?session_id=a%2Fb"'.encode() in page.body


def test_an_empty_page_says_why(browser: Browser, name: str) -> None:
    assert "Nothing is asked yet." in text_of(browser.get(f"/w/{name}/search"))
    assert "Nothing is asked yet." in text_of(browser.get(f"/w/{name}/search?query=+"))
    assert browser.get(f"/w/{name}/search.json").json == {}
    assert "The memory is empty" in text_of(browser.get(f"/w/{name}/search?query=heron"))


def test_more_is_shown_if_more_is_asked_for(browser: Browser, served: Running, name: str) -> None:
    for number in range(12):
        served.ask("POST", f"/v1/workspaces/{name}/notes", {"note": f"Heron {number} nests in tree {number * 7}"})
    page = browser.get(f"/w/{name}/search?query=heron+nests")
    assert page.body.count(b'data-item="hit"') == 10
    assert f'href="/w/{name}/search?query=heron+nests&amp;limit=25"'.encode() in page.body
    more = browser.get(f"/w/{name}/search?query=heron+nests&limit=25")
    assert more.body.count(b'data-item="hit"') == 12
    assert b">More<" not in more.body
