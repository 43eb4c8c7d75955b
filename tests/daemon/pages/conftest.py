"""One server with pages for the tests of a module, a browser that is logged in, and somebody who asks operations."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from daemon.api.operations.dreams import acts
from daemon.api.operations.operation import AnyOperation
from daemon.config.settings import DreamSection
from tests.daemon.http.running import Answer, Running
from tests.daemon.pages.browser import HTMX, Browser, windowed
from tests.daemon.pages.lives import ASKING, changed_by_a_model
from tests.support.keeping import copied

WAYS = pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks operations of one workspace, as its owner or an agent does elsewhere."""

    served: Running
    name: str

    def __call__(self, operation: AnyOperation, *args: Any, **fields: Any) -> Any:
        with self.served.house.open(self.name, lambda _: None) as access:
            return access.run(operation, operation.bind(*args, **fields))

    @property
    def root(self) -> Path:
        return self.served.house.roots[self.name]

    @property
    def document(self) -> str:
        file = self.root / "MEMORY.md"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def write(self, text: str) -> None:
        (self.root / "MEMORY.md").write_text(text, encoding="utf-8")

    @property
    def ledger(self) -> list[tuple[str, str, str]]:
        """What people did in the window, the latest first."""
        return [(one.act, one.about, one.outcome) for one in self(acts).acts]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with pages over a house without workspaces."""
    with windowed(tmp_path_factory.mktemp("state")) as browser:
        yield browser.server


@pytest.fixture
def ask(served: Running, name: str) -> Asking:
    return Asking(served, name)


@pytest.fixture
def browser(served: Running) -> Browser:
    """A browser that is logged in."""
    browser = Browser(served)
    browser.log_in()
    return browser


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A workspace in which two changes wait, and one in which they have applied."""
    folder = tmp_path_factory.mktemp("built")
    rules = {"waits": ASKING, "applied": DreamSection()}
    return {name: changed_by_a_model(folder / name, rule) for name, rule in rules.items()}


@pytest.fixture
def waits(served: Running, built: dict[str, Path], tmp_path: Path) -> Asking:
    return Asking(served, served.house.register(copied(built["waits"], tmp_path / "waits")))


@pytest.fixture
def applied(served: Running, built: dict[str, Path], tmp_path: Path) -> Asking:
    return Asking(served, served.house.register(copied(built["applied"], tmp_path / "applied")))


def act(browser: Browser, ask: Asking, path: str, headers: dict[str, str] | None = None, **fields: object) -> Answer:
    return browser.act(f"/w/{ask.name}/{path}", fields, HTMX if headers is None else headers)


def undone(browser: Browser, ask: Asking, done: Answer, headers: dict[str, str] | None = None) -> Answer:
    """Press Undo where the act said what it did."""
    if done.status == 303:
        done = browser.get(done.headers["Location"])
    said = done.body.decode().partition('class="done"')[2].partition("</div>")[0]
    form = said.rpartition("<form")[2]  # after an undo it is the one for the act before
    found = [(key, unescape(one)) for key, one in re.findall(r'name="([^"]+)" value="([^"]*)"', form)]
    (path,) = re.findall(r' action="([^"]+)"', form)
    fields: dict[str, object] = {
        key: [one for name, one in found if name == key] for key, _ in found if key != "csrf"
    }
    return browser.act(path, fields, HTMX if headers is None else headers)


def at(browser: Browser, ask: Asking, page: str) -> dict[str, str]:
    """The headers that htmx sends from this page."""
    return {**HTMX, "HX-Current-URL": f"{browser.origin}/w/{ask.name}/{page}"}
