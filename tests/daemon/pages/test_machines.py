"""The page Fleet: what `dreamd fleet status` says, where the configuration names a fleet, and nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.fleet.connections import read_status
from state.budget import Spend
from state.fleet import Place
from state.stores.fleet.leases import Leases
from tests.daemon.fleet.upkeep.conftest import fleet  # noqa: F401 - a fixture
from tests.daemon.fleet.upkeep.kept import Kept
from tests.daemon.pages.browser import Browser, looking, text_of, windowed
from tests.support.browser import assert_quiet, axe

HOSTILE = "<script>alert(1)</script> the model said \u202e no"


@pytest.fixture
def browser(fleet: Kept, tmp_path: Path) -> Iterator[Browser]:  # noqa: F811 - the fixture
    with windowed(tmp_path, machines=lambda: read_status(fleet.config())) as browser:
        yield browser


def failing(fleet: Kept) -> Place:  # noqa: F811
    place = fleet.place(fleet.tenant("acme"), "notes")
    fleet.commit(place, "a secret of a tenant", spent=Spend(1, 1_234, 0.25))
    fleet.note(place, "another secret")
    Leases(fleet.database).settle_failed(place.id, HOSTILE)
    return place


def test_it_shows_the_status_and_no_word_of_a_tenant(fleet: Kept, browser: Browser) -> None:  # noqa: F811
    fleet.live()
    failing(fleet)
    fleet.database.rows("UPDATE workspaces SET failed_at = failed_at - interval '5 minutes'")
    page = browser.get("/machines")
    text = text_of(page)
    for shown in (
        "Fleet",
        "1 workspace fails",
        "5 min ago mend what it says",
        "alive",
        "acme/notes",
        "1,234",
        "http://127.0.0.1:1",
        "the model said",
    ):
        assert shown in text
    assert b"<script>alert" not in page.body
    assert "secret" not in text
    assert fleet.url.encode() not in page.body  # its password
    part = browser.get("/machines", {"HX-Request": "true"})
    assert b"<!doctype" not in part.body
    assert browser.get("/machines.json").json["fleet"]["counts"]["failing"] == 1


@pytest.mark.full
def test_it_is_for_everybody_on_a_wide_and_on_a_narrow_screen(fleet: Kept, browser: Browser) -> None:  # noqa: F811
    fleet.live()
    failing(fleet)
    for width, scheme in ((1280, "light"), (360, "dark")):
        with looking(browser.server, viewport={"width": width, "height": 900}, color_scheme=scheme) as seen:
            seen.page.goto("/machines")
            seen.page.get_by_text("acme/notes").first.wait_for()
            assert axe(seen) == []
            assert seen.page.evaluate("document.scrollingElement.scrollWidth") <= width
            assert_quiet(seen)


def test_while_postgresql_is_away_the_page_says_so(fleet: Kept, browser: Browser) -> None:  # noqa: F811
    assert browser.get("/machines").status == 200
    fleet.database.rows("ALTER SCHEMA dreamd RENAME TO elsewhere")
    answer = browser.get("/machines")
    assert (answer.status, "dreamd migrate" in text_of(answer)) == (400, True)
    fleet.database.rows("ALTER SCHEMA elsewhere RENAME TO dreamd")
    assert browser.get("/machines").status == 200


def test_without_a_fleet_there_is_no_such_page_and_no_way_to_it(tmp_path: Path) -> None:
    with windowed(tmp_path) as browser:
        name = browser.server.house.make(tmp_path / "memory")
        assert browser.get("/machines").status == 404
        for path in ("/", f"/w/{name}/today"):
            assert b"machines" not in browser.get(path).body
