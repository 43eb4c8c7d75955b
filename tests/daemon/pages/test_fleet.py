"""Every workspace in one table: those that want somebody first, a page at a time."""

from pathlib import Path

import pytest

from daemon.http.logins import Logins
from daemon.pages.render import MOST_WORKSPACES
from daemon.pages.window import PageWindow
from daemon.workspace.adoption import open_workspace
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, running
from tests.daemon.pages.browser import Browser, text_of


def test_a_browser_without_a_workspace_is_told_how_to_make_one(tmp_path: Path) -> None:
    with running(OwnHouse(), window=PageWindow(Logins(tmp_path / "logins.json", TOKEN))) as server:
        browser = Browser(server)
        browser.log_in()
        assert "dreamd init DIR" in text_of(browser.get("/"))
        for wrong in ("/?start=-1", "/?start=x", "/?more=1"):
            assert browser.get(wrong).status == 422


def test_many_are_shown_a_page_at_a_time_and_what_is_wrong_comes_first(tmp_path: Path) -> None:
    house = OwnHouse()
    names = [house.make(tmp_path / f"agent-{number:03}") for number in range(MOST_WORKSPACES + 5)]
    last = tmp_path / f"agent-{MOST_WORKSPACES + 4:03}"
    open_workspace(last).state.chmod(0o755)
    with running(house, window=PageWindow(Logins(tmp_path / "logins.json", TOKEN))) as server:
        browser = Browser(server)
        browser.log_in()
        first, second = browser.get("/"), browser.get(f"/?start={MOST_WORKSPACES}")
        shown = [[name for name in names if f"/w/{name}/now" in page.body.decode()] for page in (first, second)]
        assert sorted(shown[0] + shown[1]) == sorted(names)
        assert len(shown[1]) == 5
        assert names[-1] in shown[0]
        assert "is open to other users" in text_of(first)
        assert len(first.body) < 60 * 1024
        assert len(browser.get("/fleet.json").json["status"]["workspaces"]) == len(names)


@pytest.mark.parametrize("path", ["/w/nobody-000000000000/now", "/w/nobody-000000000000/events"])
def test_a_workspace_that_the_daemon_does_not_keep_is_not_found(tmp_path: Path, path: str) -> None:
    with running(OwnHouse(), window=PageWindow(Logins(tmp_path / "logins.json", TOKEN))) as server:
        browser = Browser(server)
        browser.log_in()
        assert browser.get(path).status == 404
