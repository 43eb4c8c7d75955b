"""A workspace full of hostile texts, through every page: each is shown as it stands, and nothing is born of it."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from daemon.pages.views import PAGES
from tests.daemon.http.running import Answer
from tests.daemon.pages.browser import EVERY, HTMX, Browser, followed, looking, windowed
from tests.daemon.pages.parsed import Parsed, strangers
from tests.support.browser import assert_quiet, born
from tests.support.hostile_texts import ALL, BY_NAME, HostileText
from tests.support.hostile_workspace import copied, hostile_workspace

# Of a page, even where every text is as long as it may be.
_MOST_BYTES = 400_000
_FEW = tuple(ALL[::40])
# A page of a line takes as long as ten others.
_MOST_OF_A_PAGE = 100
_ONE_LINE, _CHANGES, _LISTS = {"line", "crystal"}, {"today"}, {"memory", "dreams"}
# Each shows every text; together they open every page.
_PARTS = {"lines": _ONE_LINE | _LISTS, "changes": _CHANGES, "others": {*EVERY} - _ONE_LINE - _CHANGES}


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser in a workspace full of these texts."""

    browser: Browser
    name: str
    texts: tuple[HostileText, ...]
    root: Path


@pytest.fixture(scope="module", params=[_FEW, pytest.param(ALL, marks=pytest.mark.full)], ids=["few", "all"])
def visit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    folder = tmp_path_factory.mktemp("hostile")
    workspace = copied(hostile_workspace(folder / "made", request.param), folder / "copy")
    with windowed(folder) as browser:
        name = browser.server.house.register(workspace.root)
        yield Visit(browser, name, tuple(request.param), workspace.root)


def is_html(answer: Answer) -> bool:
    return answer.headers["Content-Type"] == "text/html; charset=utf-8"


def is_json(answer: Answer) -> bool:
    """And no browser takes it for something else."""
    return (
        answer.headers["Content-Type"] == "application/json" and answer.headers["X-Content-Type-Options"] == "nosniff"
    )


@pytest.mark.parametrize(
    ("visit", "pages"),
    [
        pytest.param(_FEW, EVERY, id="few"),
        *(pytest.param(ALL, pages, id=f"all-{name}", marks=pytest.mark.full) for name, pages in _PARTS.items()),
    ],
    indirect=["visit"],
)
def test_on_every_page_each_text_is_text_and_stands_somewhere(visit: Visit, pages: Collection[str]) -> None:
    """Every page is opened, and links are followed to these."""
    shown, opened, large = set[str](), set[str](), dict[str, int]()
    most = min(_MOST_OF_A_PAGE, 3 * len(visit.texts))
    for address, answer in followed(visit.browser, visit.name, most, pages):
        html = answer.body.decode()
        assert answer.status in {200, 400, 404, 422}, (address, html)
        assert is_html(answer), address
        assert strangers(html, visit.name) == [], address
        shown |= set(re.findall(r"mark-\d{4}", Parsed(html).text))
        name = address.partition("?")[0].rpartition("/")[2]
        opened.add(name if answer.status == 200 else "")
        if len(answer.body) > _MOST_BYTES:
            large[address] = len(answer.body)
    assert {one.mark for one in visit.texts} - shown == set()
    assert set(pages) <= opened - {""} <= set(EVERY)
    assert large == {}


@pytest.mark.full
def test_a_part_of_a_page_for_htmx_is_as_harmless(visit: Visit) -> None:
    for address, whole in followed(visit.browser, visit.name, most=5):
        answer = visit.browser.get(address, HTMX)
        assert answer.status == whole.status, address
        assert strangers(answer.body.decode(), visit.name) == [], address
        assert b"<html" not in answer.body
        as_json = visit.browser.get(address.replace("?", ".json?") if "?" in address else f"{address}.json")
        assert is_json(as_json), address


@pytest.mark.full
def test_a_field_of_an_address_may_hold_anything(visit: Visit) -> None:
    few = _FEW[:: 1 if len(visit.texts) > len(_FEW) else 4]
    for name in EVERY:
        for field in PAGES[name].query.model_fields:
            for one in (*few, BY_NAME["large-one-word"]):
                answer = visit.browser.get(f"/w/{visit.name}/{name}?{field}={quote(one.label, errors='replace')}")
                assert answer.status in {200, 400, 404, 422}, (name, field, answer.body)
                assert strangers(answer.body.decode(), visit.name) == [], (name, field, one.name)


@pytest.mark.parametrize("place", ["/w/{}/today", "/w/NAME/{}", "/w/NAME/memory/{}", "/login/{}", "/{}"])
def test_an_address_that_is_none_is_an_error_without_it(visit: Visit, place: str) -> None:
    for one in _FEW:
        path = place.format(quote(one.label, safe="", errors="replace")).replace("NAME", visit.name)
        for headers in ({}, HTMX):
            answer = visit.browser.get(path, headers)
            assert 400 <= answer.status < 500, (path, answer.body)
            assert is_json(answer) or strangers(answer.body.decode(), visit.name) == [], path


@pytest.mark.full
def test_in_a_real_browser_nothing_of_them_comes_alive(visit: Visit) -> None:
    addresses = [address for address, answer in followed(visit.browser, visit.name, most=2) if answer.status == 200]
    with looking(visit.browser.server) as seen:
        for address in addresses:
            seen.page.goto(address, wait_until="domcontentloaded")
            assert born(seen) == [], address
        assert_quiet(seen)


@pytest.mark.full
@pytest.mark.parametrize("visit", [_FEW], indirect=True, ids=["few"])
@pytest.mark.parametrize("chosen", _FEW[:: len(_FEW) // 2], ids=lambda one: str(one.name))
def test_what_an_act_says_again_stays_text(visit: Visit, chosen: HostileText) -> None:
    """A line is written, looked at beside the page and said to be wrong, each time in the words of an attacker."""
    with looking(visit.browser.server) as seen:
        page = seen.page
        page.goto(f"/w/{visit.name}/memory")
        page.locator("a.line-text").first.click()
        page.locator("#beside summary", has_text="Edit").click()
        page.fill("#line-edit", f"{chosen.short(400)} stood at the harbour of Bremen before 1874")
        page.click("#beside button:has-text('Save')")
        page.wait_for_selector("#said .done")
        assert born(seen) == []
        page.locator("a.line-text", has_text="harbour of Bremen").first.click()
        page.wait_for_selector("#beside h1")
        assert chosen.mark in page.inner_text("#beside")
        assert born(seen) == []
        page.locator("#said button").click()
        page.locator("#said", has_text="Undone").wait_for()
        page.goto(f"/w/{visit.name}/memory")
        page.get_by_role("searchbox").fill(chosen.label)
        page.keyboard.press("Enter")
        page.wait_for_url("**/memory?**")
        assert chosen.mark in page.inner_text("#main")
        assert born(seen) == []
        page.goto(f"/w/{visit.name}/wrong")
        page.fill("#text", chosen.text)
        page.get_by_role("button", name="Erase every trace…").click()
        page.get_by_role("heading", name="What goes").wait_for()
        assert chosen.mark in page.inner_text("#main")
        assert born(seen) == []
        for address in (f"/w/{visit.name}/line?id={quote(chosen.label)}", f"/w/{visit.name}/{quote(chosen.label)}"):
            page.goto(address)
            assert born(seen) == []
        # The browser says of its own that a page was not there.
        seen.console = [one for one in seen.console if "Failed to load resource" not in one]
        assert_quiet(seen)
