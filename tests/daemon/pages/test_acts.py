"""Every act of every page: with and without a script, refused, recorded in the ledger, and taken back."""

import re
from urllib.parse import unquote_plus

import pytest

from daemon.api.operations.table import OPERATIONS
from daemon.pages.page import Act, Page
from daemon.pages.templates import mark
from daemon.pages.views import PAGES
from tests.daemon.http.running import Answer
from tests.daemon.pages.browser import HTMX, Browser, fields_of, text_of
from tests.daemon.pages.conftest import Asking, act, at, undone
from tests.daemon.pages.lives import NEW, OLD, SHORT, TEA, live

LATER = "Ada writes with a pen"
ACTS = [(page, act) for page in PAGES.values() for act in page.acts]


def change(browser: Browser, ask: Asking, action: str, line: str, **more: str) -> Answer:
    fields = {"action": action, "line": line_of(browser, ask, line), "expected": line, **more}
    return browser.act(f"/w/{ask.name}/memory/change", fields, HTMX)


def line_of(browser: Browser, ask: Asking, text: str) -> str:
    """The id of the line that says this."""
    sections = browser.get(f"/w/{ask.name}/memory.json").json["lines"]["sections"]
    return next(str(one["id"]) for section in sections for one in section["lines"] if one["text"] == text)


@pytest.mark.parametrize(("page", "one"), ACTS, ids=[f"{page.name}-{one.name}" for page, one in ACTS])
def test_a_form_is_of_a_page_of_this_session_and_says_what_is_wrong(
    browser: Browser, waits: Asking, page: Page, one: Act
) -> None:
    before, path = waits.document, f"/w/{waits.name}/{page.name}/{one.name}"
    for fields in ({}, {"csrf": "0" * 64}, {"csrf": [browser.csrf(), browser.csrf()]}):
        assert browser.post(path, fields).status == 403
    stranger = {"csrf": browser.csrf()}
    assert browser.post(path, stranger, {"Origin": "http://evil.example"}).status == 403
    assert browser.post(path, stranger, {"Cookie": ""}).status == 401
    field = next(iter(one.form.model_fields), "")
    for headers in ({}, HTMX):
        for wrong in ({"<i>": "<i>"}, {field or "x": ["<i>", "other"]}):
            answer = browser.act(path, wrong, headers)
            assert answer.status in {400, 404, 409, 422}, (wrong, text_of(answer))
            assert b"<i>" not in answer.body
            assert answer.headers.get("HX-Retarget") == ("#said" if headers else None)
    assert waits.document == before


@pytest.mark.parametrize(
    ("action", "more", "there", "gone"),
    [
        ("edit", {"text": "Ada prefers cocoa"}, "Ada prefers cocoa", TEA),
        ("delete", {}, SHORT, TEA),
        ("pin", {}, f"{TEA} 📌", "\0"),
    ],
)
def test_a_line_is_changed_and_that_is_taken_back(
    browser: Browser, waits: Asking, action: str, more: dict[str, str], there: str, gone: str
) -> None:
    before = unstamped(waits)
    done = change(browser, waits, action, TEA, **more)
    assert (there in waits.document, gone in waits.document) == (True, False)
    assert waits.ledger[0][0] == "memory: change"
    assert "cocoa" not in waits.ledger[0][1]
    undone(browser, waits, done)
    assert unstamped(waits) == before


def unstamped(ask: Asking) -> str:
    """MEMORY.md without the moment of its last version."""
    return re.sub(r"[0-9-]+T[0-9:]+Z", "", ask.document)


def test_a_line_is_added_unpinned_and_looked_at_before_a_dream_reads_it(browser: Browser, waits: Asking) -> None:
    done = act(browser, waits, "memory/change", {}, action="add", section="The Bond", text="Ada lives in Lisbon")
    assert (done.status, done.headers["Location"]) == (303, f"/w/{waits.name}/memory")
    change(browser, waits, "pin", TEA)
    change(browser, waits, "unpin", TEA)
    new = "Ada has\u200b a \u202ecat"
    waits.write(waits.document.replace(f"- {TEA}", f"- {TEA}\n- {new}"))
    page = browser.get(f"/w/{waits.name}/line?mark={mark(new)}")
    (delete,) = (one for one in fields_of(page, f"/w/{waits.name}/memory/change") if one.get("action") == "delete")
    assert delete["expected"] == new  # as it is in the file, without the signs that are shown
    assert browser.act(f"/w/{waits.name}/memory/change", delete, HTMX).status == 200
    assert ("cat" in waits.document, "Lisbon" in waits.document) == (False, True)


@pytest.mark.parametrize("action", ["pin", "delete"])
def test_what_is_pressed_twice_is_no_error_and_keeps_its_undo(browser: Browser, waits: Asking, action: str) -> None:
    form = {"action": action, "line": line_of(browser, waits, TEA), "expected": TEA}
    other = {"action": "delete", "line": line_of(browser, waits, SHORT), "expected": SHORT}
    path = f"/w/{waits.name}/memory/change"
    first, _, twice = (browser.act(path, fields, HTMX) for fields in (form, other, form))
    assert (first.status, twice.status) == (200, 200)
    assert ["It was done already." in text_of(one) for one in (first, twice)] == [False, True]
    undone(browser, waits, twice)
    assert (f"- {TEA}\n" in waits.document, SHORT in waits.document) == (True, False)


