"""A real browser: opens pages in Chromium and records their requests, console, errors, dialogs and violations.

    with browser_page(base_url="http://127.0.0.1:8787") as seen:
        seen.page.goto("/now")
        assert_quiet(seen)
        assert axe(seen) == []

Chromium starts once per process; each page has a context of its own, so no shared cookies. Without Chromium the test
is skipped.
"""

import asyncio
import atexit
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_MOST_MILLISECONDS = 15_000
_SERIOUS = {"serious", "critical"}
# The document gets an event for each violation of its policy; they cannot be queried later.
_WATCH = """
document.addEventListener('securitypolicyviolation', event =>
    window.__refused(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""
# Finds every element of a page, its templates and shadow roots that a hostile text created or changed.
_BORN = """() => {
    const found = [];
    const say = (element, why) => found.push(`${why}: ${element.outerHTML.slice(0, 200)}`);
    const look = root => {
        for (const element of root.querySelectorAll('*')) {
            for (const {name, value} of element.attributes) {
                if (name.includes('born')) say(element, `attribute ${name}`);
                if (name.startsWith('on') || /^(data-)?hx-on/.test(name)) say(element, `handler ${name}`);
                if (name === 'id' && value.startsWith('born')) say(element, `id ${value}`);
                if (['href', 'src', 'action', 'formaction', 'data', 'poster', 'xlink:href'].includes(name)) {
                    let address;
                    try { address = new URL(value, location.href); } catch { continue; }
                    const ours = ['http:', 'https:', element.localName === 'link' ? 'data:' : 'http:'];
                    const theirs = ['127.0.0.1:9', 'www.example.com', 'born.example'];
                    if (!ours.includes(address.protocol) || theirs.includes(address.host)
                        || address.pathname.startsWith('/born/')) say(element, `address ${name}`);
                }
            }
            if (element.localName.startsWith('born')) say(element, 'element');
            if (element.content instanceof DocumentFragment) look(element.content);
            if (element.shadowRoot) look(element.shadowRoot);
        }
    };
    look(document);
    if (typeof window.born !== 'undefined' || ({}).born) found.push('a name of the window');
    return found;
}"""


# Wait for the next frame and 50 ms more, so that what the page started has been reported.
_SETTLE = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))"


@dataclass(slots=True)
class Seen:
    """A page, and what happened on it since it was opened, in order, as texts.

    `runs` are the numbers of the hostile texts that ran; `refused` are violations of its content security policy.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)

    @property
    def strangers(self) -> list[str]:
        """Return requests to another host or port than the page's, or to a path that only hostile texts name."""
        own = urlsplit(self.page.url).netloc
        return [
            url
            for url in self.requests
            if urlsplit(url).netloc not in {"", own} or urlsplit(url).path.startswith("/born/")
        ]


@contextmanager
def browser_page(**context: Any) -> Iterator[Seen]:
    """Open a page in a new context with these options (`base_url`, `viewport`, `color_scheme` …)."""
    with _browser_context(context) as opened:
        page = opened.new_page()
        page.set_default_timeout(_MOST_MILLISECONDS)
        yield _watched(opened, page)


def assert_quiet(seen: Seen) -> None:
    """Assert that no request left, no hostile script ran, and there was no violation, error, warning or dialog."""
    seen.page.evaluate(_SETTLE)
    loud = [one for one in seen.console if one.startswith(("error", "warning"))]
    assert (seen.strangers, seen.runs, seen.refused, seen.errors, loud, seen.dialogs) == ([], [], [], [], [], [])


def born(seen: Seen) -> list[str]:
    """The elements, attributes, handlers, addresses and names of the page that come of hostile texts."""
    found: list[str] = seen.page.evaluate(_BORN)
    return found


def axe(seen: Seen, **options: Any) -> list[str]:
    """The serious and critical violations of accessibility, one a line with the elements that have them."""
    # What axe would load again (styles, for its rules on orientation) is not for a page that lets nothing load.
    found = Axe().run(seen.page, options={"resultTypes": ["violations"], "preload": False, **options}).response
    return [
        f"{one['impact']} {one['id']}: {one['help']} ({', '.join(str(node['target'][0]) for node in one['nodes'])})"
        for one in found["violations"]
        if one["impact"] in _SERIOUS
    ]


def executable() -> str | None:
    """Return the path of this machine's browser; None if it has none."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@cache
def _browser(path: str) -> tuple[Browser, asyncio.AbstractEventLoop]:
    """Start the browser of this process, and return it with its event loop."""
    playwright = sync_playwright().start()
    loop = asyncio.get_running_loop()
    # Chromium's sandbox does not work for root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    browser = playwright.chromium.launch(executable_path=path, args=options)

    def end() -> None:
        asyncio._set_running_loop(loop)
        browser.close()
        playwright.stop()

    atexit.register(end)
    return browser, loop


@contextmanager
def _browser_context(options: dict[str, Any]) -> Iterator[BrowserContext]:
    path = executable()
    if path is None:
        pytest.skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
    before = asyncio._get_running_loop()
    try:
        browser, loop = _browser(path)
        # Playwright leaves its loop marked as running in this thread, which would keep other tests from running one.
        asyncio._set_running_loop(loop)
        context = browser.new_context(**options)
        try:
            yield context
        finally:
            context.close()
    finally:
        asyncio._set_running_loop(before)


def _watched(context: BrowserContext, page: Page) -> Seen:
    seen = Seen(page)

    def said(message: ConsoleMessage) -> None:
        seen.console.append(f"{message.type}: {message.text} {message.location.get('url')}")

    def asked(dialog: Dialog) -> None:
        seen.dialogs.append(f"{dialog.type}: {dialog.message}")
        dialog.dismiss()

    def refused(what: str) -> None:
        seen.refused.append(what)

    context.expose_function("__born", lambda number=0: seen.runs.append(int(number)))
    context.expose_function("__refused", refused)
    context.add_init_script(_WATCH)
    context.on("request", lambda request: seen.requests.append(request.url))
    context.on("console", said)
    context.on("weberror", lambda error: seen.errors.append(str(error.error)))
    page.on("dialog", asked)
    return seen
