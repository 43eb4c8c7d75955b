"""The page of forgetting: what would go, the receipt, what stays forgotten; its words stay in the body of a form."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote_plus

import pytest

from daemon.api.access import LocalAccess
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.stores.vectors.embedder import Unavailable
from tests.daemon.http.running import Answer, Running
from tests.daemon.pages.browser import HTMX, Browser, fields_of, text_of
from tests.support.faults import PowerCut

CREW = "the launch crew of project Falconer is 7731 blue"
KEPT = "Ada prefers tea over coffee"
WAYS = pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])


@pytest.fixture
def noted(served: Running, name: str) -> str:
    """A workspace whose memory holds it, and a file of the owner's too."""
    (served.house.roots[name] / "GENOME.md").write_text(f"- {CREW}\n", encoding="utf-8")
    for note in (f"Bo said {CREW}", KEPT):
        assert served.ask("POST", f"/v1/workspaces/{name}/notes", {"note": note}).status == 200
    served.ask("POST", f"/v1/workspaces/{name}/search", {"query": "tea"})
    return name


@contextmanager
def store_of(served: Running, name: str) -> Iterator[Store]:
    embedding = Embedding.given(Unavailable("no model in this test"))
    workspace = open_workspace(served.house.roots[name])
    with LocalAccess(workspace, Config(), "a test", embedding=embedding) as access, access.write() as store:
        yield store


def ledger(served: Running, name: str) -> list[tuple[str, str, str]]:
    acts = served.ask("GET", f"/v1/workspaces/{name}/acts").json["acts"]
    return [(one["act"], one["about"], one["outcome"]) for one in acts]


def remembered(served: Running, name: str) -> bool:
    asked = {"query": "launch crew of project Falconer"}
    hits = served.ask("POST", f"/v1/workspaces/{name}/search", asked).json["hits"]
    return any("Falconer" in hit["text"] for hit in hits)


def assert_nowhere(answer: Answer) -> None:
    """No word of it in what a browser or a log would keep."""
    assert "falconer" not in unquote_plus(str(answer.headers.items())).lower()


def listed(answer: Answer) -> list[tuple[str, str]]:
    """The id and text of each ticked box."""
    box = r'name="listed" value="([^"]+)"><label><input type="checkbox" name="ticked" value="\1" checked> <span[^>]*>'
    box += "([^<]+)<"
    return re.findall(box, answer.body.decode())


@WAYS
def test_a_preview_says_what_would_go_and_changes_nothing(
    browser: Browser, served: Running, noted: str, headers: dict[str, str]
) -> None:
    answer = browser.act(f"/w/{noted}/forget/preview", {"text": CREW}, headers)
    assert answer.status == 200
    assert_nowhere(answer)
    text = text_of(answer)
    assert f"Bo said {CREW}" in text
    assert "state.db: crystals 1" in text
    assert "yours GENOME.md" in text
    assert "Nothing was changed yet." in text
    assert (b"<!doctype html>" in answer.body) is (headers == {})
    assert b'hx-confirm="Erase this? It cannot be brought back."' in answer.body
    (erase,) = fields_of(answer, f"/w/{noted}/forget/erase")
    assert (erase["text"], "words" in erase) == (CREW, False)
    assert [text for _, text in listed(answer)] == [f"Bo said {CREW}"]
    assert remembered(served, noted)
    assert ledger(served, noted) == []


@WAYS
def test_what_is_erased_has_a_receipt_and_stays_forgotten(
    browser: Browser, served: Running, noted: str, headers: dict[str, str]
) -> None:
    answer = browser.act(f"/w/{noted}/forget/erase", {"text": CREW}, headers)
    assert answer.status == 200
    assert_nowhere(answer)
    text = text_of(answer)
    for shown in (
        "nothing is left",
        "1 crystal, 0 pointers",
        "state.db: crystals 1",
        "known again",
        "yours GENOME.md",
    ):
        assert shown in text, shown
    assert "Falconer" not in text
    assert not remembered(served, noted)
    page, listed = browser.get(f"/w/{noted}/forget"), browser.get(f"/w/{noted}/forget.json").json["forgotten"]
    assert (listed["total"], len(listed["forgotten"])) == (1, 1)
    assert listed == served.ask("GET", f"/v1/workspaces/{noted}/forgotten").json
    assert f"{listed['forgotten'][0]['digest']} a text, cut by sentences 9" in text_of(page)
    assert "Falconer" not in text_of(page)
    ((act, about, outcome),) = ledger(served, noted)
    assert (act, outcome) == ("forget: erase", "done")
    assert about == f"receipt {listed['forgotten'][0]['digest']}: 1 crystals, 0 pointers, clean"
    assert KEPT in str(served.ask("POST", f"/v1/workspaces/{noted}/search", {"query": "tea"}).json["hits"])


