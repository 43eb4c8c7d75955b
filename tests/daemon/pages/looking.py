"""A real browser before the window of a server in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.daemon.http.running import Running
from tests.daemon.pages.browser import link
from tests.support.browser import Seen, browser_page


@contextmanager
def looking(server: Running, **context: Any) -> Iterator[Seen]:
    """A page that is logged in; `context` are options of the browser's."""
    with browser_page(base_url=f"http://127.0.0.1:{server.port}", **context) as seen:
        seen.page.goto(link(server))
        yield seen
