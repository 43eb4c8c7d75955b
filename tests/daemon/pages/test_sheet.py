"""The sheet: what is wrong is put right where it is ticked and taken back whole; what is erased has a receipt."""

import re
from html import unescape
from urllib.parse import unquote_plus

import pytest

from daemon.api.operations.dreams import dream_now
from daemon.api.operations.memory import lines
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.search import memory_search
from daemon.dream.progress import Step
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import utc_now
from tests.daemon.http.running import Answer, Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, looking, text_of
from tests.daemon.pages.conftest import WAYS, Asking, act
from tests.support.browser import assert_quiet, axe
from tests.support.faults import PowerCut

CREW, KEPT = "the launch crew of project Falconer is 7731 blue", "Ada prefers tea over coffee"
OFFICE, RIGHT = "Mara's office is in Hamburg-Altona.", "Mara's office is in Hamburg-Eppendorf."
BOTH, HALF = "Mara's birthday is 3 May, and her office is in Hamburg-Altona.", "Mara's birthday is 3 May."
TRUE = "Ingrid's office is in Hamburg-Altona too."


@pytest.fixture
def noted(ask: Asking) -> Asking:
    """A workspace whose memory holds what is to be forgotten, and a file of the owner's too."""
    (ask.root / "GENOME.md").write_text(f"- {CREW}\n", encoding="utf-8")
    for note in (f"Bo said {CREW}", KEPT):
        ask(working_memory_note, note)
    ask(memory_search, "tea")
    return ask


@pytest.fixture
def wrong(ask: Asking) -> Asking:
    """A workspace in which a line, a note and nothing else say what is wrong."""
    for note in (OFFICE, TRUE, "The gate is closed <b>at</b> {{ 7 * 7 }}. The key hangs behind the door."):
        ask(working_memory_note, note)
    ask(dream_now)
    ask(working_memory_note, BOTH)
    return ask


def line(ask: Asking, text: str) -> str:
    found = (one for part in ask(lines).sections for one in part.lines if one.text.startswith(text))
    return str(next(found).id)


def sheet(browser: Browser, ask: Asking, address: str) -> tuple[dict[str, str], dict[str, str], Answer]:
    """The hidden fields of the form, the ids of what is ticked by its text, and the page."""
    answer = browser.get(f"/w/{ask.name}/{address}", HTMX)
    (fields,) = fields_of(answer, f"/w/{ask.name}/wrong/right")
    box = r'name="ticked" value="([^"]+)"( checked)?> <span class="kind">.*?</span> <span[^>]*>(.*?)</span></label>'
    found = re.findall(box, answer.body.decode(), re.DOTALL)
    ticked = {unescape(re.sub("<[^>]+>", "", text)): id_ for id_, checked, text in found if checked}
    return fields, ticked, answer


@WAYS
def test_only_what_is_ticked_is_put_right_and_its_undo_is_neutral(
    browser: Browser, wrong: Asking, headers: dict[str, str]
) -> None:
    before, scratch = wrong.document, (wrong.root / "memory/scratch.md").read_text()
    fields, ticked, page = sheet(browser, wrong, f"wrong?line={line(wrong, OFFICE)}")
    assert (list(ticked), fields["said"]) == ([OFFICE, BOTH], OFFICE)
    assert f"its other half stays: {HALF}" in text_of(page)
    assert TRUE not in text_of(page)
    form = {"text": fields["text"], "said": fields["said"], "right": RIGHT}
    done = act(browser, wrong, "wrong/right", headers, **form, ticked=list(ticked.values()))
    if done.status == 303:
        done = browser.get(done.headers["Location"])
    assert "✓ Put right in 2 places. Your agent reads it from its next start on." in text_of(done)
    now = (wrong.root / "memory/scratch.md").read_text()
    assert [text in wrong.document for text in (OFFICE, RIGHT, TRUE)] == [False, True, True]
    assert [text in now for text in ("Altona", HALF)] == [False, True]
    (undo,) = fields_of(done, f"/w/{wrong.name}/wrong/undo")
    browser.act(f"/w/{wrong.name}/wrong/undo", undo, headers)
    assert wrong.document.split("\n")[3:] == before.split("\n")[3:]  # below the stamp
    assert (wrong.root / "memory/scratch.md").read_text() == scratch
    assert [name for name, *_ in wrong.ledger] == ["wrong: undo", "wrong: right"]
    assert "Mara" not in str(wrong.ledger)
    again = browser.act(f"/w/{wrong.name}/wrong/undo", undo, HTMX)
    assert "undone already" in text_of(again)