def test_what_is_unticked_stays_and_what_stays_ticked_goes(browser: Browser, served: Running, noted: str) -> None:
    assert served.ask("POST", f"/v1/workspaces/{noted}/notes", {"note": f"As before: {CREW}!"}).status == 200
    preview = browser.act(f"/w/{noted}/forget/preview", {"text": CREW})
    (one, other), texts = zip(*listed(preview), strict=True)
    assert set(texts) == {f"Bo said {CREW}", f"As before: {CREW}!"}
    gone, kept = (one, other) if texts[0].startswith("Bo") else (other, one)
    fields = {"text": CREW, "listed": [gone, kept], "ticked": [gone]}
    text = text_of(browser.act(f"/w/{noted}/forget/erase", fields))
    assert "nothing is left" in text
    assert "1 text kept, and what it says may be learnt again" in text
    hits = served.ask("POST", f"/v1/workspaces/{noted}/search", {"query": "launch crew"}).json["hits"]
    assert [hit["text"] for hit in hits if "crew" in hit["text"]] == [f"As before: {CREW}!"]


def test_only_the_words_go_if_that_is_chosen(browser: Browser, served: Running, noted: str) -> None:
    preview = browser.act(f"/w/{noted}/forget/preview", {"text": "project Falconer", "words": "true"}, HTMX)
    (erase,) = fields_of(preview, f"/w/{noted}/forget/erase")
    assert erase["words"] == "true"
    erase["ticked"] = erase["listed"]
    assert "cut by words" in text_of(browser.act(f"/w/{noted}/forget/erase", erase, HTMX))
    hits = served.ask("POST", f"/v1/workspaces/{noted}/search", {"query": "launch crew"}).json["hits"]
    assert any("launch crew of [forgotten]" in hit["text"] for hit in hits)


def test_the_form_that_erases_sends_the_text_as_it_was(browser: Browser, noted: str) -> None:
    text = "\n\u202eproject\u200b  Falconer\n'\"><b>&amp;</b>\t\ufeff🍵 "
    answer = browser.act(f"/w/{noted}/forget/preview", {"text": text}, HTMX)
    (erase,) = fields_of(answer, f"/w/{noted}/forget/erase")
    assert erase["text"] == text
    assert b"<b>" not in answer.body


def test_a_line_or_crystal_is_led_here_by_its_id_and_never_by_words(browser: Browser, noted: str) -> None:
    for meant in ("L12", "0123456789abcdef" * 2):
        page = browser.get(f"/w/{noted}/forget?text={meant}")
        assert page.status == 200
        assert f"\n{meant}</textarea>" in page.body.decode()
    for words in ("Falconer", "L12+Falconer", "l", "0123", "L12%0A"):
        assert browser.get(f"/w/{noted}/forget?text={words}").status == 422, words


def test_an_interrupted_forgetting_is_finished(browser: Browser, served: Running, noted: str) -> None:
    def interrupt(step: Step) -> None:
        if step.node == "files":
            raise PowerCut

    with store_of(served, noted) as store, pytest.raises(PowerCut):
        forget(store, ForgetRequest(CREW), utc_now(), interrupt)
    answer = browser.act(f"/w/{noted}/forget/finish", {}, HTMX)
    assert "an earlier forgetting was interrupted, and is finished with this one" in text_of(answer)
    assert not remembered(served, noted)
    assert browser.act(f"/w/{noted}/forget/finish", {}, HTMX).status == 400
    assert [(act, outcome) for act, _, outcome in ledger(served, noted)] == [
        ("forget: finish", "VALIDATION_ERROR"),
        ("forget: finish", "done"),
    ]


def test_what_is_let_be_learnt_again_is_forgotten_no_more(browser: Browser, served: Running, noted: str) -> None:
    browser.act(f"/w/{noted}/forget/erase", {"text": CREW})
    lift = f"/w/{noted}/forget/lift"
    assert "It may be learnt again" in text_of(browser.act(lift, {"text": CREW}, HTMX))
    assert "It was not forgotten." in text_of(browser.act(lift, {"text": CREW}, HTMX))
    assert "Nothing was forgotten." in text_of(browser.get(f"/w/{noted}/forget"))
    assert "Falconer" not in str(ledger(served, noted))


@pytest.mark.parametrize("text", ["", " \n", "x" * 80_001])
def test_nothing_and_too_much_are_refused(browser: Browser, noted: str, text: str) -> None:
    for act in ("preview", "erase", "lift"):
        assert browser.act(f"/w/{noted}/forget/{act}", {"text": text}, HTMX).status in (400, 422), act


def test_without_anything_forgotten_the_page_says_so(browser: Browser, name: str) -> None:
    assert "Nothing was forgotten." in text_of(browser.get(f"/w/{name}/forget"))
    text = text_of(browser.act(f"/w/{name}/forget/preview", {"text": CREW}, HTMX))
    assert "It is nowhere" in text
