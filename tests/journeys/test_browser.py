"""The browser of the tests sees what a hostile text would do, and the hostile workspace holds each of them."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.browser import Seen, axe, born, browser_page
from tests.support.hostile_texts import ALL, BY_NAME
from tests.support.hostile_workspace import copied, hostile_workspace

_ADDRESS = "http://window.test/"
_PAGE = '<!doctype html><html lang="en"><title>Memory</title><main><h1>Memory</h1>{}</main></html>'
# Each shows itself in a way of its own: it runs, asks another host, asks for a path, makes an attribute or a link.
_ALIVE = (
    "script-plain script-source script-own-source handler-image svg-load breakout-single-tag unclosed-table"
    " address-data-link style-import document-frame-text document-link-style clobbering-htmx htmx-on-event"
    " htmx-out-of-band markdown-html-line mutation-no-script mutation-shadow template-block-end"
).split()
_PLACES = {
    "lines": "text",
    "crystals": "speaker",
    "occurrences": "file",
    "sessions": "id",
    "items": "tags",
    "item_events": "reason",
    "gaps": "question",
    "skills": "pattern",
    "feelings": "cause",
    "pointers": "keywords",
    "tombstones": "text",
    "dreams": "detail",
    "rejections": "figures",
    "calls": "reply",
    "changes": "record",
}


def shown(seen: Seen, body: str) -> None:
    """Show this as the text of a page."""
    headers = {"Content-Type": "text/html; charset=utf-8"}
    seen.page.route(_ADDRESS, lambda route: route.fulfill(body=_PAGE.format(body), headers=headers))
    seen.page.goto(_ADDRESS, wait_until="commit")
    seen.page.wait_for_load_state("domcontentloaded")


@pytest.mark.full
def test_a_text_that_is_not_escaped_is_seen() -> None:
    with browser_page() as seen:
        for name in _ALIVE:
            one = BY_NAME[name]
            shown(seen, one.text)
            assert born(seen) or seen.runs or seen.strangers, name
        seen.errors.clear()
        shown(seen, "<img src='data:,'><script>alert('x'); nobody()</script>")
        assert seen.dialogs[-1] == "alert: x"
        assert "nobody is not defined" in "".join(seen.errors)
        assert [one.split(":")[0] for one in axe(seen)] == ["critical image-alt"]


def test_each_text_stands_everywhere_in_the_workspace(tmp_path: Path) -> None:
    texts = ALL[::20]
    workspace = copied(hostile_workspace(tmp_path / "made", texts), tmp_path / "copy")
    marks = {one.mark for one in texts}
    with closing(sqlite3.connect(workspace.database)) as connection:
        for table, column in _PLACES.items():
            rows = connection.execute(f"SELECT {column} FROM {table}")  # noqa: S608 - the names above
            found = set(re.findall(r"mark-\d{4}", " ".join(str(row[0]) for row in rows)))
            assert marks - found == set(), table
    assert marks - set(re.findall(r"mark-\d{4}", workspace.document.read_text(encoding="utf-8"))) == set()