def test_what_is_not_ticked_stays_and_what_changes_nothing_is_refused(browser: Browser, wrong: Asking) -> None:
    fields, ticked, _ = sheet(browser, wrong, f"wrong?line={line(wrong, OFFICE)}")

    def put_right(right: str, *chosen: str) -> int:
        form: dict[str, object] = {"text": fields["text"], "said": OFFICE, "right": right, "ticked": chosen}
        return browser.act(f"/w/{wrong.name}/wrong/right", form, HTMX).status

    assert put_right(RIGHT) == put_right(OFFICE.upper(), *ticked.values()) == 400
    assert put_right(RIGHT, "0" * 12) == 409
    assert put_right("", ticked[OFFICE]) == 200
    assert (OFFICE in wrong.document, "Altona" in (wrong.root / "memory/scratch.md").read_text()) == (False, True)


def test_one_sentence_of_a_line_is_chosen_and_a_text_is_in_no_address(browser: Browser, wrong: Asking) -> None:
    id_ = line(wrong, "The gate")
    page = browser.get(f"/w/{wrong.name}/wrong?line={id_}")
    assert f'href="/w/{wrong.name}/wrong?line={id_}.2"' in page.body.decode()
    fields, _, one = sheet(browser, wrong, f"wrong?line={id_}.2")
    (erase,) = fields_of(one, f"/w/{wrong.name}/wrong/trace")
    assert fields["said"] == erase["text"] == "The key hangs behind the door."
    found = act(browser, wrong, "wrong/look", {}, text="The key hangs behind the door.")
    assert "It says so here" in text_of(found)
    assert (found.status, "Nothing that is remembered" in text_of(act(browser, wrong, "wrong/look", text="x y"))) == (
        200,
        True,
    )
    assert browser.get(f"/w/{wrong.name}/wrong?line=L999").status == 404


def test_of_several_lines_with_a_text_one_is_chosen(browser: Browser, wrong: Asking) -> None:
    found = act(browser, wrong, "wrong/look", text="Hamburg-Altona")
    assert (found.status, "2 lines say so. Which one is wrong?" in text_of(found)) == (200, True)
    for text in (OFFICE, TRUE):
        assert f'href="/w/{wrong.name}/wrong?line={line(wrong, text)}"' in found.body.decode()
    assert act(browser, wrong, "wrong/look", text="?!").status == 400


def test_a_line_is_put_right_taken_back_and_erased_beside_the_memory(served: Running, wrong: Asking) -> None:
    with looking(served) as seen:
        page = seen.page
        beside, said = page.locator("#beside"), page.locator("#said")
        page.goto(f"/w/{wrong.name}/memory")
        page.get_by_role("link", name=OFFICE).first.click()
        beside.get_by_role("link", name="Wrong…").click()
        beside.get_by_role("button", name="Put it right").wait_for()
        assert (page.evaluate("document.activeElement.id"), axe(seen)) == ("right-is", [])
        page.fill("#right-is", RIGHT)
        page.get_by_role("button", name="Put it right").click()
        said.get_by_text("Put right in 2 places").wait_for()
        assert page.locator("#beside > *").count() == 0
        assert (OFFICE in wrong.document, TRUE in wrong.document) == (False, True)
        page.reload()
        said.get_by_role("button", name="Undo the correction").click()
        said.get_by_text("Undone").wait_for()
        assert (OFFICE in wrong.document, RIGHT in wrong.document) == (True, False)
        page.get_by_role("link", name=OFFICE).first.click()
        beside.get_by_role("link", name="Forget…").click()
        beside.get_by_role("button", name="Erase every trace…").click()
        beside.get_by_role("heading", name="What goes").wait_for()
        assert (OFFICE in wrong.document, axe(seen)) == (True, [])
        beside.get_by_role("button", name="Erase every trace", exact=True).click()
        said.get_by_text("nothing of it is left").wait_for()
        beside.get_by_role("heading", name="Receipt").wait_for()
        assert OFFICE not in wrong.document
        assert [url for url in seen.requests if "Mara" in url] == []
        page.emulate_media(media="print")
        assert page.get_by_role("heading", name="MEMORY.md").bounding_box()["width"] > 60  # type: ignore[index]
        assert page.locator(".workspace").is_visible()
        assert_quiet(seen)


# ------------------------------------------------------------------------------------------------ forgetting


def listed(answer: Answer) -> dict[str, str]:
    """The ids of the ticked boxes by their texts."""
    box = r'name="listed" value="([^"]+)"><label><input type="checkbox" name="ticked" value="\1" checked> <span[^>]*>'
    return {text: id_ for id_, text in re.findall(box + "([^<]+)<", answer.body.decode())}


