"""A browser without a screen or scripts: cookies, forms, the headers that browsers send by themselves, and links.

`looking` is a real one before the same server.
"""

import http.client
import re
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from daemon.http.logins import Logins
from daemon.pages.views import PAGES
from daemon.pages.window import PageWindow
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Answer, Running, asked, running
from tests.daemon.pages.parsed import Parsed
from tests.support.browser import Seen, browser_page

HTMX = {"HX-Request": "true"}
EVERY = tuple(PAGES)


@dataclass(slots=True)
class Browser:
    """A browser at the port of this server; `log_in` gives it a session."""

    server: Running
    cookie: str = ""
    sent: Mapping[str, str] = field(default_factory=lambda: {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"})

    def log_in(self, workspace: str = "") -> Answer:
        """By a link, as `dreamd open` gets it at the socket."""
        answer = self.get(link(self.server, workspace))
        assert answer.status == 303, answer.body
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self._ask("GET", path, b"", headers or {})

    def head(self, path: str) -> Answer:
        return self._ask("HEAD", path, b"", {})

    def post(self, path: str, fields: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Answer:
        """A form as it is, with the Origin that a browser adds."""
        body = urlencode(fields, doseq=True).encode()
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.origin}
        return self._ask("POST", path, body, {**form, **(headers or {})})

    def act(self, path: str, fields: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Answer:
        """A form of a page of ours: with what the page's forms show that they are."""
        return self.post(path, {"csrf": self.csrf(), **fields}, headers)

    def csrf(self) -> str:
        found = re.search(rb'name="csrf" value="([0-9a-f]+)"', self.get("/").body)
        assert found, "no form on the first page"
        return str(found[1], "ascii")

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        every = {**self.sent, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=300)
        return asked(connection, method, path, None, body or None, {name: one for name, one in every.items() if one})


@contextmanager
def windowed(folder: Path, house: OwnHouse | None = None, machines: Any = None) -> Iterator[Browser]:
    """A browser that is logged in at a server with pages, whose logins are kept in this folder."""
    window = PageWindow(Logins(folder / "logins.json", TOKEN), machines)
    with running(house or OwnHouse(), window=window) as server:
        browser = Browser(server)
        browser.log_in()
        yield browser


def link(server: Running, workspace: str = "") -> str:
    """The path of a new link."""
    return str(urlsplit(server.ask_socket("POST", "/v1/login", {"workspace": workspace}).json["url"]).path)


def text_of(answer: Answer) -> str:
    """What a person reads, its spaces as one."""
    return " ".join(" ".join(Parsed(answer.body.decode()).texts).split())


def fields_of(answer: Answer, action: str) -> list[dict[str, str]]:
    """The hidden fields of each form that is sent to this path."""
    forms = re.findall(rf'<form[^>]*action="{re.escape(action)}".*?</form>', answer.body.decode(), re.DOTALL)
    named = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')
    return [{name: unescape(value) for name, value in named.findall(form)} for form in forms]


def followed(
    browser: Browser, name: str, most: int = 10_000, pages: Collection[str] = EVERY
) -> Iterator[tuple[str, Answer]]:
    """Each address with its page, every page's own one first; `most` of a page. Links are followed to these pages."""
    waiting = deque(f"/w/{name}/{page}" for page in EVERY)
    known, counts = set(waiting), Counter[str]()
    while waiting:
        address = waiting.popleft()
        answer = browser.get(address)
        yield address, answer
        for found in Parsed(answer.body.decode()).addresses:
            bare = found.partition("#")[0]
            page = bare.split("/")[3].partition("?")[0]
            if bare in known or page not in pages or counts[page] >= most:
                continue
            known.add(bare)
            counts[page] += 1
            waiting.append(bare)


@contextmanager
def looking(server: Running, **context: Any) -> Iterator[Seen]:
    """A page that is logged in; `context` are options of the browser's."""
    with browser_page(base_url=f"http://127.0.0.1:{server.port}", **context) as seen:
        seen.page.goto(link(server))
        yield seen
