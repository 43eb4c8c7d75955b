"""The window in a real browser before a real daemon: answers, a dream that is watched, the palette, no daemon."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Route

from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.browser import Seen, assert_quiet, browser_page
from tests.support.model_characters import good_when
from tests.support.scripted_model import ScriptedModel
from tests.support.serving import Home, noted, repairs, until

TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
SHORT, LONG = "Ada likes short answers of one line", "Ada likes short answers of three lines"
WRONG = "The staging server listens on port 8080"
NO_SCREEN = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}


@contextmanager
def window(home: Home, workspace: Workspace) -> Iterator[Seen]:
    """The browser, where the link of `dreamd open` leads; at the end nothing was refused, and nothing failed."""
    with browser_page() as seen:
        ended = home.dreamd("open", workspace.root, "--print", **NO_SCREEN)
        assert ended.status == 0, ended
        # However late a script comes, the page hears of what changes.
        seen.page.route("**/hx-sse.min.js", late)
        seen.page.goto(ended.out.strip())
        assert "/login/" not in seen.page.url
        yield seen
        assert_quiet(seen)


def late(route: Route) -> None:
    time.sleep(0.2)
    route.continue_()


def stays(page: Page) -> None:
    """Mark this very document: a page that is loaded again has no mark."""
    page.evaluate("window.isTheSame = true")


def has_stayed(page: Page) -> bool:
    return page.evaluate("window.isTheSame") is True


def pressed(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def focused(page: Page) -> str:
    """The text of what has the focus."""
    found: str = page.evaluate("document.activeElement.innerText ?? ''")
    return found


def tabbed_to(page: Page, text: str) -> None:
    """Come to the link or button of this text by the tabulator."""
    for _ in range(60):
        if focused(page).strip() == text:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the tabulator does not come to {text}")


def went_to(page: Page, name: str) -> None:
    """Another page by its link. Before its scripts are there, what is clicked leads to a page of its own."""
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(f"**/{name.lower()}")


def said(page: Page, text: str) -> None:
    """Wait until the page says this and the request has ended: until then it ignores keys that press a button."""
    page.locator("#said", has_text=text).wait_for()
    page.locator("form.htmx-request").first.wait_for(state="detached")


@pytest.mark.full
def test_what_waits_is_seen_at_once_and_answered_by_keyboard_alone(home: Home) -> None:
    workspace = home.workspace()
    home.with_port()
    with home.serving():
        noted(workspace, [TEA, SHORT])
        assert home.dreamd("dream", workspace.root).status == 0
        for new, old in ((LONG, SHORT), (COFFEE, TEA)):
            assert home.dreamd("note", new, "--replaces", old, "-w", workspace.root).status == 0
        assert home.dreamd("dream", workspace.root, DREAMD_DREAM__ASK="all").status == 0
        before = lived.lines(workspace)
        assert {TEA, SHORT} <= set(before)
        with window(home, workspace) as seen:
            page = seen.page
            stays(page)
            page.get_by_role("heading", name="2 things want you").wait_for()
            assert page.title().startswith("(2) ")
            pressed(page, "a", "d")  # nothing is marked
            assert page.locator("[id^=proposal-]").count() == 2
            pressed(page, "?")
            assert page.locator("dialog[open]").count() == 1
            pressed(page, "Escape")
            to_proposal(page, 1)
            pressed(page, "d")
            said(page, "1 change declined")
            assert lived.lines(workspace) == before
            to_proposal(page, 2)
            pressed(page, "a")
            said(page, "1 change accepted")
            page.get_by_role("heading", name="All is well").wait_for()
            assert not page.title().startswith("(")
            assert len({TEA, SHORT} & set(lived.lines(workspace))) == 1
            for count in (1, 2):
                pressed(page, "u")
                said(page, "Undone")
                page.locator("[id^=proposal-]").nth(count - 1).wait_for()
            assert lived.lines(workspace) == before
            for number in (1, 2):
                to_proposal(page, number)
                pressed(page, "x")
            pressed(page, "a")
            said(page, "2 changes accepted")
            assert {COFFEE, LONG} <= set(lived.lines(workspace))
            assert has_stayed(page)
    lived.assert_valid(workspace)


def to_proposal(page: Page, number: int) -> None:
    for _ in range(20):
        if page.evaluate("document.activeElement.id") == f"proposal-{number}":
            return
        pressed(page, "j")
    pressed(page, *20 * "k")
    while page.evaluate("document.activeElement.id") != f"proposal-{number}":
        pressed(page, "j")


@pytest.mark.full
def test_a_dream_is_followed_to_its_sentence(home: Home) -> None:
    workspace, answered = home.workspace(), threading.Event()
    noted(workspace, repairs(3))
    home.with_port()
    with ScriptedModel(good_when(answered)) as model:
        home.asks(model)
        with home.serving() as daemon, window(home, workspace) as seen:
            page = seen.page
            stays(page)
            page.locator("#main").get_by_role("button", name="now", exact=True).click()
            page.get_by_role("heading", name="It is dreaming").wait_for()
            page.locator("#frame .live", has_text="a dream runs now").wait_for()
            daemon.until(lambda: model.count == 1)
            answered.set()
            page.locator("#frame .state", has_text="Learnt 3").wait_for()
            page.locator(".lede", has_text="it learnt 3").wait_for()
            assert page.locator("[data-item=change]", has_text=repairs(1)[0]).count() == 1
            page.get_by_role("heading", name="All is well").wait_for()
            # Another one has nothing to do, and says so.
            page.locator("#main").get_by_role("button", name="now", exact=True).click()
            page.locator("#frame .state, #said", has_text="othing new since").first.wait_for()
            assert has_stayed(page)
    assert set(repairs(3)) <= set(lived.lines(workspace))


@pytest.mark.full
def test_the_palette_finds_notes_and_acts(home: Home) -> None:
    workspace = home.workspace()
    home.with_port()
    with home.serving() as daemon:
        noted(workspace, [TEA, WRONG])
        assert home.dreamd("dream", workspace.root).status == 0
        with window(home, workspace) as seen:
            page = seen.page
            stays(page)
            typed(page, "staging port")
            page.locator("#found .found-one", has_text=WRONG).first.wait_for()
            pressed(page, "Enter")
            page.locator("#beside", has_text=WRONG).wait_for()
            assert page.locator("dialog[open]").count() == 0
            typed(page, "stag")
            pressed(page, "Escape")
            assert page.locator("dialog[open]").count() == 0
            typed(page, f"note {SHORT}")
            page.locator("#found .found-one", has_text=f"Note: {SHORT}").wait_for()
            pressed(page, "Enter")
            said(page, "Noted.")
            typed(page, "dream now")
            page.locator("#found .found-one", has_text="do Dream now").wait_for()
            pressed(page, "ArrowDown", "Enter")
            page.locator("#frame .state", has_text="Learnt 1").wait_for()
            assert has_stayed(page)
            typed(page, "as of today")
            page.locator("#found .found-one", has_text="MEMORY.md as of").click()
            page.wait_for_url("**/memory?as_of=*")
        assert SHORT in lived.lines(workspace)
    assert [url for url in seen.requests if "answers" in url] == []
    assert SHORT not in daemon.log


def typed(page: Page, text: str) -> None:
    """Open the palette and type."""
    pressed(page, "Control+k")
    page.locator("#palette[open]").wait_for()
    page.fill("#find", text)


@pytest.mark.full
def test_while_the_daemon_is_gone_the_page_says_so_and_what_is_pressed_goes_later(home: Home) -> None:
    workspace = home.workspace()
    home.with_port()
    with browser_page() as seen:
        page = seen.page
        with home.serving():
            noted(workspace, [TEA])
            assert home.dreamd("dream", workspace.root).status == 0
            page.goto(home.dreamd("open", workspace.root, "--print", **NO_SCREEN).out.strip())
            stays(page)
            page.get_by_role("heading", name="All is well").wait_for()
        page.locator("#gone").wait_for(timeout=3_000)
        page.fill("#note-text", SHORT)
        page.get_by_role("button", name="Note it").click()
        page.locator("#note-form.not-sent").wait_for()
        page.locator("#gone", has_text="1 not sent").wait_for()
        with home.serving():
            page.locator("#gone").wait_for(state="hidden")
            said(page, "Noted.")
            assert page.locator(".not-sent").count() == 0
            until(lambda: SHORT in lived.pending(workspace))
            assert has_stayed(page)
        assert seen.errors == []


@pytest.mark.full
def test_a_page_that_is_open_asks_nothing_while_nothing_happens(home: Home) -> None:
    workspace = home.workspace()
    home.with_port()
    home.tick_seconds = 0.3
    with home.serving() as daemon:
        noted(workspace, repairs(1))
        daemon.until(lambda: daemon.status(workspace).pending.notes == 1)
        with window(home, workspace) as seen:
            seen.page.wait_for_timeout(700)  # what has just happened is told late
            before = len(seen.requests)
            seen.page.wait_for_timeout(700)  # the daemon looks after everything twice meanwhile
            assert seen.requests[before:] == []
            noted(workspace, ["The fence of house 8 was painted"])
            seen.page.locator(".strip", has_text="2 notes").wait_for()