def test_what_was_written_since_is_not_taken_back_nor_overwritten(browser: Browser, waits: Asking) -> None:
    by_hand = "Ada writes with a pencil"
    waits.write(waits.document.replace(f"- {TEA}", f"- {TEA}\n- {by_hand}"))
    done = change(browser, waits, "delete", TEA)
    undone(browser, waits, done)
    assert (TEA in waits.document, by_hand in waits.document) == (True, True)
    again = undone(browser, waits, done)
    assert (again.status, "It was undone already" in text_of(again)) == (200, True)
    done = change(browser, waits, "delete", TEA)
    waits.write(waits.document.replace(by_hand, LATER))
    assert undone(browser, waits, done).status == 200
    assert (TEA in waits.document, LATER in waits.document) == (True, True)
    before = waits.document
    stale = act(browser, waits, "memory/change", action="edit", line="L1", expected="Ada prefers beer", text="x y")
    assert stale.status in {404, 409}
    assert waits.document == before
    assert waits.ledger[0][2] != "done"


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        ("today", '<h1 class="is-'),
        ("line?mark=00000000000000000000", '<h1 class="is-'),  # it showed what is gone
        *((one, '<ul class="told">') for one in ("nothing", "../x", "dream?dream=%ff", "", "//[::1", "ä")),
    ],
)
def test_an_act_shows_a_page_wherever_the_browser_says_that_it_is(
    browser: Browser, applied: Asking, seen: str, shown: str
) -> None:
    headers = {**at(browser, applied, seen), **({"HX-Current-URL": seen} if seen.startswith("//") else {})}
    sent = {key: value.encode().decode("latin-1") for key, value in headers.items()}
    answer = act(browser, applied, "dreams/restore", sent, version=1)
    assert (answer.status, shown in answer.body.decode()) == (200, True)
    without_script = {"Referer": headers["HX-Current-URL"].encode().decode("latin-1")}
    assert (
        act(browser, applied, "dreams/restore", without_script, version=2)
        .headers["Location"]
        .startswith(f"/w/{applied.name}/{'today' if 'is-' in shown else 'dreams'}")
    )


def test_the_owner_says_which_crystal_holds_and_takes_it_back(browser: Browser, ask: Asking) -> None:
    with ask.served.house.open(ask.name, lambda _: None) as access, access.write() as store:
        live(store, {})

    def superseded() -> list[bool]:
        found = (browser.get(f"/w/{ask.name}/crystal.json?id={one.id}").json for one in (OLD, NEW))
        return [one["crystal"]["superseded"] for one in found]

    path = f"/w/{ask.name}/crystal/supersede"
    page = browser.get(f"/w/{ask.name}/crystal?id={OLD.id}")
    (turned,) = (form for form in fields_of(page, path) if form.get("newer") == OLD.id)
    done = browser.act(path, turned, {})
    assert superseded() == [False, True]
    undone(browser, ask, done, {})
    assert superseded() == [True, False]
    both = {"older": OLD.id, "newer": NEW.id, "undo": "true"}
    assert browser.act(path, both, {}).status == 303
    assert superseded() == [False, False]
    assert "Both hold, as you said" in text_of(browser.get(f"/w/{ask.name}/crystal?id={OLD.id}"))
    assert "It was done already." in text_of(browser.act(path, both, HTMX))
    by_words = browser.act(path, {"older": OLD.id, "newer": NEW.text}, HTMX)
    assert ("Only the later one holds now" in text_of(by_words), superseded()) == (True, [True, False])
    assert ask.ledger[:3] == [
        ("crystal: supersede", f"superseded: {OLD.id[:12]} by one named by its words", "done"),
        ("crystal: supersede", "", "NOTHING_TO_DO"),
        ("crystal: supersede", f"both hold: {OLD.id[:12]} and {NEW.id[:12]}", "done"),
    ]
    undone(browser, ask, by_words)
    assert superseded() == [False, False]


def test_a_memory_of_a_session_is_hidden_brought_back_promoted_and_restored(browser: Browser, ask: Asking) -> None:
    mind, secret = "mind\u202e '\"><img src=x>&", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    ask(OPERATIONS["session_open"], session_id=mind, policy="bounded", config={"max_items": 2})
    for content, importance in (("red", 0.6), ("friday", 0.9), ("lunch", 0.1)):
        ask(OPERATIONS["memory_memorize"], session_id=mind, content=content, importance=importance)
    page = browser.get(f"/w/{ask.name}/session?session_id={unquote_plus('mind%E2%80%AE').encode().hex()}")
    assert page.status == 404
    listed = re.search(r'session\?session_id=([^"]+)"', browser.get(f"/w/{ask.name}/memory").body.decode())
    assert listed
    red, _, lunch = fields_of(
        browser.get(f"/w/{ask.name}/session?session_id={listed[1]}"), f"/w/{ask.name}/session/change"
    )
    assert red["session_id"] == mind

    def states() -> dict[str, tuple[str, bool]]:
        every = ask(OPERATIONS["working_memory_list"], session_id=mind, include_promoted=True).memories
        return {one.content: (str(one.state), one.promoted_to_id is not None) for one in every}

    done = act(browser, ask, "session/change", HTMX, **red, verdict="forget")
    assert states()["red"] == ("hidden", False)
    undone(browser, ask, done)
    assert states()["red"] == ("live", False)
    act(browser, ask, "session/change", HTMX, **red, verdict="promote")
    assert states()["red"] == ("live", True)
    act(browser, ask, "session/change", HTMX, **lunch, verdict="restore")  # it is the least important still
    assert "lunch" not in states()
    assert act(browser, ask, "session/change", session_id=mind, memory_id="x", verdict="forget").status == 404
    for one in ("sweep", "close"):
        act(browser, ask, f"session/{one}", session_id=mind)
    assert ask(OPERATIONS["working_memory_stats"], session_id=mind).total_count == 0
    act(browser, ask, "session/sweep", session_id=f"with {secret}")
    assert not [about for _, about, _ in ask.ledger if secret in about or "friday" in about or "lunch" in about]
    assert {one for one, _, _ in ask.ledger} == {"session: change", "session: sweep", "session: close"}
