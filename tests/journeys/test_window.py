"""The window in a real browser before a real daemon: review, watch, search, restore, forget."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Route

from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.browser import Seen, assert_quiet, browser_page
from tests.support.forgettable import assert_gone
from tests.support.model_characters import good_when
from tests.support.scripted_model import ScriptedModel
from tests.support.serving import Home, noted, repairs, until

TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
SHORT, LONG = "Ada likes short answers of one line", "Ada likes short answers of three lines"
WRONG = "The staging server listens on port 8080"
SECRET = "the launch crew of project Falconer is 7731 blue"
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
    page.wait_for_function("document.querySelector('form.htmx-request') === null")


@pytest.mark.full
def test_a_batch_is_reviewed_by_keyboard_alone_and_memory_md_changes(home: Home) -> None:
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
            tabbed_to(page, "Review 2")
            pressed(page, "Enter")
            page.wait_for_url("**/review")
            stays(page)
            pressed(page, "?")
            assert page.locator("dialog[open]").count() == 1
            pressed(page, "Escape", "j", "j", "k")
            assert page.evaluate("document.activeElement.id") == "proposal-1"
            pressed(page, "r")
            said(page, "1 proposal declined: 1")
            assert lived.lines(workspace) == before
            assert page.locator("[id^=proposal-]").count() == 1
            while page.evaluate("document.activeElement.id") != "proposal-2":
                pressed(page, "j")
            pressed(page, "a")
            said(page, "1 proposal accepted")
            assert page.locator("[id^=proposal-]").count() == 0
            assert len({TEA, SHORT} & set(lived.lines(workspace))) == 1
            pressed(page, "u")
            said(page, "MEMORY.md is as it was")
            assert lived.lines(workspace) == before
            assert has_stayed(page)
    lived.assert_valid(workspace)


@pytest.mark.full
def test_a_dream_is_watched_as_it_runs(home: Home) -> None:
    workspace, answered = home.workspace(), threading.Event()
    noted(workspace, repairs(3))
    home.with_port()
    with ScriptedModel(good_when(answered)) as model:
        home.asks(model)
        with home.serving() as daemon, window(home, workspace) as seen:
            page = seen.page
            stays(page)
            page.locator("#main").get_by_role("button", name="Dream now").click()
            page.locator("#main .live", has_text="a dream runs now").wait_for()
            page.locator("#frame .live", has_text="a dream runs now").wait_for()
            assert has_stayed(page)
            page.locator("#main dd", has_text="running").get_by_role("link").first.click()
            page.get_by_role("heading", name="Dream of").wait_for()
            stays(page)
            daemon.until(lambda: model.count == 1)
            page.locator("tbody tr", has_text="gather").wait_for()
            assert page.locator("tbody tr", has_text="synthesize").count() == 0
            answered.set()
            page.locator("tbody tr", has_text="commit").wait_for()
            page.locator("dd .chip", has_text="committed").wait_for()
            assert page.locator("[data-item=review]", has_text=repairs(1)[0]).count() == 1
            page.locator("#frame .state", has_text="version 1").wait_for()
            assert has_stayed(page)
    assert set(repairs(3)) <= set(lived.lines(workspace))


@pytest.mark.full
def test_a_search_leads_to_where_a_line_comes_from_and_an_earlier_version_comes_back(home: Home) -> None:
    workspace = home.workspace()
    home.with_port()
    with home.serving():
        for notes in ([WRONG, *repairs(2)], ["The fence of house 8 was painted"]):
            noted(workspace, notes)
            assert home.dreamd("dream", workspace.root).status == 0
        assert "The fence of house 8 was painted" in lived.lines(workspace)
        with window(home, workspace) as seen:
            page = seen.page
            went_to(page, "Search")
            page.get_by_role("searchbox").fill("which port does the staging server listen on")
            pressed(page, "Enter")
            page.wait_for_url("**/search?*")
            page.locator("[data-item=hit]", has_text=WRONG).first.wait_for()
            pressed(page, "j", "Enter")
            page.locator("#beside", has_text=WRONG).wait_for()
            line = page.locator("#beside a[href*='line?id=']").first
            line.click()
            page.get_by_text("What changed it").wait_for()
            page.locator("article a[href*='dream?version=']").first.click()
            page.get_by_role("heading", name="Dream of").wait_for()
            page.get_by_role("button", name="Restore version 1").click()
            said(page, "MEMORY.md is as it was in version 1")
            assert "The fence of house 8 was painted" not in lived.lines(workspace)
            assert WRONG in lived.lines(workspace)
            pressed(page, "u")
            said(page, "MEMORY.md is as it was in version 2")
            assert "The fence of house 8 was painted" in lived.lines(workspace)
    lived.assert_valid(workspace)


@pytest.mark.full
def test_what_is_forgotten_is_nowhere_and_never_was_in_an_address(home: Home) -> None:
    workspace = home.workspace()
    home.with_port()
    visited = list[str]()
    with home.serving() as daemon:
        noted(workspace, [f"Remember that {SECRET}", *repairs(2)])
        assert home.dreamd("dream", workspace.root).status == 0
        noted(workspace, [f"It waits: {SECRET}"])
        with window(home, workspace) as seen:
            page = seen.page
            page.on("framenavigated", lambda frame: visited.append(frame.url))
            went_to(page, "Forget")
            page.fill("#text", SECRET)
            page.get_by_role("button", name="Show what would go").click()
            page.get_by_role("heading", name="What would go").wait_for()
            assert page.locator("#main li", has_text=SECRET).count() > 0
            # It asks first; the browser of this test says no, and nothing goes.
            page.get_by_role("button", name="Erase this").click()
            until(lambda: seen.dialogs)
            assert seen.dialogs == ["confirm: Erase this? It cannot be brought back."]
            seen.dialogs.clear()
            assert any(SECRET in line for line in lived.lines(workspace))
            page.evaluate("window.confirm = () => true")
            page.get_by_role("button", name="Erase this").click()
            said(page, "It is forgotten: nothing of it is left.")
            page.get_by_role("heading", name="Receipt").wait_for()
            assert page.get_by_text("nothing is left").count() == 1
            assert "Falconer" not in page.content()
            went_to(page, "Dreams")
            page.get_by_role("link", name="What was done in this window").click()
            page.locator("tr", has_text="forget: erase").wait_for()
            assert "Falconer" not in page.content()
        assert_gone(workspace, SECRET)
        assert "Falconer" not in daemon.log
    assert len(visited) >= 2
    assert [url for url in (*visited, *seen.requests) if "Falconer" in url] == []
    assert set(repairs(2)) <= set(lived.lines(workspace))
    assert_gone(workspace, SECRET)


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
            seen.page.locator("dd", has_text="2, the oldest").wait_for()
