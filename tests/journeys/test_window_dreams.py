"""The page Dreams by somebody who has not built it: restore yesterday, and take that back."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from state.document.document import parse
from state.stores.database.moments import to_text
from state.stores.disk.workspace import Workspace
from tests.journeys.test_window import has_stayed, said, stays, went_to, window
from tests.support import lived
from tests.support.serving import Home, noted

WELL, BELL, LAMP = "The well of house 3 is dry", "The bell of house 5 rings", "The lamp of house 2 is lit"
# All that a person sees of a line, and what decides how long it stays: its id alone is another after a restore.
_LINES = """
SELECT l.text, l.section, l.importance, l.trust, l.born_at, l.until, wrote.model, wrote.cause,
    (SELECT group_concat(crystal) FROM (SELECT crystal FROM evidence e WHERE e.line = l.id ORDER BY 1)) AS evidence
FROM lines l JOIN versions wrote ON wrote.number = (
    SELECT min(born_in) FROM lines first WHERE first.text = l.text AND first.born_at = l.born_at)
WHERE l.died_in IS NULL ORDER BY l.text"""


def standing(workspace: Workspace) -> tuple[list[tuple[str, bool]], list[tuple[object, ...]], list[str]]:
    """The lines of MEMORY.md in their order with their pins, what is known of them, and the notes that wait."""
    there = [(block.text, block.pinned) for _, block in parse(lived.document(workspace)).lines()]
    return there, [tuple(row) for row in lived.rows(workspace, _LINES)], lived.pending(workspace)


def remembered(home: Home) -> Workspace:
    """Three dreams, of two days ago, of yesterday and of today; the owner pinned a line between them."""
    workspace = home.workspace()
    for note in (WELL, BELL, LAMP):
        noted(workspace, [note])
        assert home.dreamd("dream", workspace.root).status == 0
        if note == WELL:
            text = lived.document(workspace).replace(WELL, f"{WELL} 📌")
            workspace.document.write_text(text, encoding="utf-8")
    with closing(sqlite3.connect(workspace.database)) as database, database:
        names = dict(database.execute("SELECT dream, at FROM versions WHERE cause = 'dream'"))
        for days, name in enumerate(sorted(names, key=names.__getitem__, reverse=True)):
            at = to_text(datetime.now(UTC) - timedelta(days=days, seconds=1))
            database.execute("UPDATE versions SET at = ? WHERE dream = ?", (at, name))
            database.execute("UPDATE dreams SET started_at = ?, ended_at = ? WHERE id = ?", (at, at, name))
            born = "UPDATE lines SET born_at = ? WHERE born_in = (SELECT number FROM versions WHERE dream = ?)"
            database.execute(born, (at, name))
    return workspace


@pytest.mark.full
def test_yesterday_is_restored_and_that_taken_back_with_two_clicks(home: Home) -> None:
    workspace = remembered(home)
    home.with_port()
    before, in_order = standing(workspace), lived.lines(workspace)
    assert [row[0] for row in before[1]] == sorted((WELL, BELL, LAMP))
    with home.serving(), window(home, workspace) as seen:
        page = seen.page
        went_to(page, "Dreams")
        page.get_by_role("heading", name="3 days: from no lines to 3.").wait_for()
        stays(page)
        yesterday = page.locator("[data-item=dream]", has_text=BELL)
        assert yesterday.locator(".when").inner_text().startswith(f"{datetime.now(UTC) - timedelta(days=1):%a} ")
        yesterday.get_by_role("button", name="restore").click()
        said(page, "Restored: MEMORY.md is as it was on ")
        assert lived.lines(workspace) == [one for one in in_order if one != LAMP]
        assert lived.pending(workspace) == [LAMP]
        page.locator("[data-item=dream]", has_text="You: restored version").wait_for()
        page.locator("#said").get_by_role("button", name="Undo").click()
        said(page, "Undone: all is as it was before.")
        assert standing(workspace) == before
        assert has_stayed(page)
    lived.assert_valid(workspace)
