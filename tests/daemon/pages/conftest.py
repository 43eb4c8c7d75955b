"""One server with pages for the tests of a module, and a browser that is logged in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.http.logins import Logins
from daemon.pages.window import PageWindow
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running
from tests.daemon.pages.browser import Browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with pages over a house without workspaces."""
    window = PageWindow(Logins(tmp_path_factory.mktemp("state") / "logins.json", TOKEN))
    with running(OwnHouse(), window=window) as server:
        yield server


@pytest.fixture
def name(served: Running, tmp_path: Path) -> str:
    """A new workspace of that house."""
    return served.house.make(tmp_path / "memory")


@pytest.fixture
def browser(served: Running) -> Browser:
    """A browser that is logged in."""
    browser = Browser(served)
    browser.log_in()
    return browser
