"""The page Memory by somebody who has not built it: what it knows about me, and what was true on 5 November."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page

from state.stores.database.moments import to_text
from state.stores.disk.workspace import Workspace
from tests.journeys.test_window import has_stayed, pressed, stays, went_to, window
from tests.support import lived
from tests.support.browser import Seen
from tests.support.serving import Home, noted

FENCE, WELL, BELL = "The fence of house 8 is blue", "The well of house 3 is dry", "The bell of house 5 rings"
TODAY = datetime.now(UTC).date()
# Where each line begins and ends, and whether it is one of the widest.
_EDGES = """() => [...document.querySelectorAll('#lines .lines > li')].filter(one => one.checkVisibility())
    .map(one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"""


@contextmanager
def remembering(home: Home) -> Iterator[tuple[Workspace, Seen]]:
    """A window on three lines; that of the fence is from ten days ago, and left four days ago."""
    workspace = home.workspace()
    for texts in ([FENCE, WELL], [BELL]):
        noted(workspace, texts)
        assert home.dreamd("dream", workspace.root).status == 0
    written = workspace.document.read_text(encoding="utf-8")
    workspace.document.write_text(written.replace(f"- {FENCE}\n", ""), encoding="utf-8")
    noted(workspace, ["The lamp of house 2 is lit"])
    assert home.dreamd("dream", workspace.root).status == 0
    with closing(sqlite3.connect(workspace.database)) as database, database:
        for number, days in ((1, 10), (2, 6), (3, 4)):
            at = to_text(datetime.now(UTC) - timedelta(days=days))
            database.execute("UPDATE versions SET at = ? WHERE number = ?", (at, number))
            database.execute("UPDATE lines SET born_at = ? WHERE born_in = ?", (at, number))
    home.with_port()
    with home.serving(), window(home, workspace) as seen:
        yield workspace, seen
    lived.assert_valid(workspace)


def lines_of(page: Page) -> list[str]:
    return [one.split("\n")[0] for one in page.locator("#lines .lines > li:visible .line-text").all_inner_texts()]


@pytest.mark.full
def test_what_it_knows_about_me_is_one_click_and_one_column(home: Home) -> None:
    with remembering(home) as (workspace, seen):
        page = seen.page
        went_to(page, "Memory")
        stays(page)
        assert {WELL, BELL} < set(lines_of(page))
        assert len({tuple(edges) for edges in page.evaluate(_EDGES)}) == 1
        field = page.get_by_role("searchbox")
        field.press_sequentially("bell HOUSE")
        assert lines_of(page) == [BELL]
        page.get_by_text("1 of 3 lines").wait_for()
        # What is filtered stays so when the page hears of a change; keys go to what is shown.
        noted_elsewhere(home, workspace, page)
        assert lines_of(page) == [BELL]
        pressed(page, "Tab", "j", "Enter")
        page.locator("#beside", has_text=BELL).wait_for()
        assert has_stayed(page)
        field.press("Enter")
        page.wait_for_url("**/memory?query=bell+HOUSE")
        page.get_by_role("heading", name="In MEMORY.md").wait_for()
        assert page.get_by_role("searchbox").input_value() == "bell HOUSE"
        assert page.locator("[data-item=hit] .line-text").first.inner_text() == BELL


def noted_elsewhere(home: Home, workspace: Workspace, page: Page) -> None:
    """Have the agent note something, and wait until the page has asked again."""
    with page.expect_response(lambda answer: "/memory" in answer.url):
        assert home.dreamd("note", "The gate of house 9 is open", "-w", workspace.root).status == 0
    page.wait_for_function("() => document.querySelector('.htmx-request') === null")


@pytest.mark.full
def test_what_was_true_on_a_day_is_a_click_and_a_slider(home: Home) -> None:
    with remembering(home) as (_, seen):
        page = seen.page
        went_to(page, "Memory")
        assert FENCE not in lines_of(page)
        slider = page.get_by_role("slider")
        assert slider.get_attribute("max") == "10"
        slider.fill("3")
        day = TODAY - timedelta(days=7)
        page.wait_for_url(f"**/memory?as_of={day}#as-of")
        assert {FENCE, WELL, BELL} < set(lines_of(page))
        assert page.locator("#lines li", has_text=FENCE).inner_text().endswith("gone since")
        assert BELL in page.locator("li.later .line-text").all_inner_texts()
        # The slider has the focus again: from here on the arrows go through the days.
        page.wait_for_function("() => document.activeElement.id === 'as-of'")
        pressed(page, "ArrowLeft")
        page.wait_for_url(f"**/memory?as_of={day - timedelta(days=1)}#as-of")
        page.get_by_role("link", name="all lines of today").click()
        page.wait_for_url("**/memory")
        assert FENCE not in lines_of(page)
