"""Every page for everybody: what axe-core says of it, the keyboard alone, a narrow screen, and nothing that jumps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Response, ViewportSize

from daemon.config.settings import Config, DreamSection
from daemon.dream.proposals import open_proposals
from daemon.journal.story import latest_entries
from daemon.workspace.stores import open_readonly
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import followed, looking, windowed
from tests.daemon.pages.lives import COFFEE, TEA, dreamt
from tests.support.browser import Seen, assert_quiet, axe
from tests.support.forgettable import lived
from tests.support.revising import revises

OLD_PORT, NEW_PORT = "The staging server listens on port 8080", "The staging server listens on port 9090"
# Of what web.dev calls good; above 0.25 is poor.
_MOST_SHIFT = 0.1
_NARROW, _WIDE = ViewportSize(width=360, height=740), ViewportSize(width=1280, height=900)
_WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => {
    for (const one of list.getEntries()) if (!one.hadRecentInput)
        window.shifts.push([one.value, ...one.sources.map(source => source.node?.outerHTML?.slice(0, 99) ?? 'text')]);
}).observe({type: 'layout-shift', buffered: true});
"""
_SETTLED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 150)))"
# What a mouse can press; of radio buttons the tabulator comes to the chosen one, and arrows to the others.
_PRESSABLE = """() => {
    const inputs = 'input:not([type=hidden], [type=radio]:not(:checked))';
    window.pressable = [...document.querySelectorAll(
        `a[href], button, ${inputs}, select, textarea, summary, [data-item]`)]
        .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.disabled);
    return window.pressable.length;
}"""
_FOCUSED = "() => window.pressable.indexOf(document.activeElement)"
_CALLED = "number => window.pressable[number].outerHTML.slice(0, 200)"
_WIDER = """() => document.scrollingElement.scrollWidth <= document.documentElement.clientWidth ? [] :
    [...document.querySelectorAll('body *')].filter(one =>
        one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
        && !one.closest('.table, nav ul, pre')).map(one => one.outerHTML.slice(0, 160))"""


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace that the server keeps, and the addresses of its pages, some of each."""

    server: Running
    name: str
    root: Path
    addresses: list[str] = field(default_factory=list)


def ordinary(folder: Path) -> Path:
    """A workspace that has been through much, in which changes wait and others applied."""
    workspace = lived(folder, "the spare key of the cellar hangs behind the door")
    dreamt(workspace, "The well of house 3 is dry")
    with revises({COFFEE: TEA, NEW_PORT: OLD_PORT}):
        for notes in ((TEA, OLD_PORT), (COFFEE, NEW_PORT)):
            dreamt(workspace, *notes, rules=DreamSection())
    with open_readonly(workspace, Config()) as store:
        assert open_proposals(store)
        assert latest_entries(store, 1)[0].undoable
    return workspace.root


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    folder = tmp_path_factory.mktemp("accessible")
    root = ordinary(folder / "memory")
    with windowed(folder) as browser:
        server, found = browser.server, {}
        for kind, name in (("ordinary", server.house.register(root)), ("empty", server.house.make(folder / "empty"))):
            pages = followed(browser, name, most=1)
            addresses = [one for one, answer in pages if answer.status == 200 and "/frame" not in one]
            found[kind] = Place(server, name, server.house.roots[name], ["/", *addresses])
        yield found


def opened(seen: Seen, address: str) -> None:
    seen.page.goto(address)
    seen.page.evaluate(_SETTLED)


KINDS = pytest.mark.parametrize("kind", ["ordinary", "empty"])
FULL = pytest.mark.full


@FULL
@KINDS
def test_every_page_is_for_everybody(places: dict[str, Place], kind: str) -> None:
    found = {}
    with looking(places[kind].server, color_scheme="light") as seen:
        for address in places[kind].addresses:
            seen.page.set_viewport_size(_WIDE)
            opened(seen, address)
            found[address] = [*axe(seen), *unreached(seen)]
            seen.page.emulate_media(color_scheme="dark")
            seen.page.set_viewport_size(_NARROW)
            found[address] += [*axe(seen), *wider(seen)]
            seen.page.emulate_media(color_scheme="light")
        assert_quiet(seen)
    assert {address: said for address, said in found.items() if said} == {}


@FULL
@pytest.mark.parametrize("viewport", [_WIDE, _NARROW], ids=["wide", "narrow"])
def test_nothing_jumps_while_a_page_loads_and_when_something_changes(
    places: dict[str, Place], viewport: ViewportSize
) -> None:
    place, found = places["ordinary"], {}
    with looking(place.server, viewport=viewport) as seen:
        seen.page.add_init_script(_WATCH_SHIFTS)
        for number, address in enumerate(place.addresses):
            opened(seen, address)
            with seen.page.expect_response(is_for_htmx), (place.root / "MEMORY.md").open("a") as document:
                document.write(f"\n- The lamp of house {number} is new\n")
                document.flush()
            seen.page.wait_for_timeout(300)
            found[address] = seen.page.evaluate("window.shifts")
        assert_quiet(seen)
    assert {one: shifts for one, shifts in found.items() if sum(shift[0] for shift in shifts) > _MOST_SHIFT} == {}


def test_who_wants_no_motion_sees_none(places: dict[str, Place]) -> None:
    place = places["ordinary"]
    with looking(place.server, reduced_motion="reduce") as seen:
        opened(seen, f"/w/{place.name}/today")
        moving = "[...document.querySelectorAll('*')].filter(one => one.getAnimations().length).length"
        assert seen.page.evaluate(moving) == 0


def is_for_htmx(answer: Response) -> bool:
    return answer.request.headers.get("hx-request") == "true"


def unreached(seen: Seen) -> list[str]:
    """What a mouse can press and the tabulator does not come to."""
    count = seen.page.evaluate(_PRESSABLE)
    left = set(range(count))
    for _ in range(2 * count + 20):  # what scrolls is come to as well
        if not left:
            break
        seen.page.keyboard.press("Tab")
        left.discard(seen.page.evaluate(_FOCUSED))
    return [seen.page.evaluate(_CALLED, number) for number in sorted(left)]


def wider(seen: Seen) -> list[str]:
    """What stands out of the screen to the right."""
    found: list[str] = seen.page.evaluate(_WIDER)
    return found
