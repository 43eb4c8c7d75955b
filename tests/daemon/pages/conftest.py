"""One server with pages for the tests of a module, a browser that is logged in, and somebody who asks operations."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from daemon.api.operations.dreams import acts
from daemon.api.operations.operation import AnyOperation
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, windowed

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
