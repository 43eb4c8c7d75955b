"""A line's panel: what it rests on, its values through time, what no note says, its use, and what to do about it."""

import re
from pathlib import Path

import pytest

from daemon.api.operations.memory import ChangeOfLine, change_lines, lines
from daemon.api.operations.search import memory_bootstrap
from daemon.config.settings import DreamSection
from daemon.pages.templates import mark
from daemon.workspace.adoption import init_workspace
from graphs.review import LineAction
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, looking, text_of
from tests.daemon.pages.conftest import Asking
from tests.daemon.pages.lives import ASKING, PREFACE, dreamt
from tests.support.browser import assert_quiet, axe
from tests.support.keeping import copied
from tests.support.revising import revises

EARLY, LATE, LATER = (
    "The import starts at 02:15",
    "Now the import starts at 03:10 <b>",
    "It starts at 04:10 \u202eagain",
)
SAID, WAITS = "The import starts at 03:20, says Baltix", "The import starts at 04:10"
HOSTILE = "<script>alert(1)</script> {{ 7 * 7 }} " + "x" * 400


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A line was written, revised with a time and a name that no note says, and a change of it waits."""
    workspace = init_workspace(tmp_path_factory.mktemp("built") / "memory")
    workspace.document.write_text(f"# Notes\n\n{PREFACE}\n", encoding="utf-8")
    with revises({LATE: EARLY, LATER: SAID}, {LATE: SAID, LATER: WAITS}):
        dreamt(workspace, EARLY, HOSTILE, rules=DreamSection())
        dreamt(workspace, LATE, rules=DreamSection())
        dreamt(workspace, LATER, rules=ASKING)
    return workspace.root


@pytest.fixture
def life(served: Running, built: Path, tmp_path: Path) -> Asking:
    return Asking(served, served.house.register(copied(built, tmp_path / "memory")))


def address(ask: Asking, text: str) -> str:
    """The address of the line that says this."""
    every = (line for section in ask(lines).sections for line in section.lines)
    return next(f"/w/{ask.name}/line?id={line.id}" for line in every if line.text.startswith(text[:20]))


def forms(browser: Browser, ask: Asking, page: str, action: str) -> list[dict[str, str]]:
    return fields_of(browser.get(page), f"/w/{ask.name}/{action}")


def test_it_says_first_what_the_line_rests_on_then_its_values_its_use_and_what_to_do(
    browser: Browser, life: Asking
) -> None:
    for _ in range(2):
        life(memory_bootstrap)
    page = address(life, SAID)
    for headers in ({}, HTMX):
        text = text_of(browser.get(page, headers))
        parts = (
            "The import starts at",
            f"It was noted today : “{LATE}”",
            "Its values",
            "Given to your agent at each of its last 2 starts",
            "Wrong…",
            "Edit e",
            "Pin p",
            "Forget…",
            "2 changes of it",
            "who wrote it, ids, importance",
        )
        assert sorted(map(text.index, parts)) == [text.index(one) for one in parts]
    body = browser.get(page).body.decode()
    assert b'id="said"' not in browser.get(page, HTMX).body
    (sheet,) = set(re.findall(rf'href="(/w/{life.name}/wrong\?line=L\d+)"', body))
    assert SAID in text_of(browser.get(sheet))
    assert set(browser.get(page.replace("?", ".json?")).json) == {"lines", "memory_why", "proposals"}
    html = browser.get(f"/w/{life.name}/memory").body.decode()
    assert f'hx-get="{page}"' in html
    assert f"mark={mark(PREFACE)}" not in html  # what no dream touches is edited in the file


def test_what_none_of_its_notes_says_is_underlined_and_nothing_else(browser: Browser, life: Asking) -> None:
    page = browser.get(address(life, SAID)).body.decode()
    heading = page.partition("<h1 ")[2].partition("</h1>")[0]
    assert re.findall(r'class="unsaid" title="its note does not say this">([^<]*)<', heading) == ["03:20", "Baltix"]
    assert "its note does not say this" in page.partition("</h1>")[2]
    memory = text_of(browser.get(f"/w/{life.name}/memory"))
    assert memory.partition(SAID)[2].partition("Crystal Pointers")[0].count("not in its evidence") == 1
    assert memory.count("not in its evidence") == 1
    assert "unsaid" not in browser.get(address(life, HOSTILE.replace("<", "< "))).body.decode()


def test_its_values_are_dots_with_a_list_that_says_the_same(browser: Browser, life: Asking) -> None:
    page = browser.get(address(life, SAID)).body.decode()
    drawing = page.partition('<svg class="values"')[2].partition("</svg>")[0]
    assert re.findall(r"<text x[^>]*>([^<]*)<", drawing) == ["02:15", "03:20"]
    places = [int(one) for one in re.findall(r'cx="(\d+)"', drawing)]
    assert (len(places), places == sorted(places)) == (2, True)
    listed = text_of(browser.get(address(life, SAID))).partition("Its values")[2].partition("Not given")[0]
    assert listed.index("03:20 today") < listed.index("02:15 today")
    assert f"“{LATE}”" in listed
    assert '<svg class="values"' not in browser.get(address(life, HOSTILE.replace("<", "< "))).body.decode()


def test_a_change_that_waits_is_answered_where_the_line_stands(browser: Browser, life: Asking) -> None:
    page = address(life, SAID)
    answers = forms(browser, life, page, "today/answer")
    assert [one["verdict"] for one in answers] == ["accept", "decline"]
    assert browser.act(f"/w/{life.name}/today/answer", answers[0], HTMX).status == 200
    assert (WAITS in life.document, SAID in life.document) == (True, False)
    gone = text_of(browser.get(page))
    assert f"It is not in MEMORY.md any more. In its place: {WAITS}" in gone
    assert "Wrong…" not in gone
    accepted = text_of(browser.get(address(life, WAITS)))
    assert "It was noted today : “It starts at 04:10" in accepted
    assert "You wrote it" not in accepted


def test_each_of_its_changes_can_be_taken_back(browser: Browser, life: Asking) -> None:
    (undo,) = forms(browser, life, address(life, SAID), "today/undo")
    assert browser.act(f"/w/{life.name}/today/undo", undo, HTMX).status == 200
    assert (EARLY in life.document, SAID in life.document) == (True, False)


def test_a_line_is_edited_and_pinned_and_then_it_is_its_owners(browser: Browser, life: Asking) -> None:
    edit, pin = forms(browser, life, address(life, SAID), "memory/change")
    assert (edit["action"], edit["expected"], pin["action"]) == ("edit", SAID, "pin")
    own = "The import starts at 05:30"
    browser.act(f"/w/{life.name}/memory/change", {**edit, "text": own}, HTMX)
    text = text_of(browser.get(address(life, own)))
    assert "You wrote it today ." in text
    assert "05:30 today , in your words" in text
    assert "does not say this" not in text
    _, pin = forms(browser, life, address(life, own), "memory/change")
    browser.act(f"/w/{life.name}/memory/change", pin, HTMX)
    (unpin,) = forms(browser, life, address(life, own), "memory/change")
    assert unpin["action"] == "unpin"


def test_a_line_that_no_dream_has_read_can_be_edited_pinned_or_deleted(browser: Browser, life: Asking) -> None:
    new = "Written \u202eby hand, port 80"
    life.write(life.document.replace(f"- {SAID}", f"- {SAID}\n- {new}"))
    page = f"/w/{life.name}/line?mark={mark(new)}"
    assert "You wrote it in the file; the next dream reads it." in text_of(browser.get(page))
    assert b"wrong?line" not in browser.get(page).body
    actions = [one["action"] for one in forms(browser, life, page, "memory/change")]
    assert actions == ["edit", "pin", "delete"]


def test_a_line_that_left_says_where_it_went(browser: Browser, life: Asking) -> None:
    page = address(life, SAID)
    gone = ChangeOfLine(action=LineAction.DELETE, line=page.rpartition("=")[2], expected=SAID)
    life(change_lines, changes=(gone,))
    text = text_of(browser.get(page))
    assert "It is not in MEMORY.md any more." in text
    assert "deleted today , by you" in text


def test_in_a_browser_it_stands_beside_the_memory_and_keys_act_on_it(life: Asking) -> None:
    with looking(life.served, viewport={"width": 360, "height": 800}, color_scheme="dark") as seen:
        page = seen.page
        page.goto(f"/w/{life.name}/memory")
        page.locator("a.line-text", has_text=SAID).click()
        page.locator("#beside .unsaid").first.wait_for()
        assert (axe(seen), page.evaluate("document.documentElement.scrollWidth <= innerWidth")) == ([], True)
        page.keyboard.press("e")
        page.locator("#beside textarea").wait_for(state="visible")
        assert page.evaluate("document.activeElement.id") == "line-edit"
        page.keyboard.press("Escape")
        page.keyboard.press("p")
        page.locator("#said", has_text="The line is pinned").wait_for()
        assert f"{SAID} 📌" in life.document
        assert_quiet(seen)