def remembered(ask: Asking, query: str = "launch crew of project Falconer") -> list[str]:
    return [hit.text for hit in ask(memory_search, query).hits if "crew" in hit.text]


@WAYS
def test_what_would_go_is_shown_and_what_is_erased_has_a_receipt(
    browser: Browser, noted: Asking, headers: dict[str, str]
) -> None:
    preview = act(browser, noted, "wrong/trace", headers, text=CREW)
    for said in (f"Bo said {CREW}", "state.db: crystals 1", "yours GENOME.md", "Nothing was changed yet."):
        assert said in text_of(preview), said
    assert (b"<!doctype html>" in preview.body) is (headers == {})
    (erase,) = fields_of(preview, f"/w/{noted.name}/wrong/erase")
    assert (erase["text"], "words" in erase, list(listed(preview))) == (CREW, False, [f"Bo said {CREW}"])
    assert (len(remembered(noted)), noted.ledger) == (1, [])
    done = act(browser, noted, "wrong/erase", headers, text=CREW)
    for said in (
        "nothing is left",
        "1 memory, no pointers",
        "state.db: crystals 1",
        "known again",
        "yours GENOME.md",
    ):
        assert said in text_of(done), said
    assert "Falconer" not in text_of(done)
    for answer in (preview, done):  # no word of it in what a browser or a log would keep
        assert "falconer" not in unquote_plus(str(answer.headers.items())).lower()
    assert remembered(noted) == []
    page, found = (
        browser.get(f"/w/{noted.name}/wrong"),
        browser.get(f"/w/{noted.name}/wrong.json").json["forgotten"],
    )
    digest = found["forgotten"][0]["digest"]
    assert f"{digest} a text, cut by sentences 9" in text_of(page)
    assert noted.ledger == [("wrong: erase", f"receipt {digest}: 1 crystal, no pointers, clean", "done")]
    for said in ("It may be learnt again", "It was not forgotten."):
        assert said in text_of(act(browser, noted, "wrong/lift", text=CREW))
    assert "Nothing was forgotten." in text_of(browser.get(f"/w/{noted.name}/wrong"))
    assert "It is nowhere" in text_of(act(browser, noted, "wrong/trace", text=CREW))
    for one in ("trace", "erase", "lift"):
        for text in ("", " \n", "x" * 80_001):
            assert act(browser, noted, f"wrong/{one}", text=text).status in {400, 422}


def test_what_is_unticked_stays_and_only_the_words_go_if_that_is_chosen(browser: Browser, noted: Asking) -> None:
    noted(working_memory_note, f"As before: {CREW}!")
    found = listed(act(browser, noted, "wrong/trace", text=CREW))
    gone = found[f"Bo said {CREW}"]
    done = act(browser, noted, "wrong/erase", text=CREW, listed=list(found.values()), ticked=[gone])
    assert "1 text kept, and what it says may be learnt again" in text_of(done)
    assert remembered(noted) == [f"As before: {CREW}!"]
    preview = act(browser, noted, "wrong/trace", text="project Falconer", words="true")
    (erase,) = fields_of(preview, f"/w/{noted.name}/wrong/erase")
    assert erase["words"] == "true"
    assert "cut by words" in text_of(
        browser.act(f"/w/{noted.name}/wrong/erase", {**erase, "ticked": erase["listed"]}, HTMX)
    )
    assert any("launch crew of [forgotten]" in one for one in remembered(noted, "launch crew"))


def test_the_form_that_erases_sends_the_text_as_it_was(browser: Browser, noted: Asking) -> None:
    text = "\n\u202eproject\u200b  Falconer\n'\"><b>&amp;</b>\t\ufeff🍵 "
    answer = act(browser, noted, "wrong/trace", text=text)
    (erase,) = fields_of(answer, f"/w/{noted.name}/wrong/erase")
    assert erase["text"] == text
    assert b"<b>" not in answer.body


def test_an_interrupted_forgetting_is_finished(browser: Browser, noted: Asking) -> None:
    def interrupt(step: Step) -> None:
        if step.node == "files":
            raise PowerCut

    house = noted.served.house
    with house.open(noted.name, lambda _: None) as access, access.write() as store, pytest.raises(PowerCut):
        forget(store, ForgetRequest(CREW), utc_now(), interrupt)
    answer = act(browser, noted, "wrong/finish")
    assert "an earlier forgetting was interrupted, and is finished with this one" in text_of(answer)
    assert remembered(noted) == []
    assert act(browser, noted, "wrong/finish").status == 400
