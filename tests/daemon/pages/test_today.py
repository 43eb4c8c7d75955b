"""Today: its verdict, what is new, what wants its owner's word and each answer, what is open, and several undos."""

import re
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from daemon.api.operations.journal import proposals
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.search import memory_bootstrap
from daemon.api.operations.signals import gaps
from daemon.pages import window
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import utc_now
from state.signals.curiosity import Cause
from tests.daemon.pages.browser import Browser, fields_of, text_of
from tests.daemon.pages.conftest import Asking, act, undone
from tests.daemon.pages.lives import COFFEE, HOSTILE, LONG, SHORT, TEA, dreamt

OWN = "Ada prefers cocoa at night"


def today(browser: Browser, ask: Asking, more: str = "") -> str:
    return text_of(browser.get(f"/w/{ask.name}/today{more}"))


def numbers(ask: Asking) -> list[int]:
    return [one.number for one in ask(proposals).proposals]


def bond(ask: Asking) -> set[str]:
    return {one for one in (TEA, COFFEE, SHORT, LONG, OWN) if one in ask.document}


def test_it_says_in_one_of_four_forms_how_it_stands(browser: Browser, waits: Asking, applied: Asking) -> None:
    assert "▲ 2 things want you" in today(browser, waits)
    page = browser.get(f"/w/{waits.name}/today").body.decode()
    assert re.search(r"<title>\(2\) [^<]* · dreamd</title>", page)
    assert 'wants.svg"' in page
    assert "● All is well." in today(browser, applied)
    (applied.root / "MEMORY.md").unlink()
    broken = browser.get(f"/w/{applied.name}/today")
    assert "■ It stopped: MEMORY.md is missing" in text_of(broken)
    assert fields_of(broken, f"/w/{applied.name}/dreams/restore")


def test_a_failed_dream_stops_it_and_what_has_a_cost_alone_only_wants_somebody(browser: Browser, ask: Asking) -> None:
    with ask.served.house.open(ask.name, lambda _: None) as access, access.write() as store:
        store.ledger.begin("d-1", "manual", utc_now())
    assert "▲ 1 thing wants you" in today(browser, ask)
    assert "a dream was interrupted" in today(browser, ask)
    with ask.served.house.open(ask.name, lambda _: None) as access, access.write() as store:
        store.ledger.end("d-1", "failed", "MODEL_ERROR: <b>the model</b> cannot be reached", utc_now())
    text = today(browser, ask)
    assert "■ It stopped: the last dream failed" in text
    assert "Failed: the model's server could not be reached." in text


def test_it_begins_with_three_steps_that_are_ticked(browser: Browser, ask: Asking) -> None:
    for done, deed in (
        (0, lambda: ask(working_memory_note, TEA)),
        (1, lambda: act(browser, ask, "today/dream")),
        (2, lambda: ask(memory_bootstrap, receipt="HTTP", agent="codex")),
    ):
        assert today(browser, ask).count("✓") == done
        deed()
    text = today(browser, ask)
    assert ("✓" in text, "Codex read it" in text) == (False, True)


def test_what_the_last_dream_did_is_told_with_its_lines(browser: Browser, applied: Asking) -> None:
    text = today(browser, applied)
    assert "Today, in 2 dreams, it learnt 2 , changed 2 and put nothing away" in text
    assert "changed: Ada prefers [removed: tea ] [added: coffee ] in the morning why · wrong" in text
    html = browser.get(f"/w/{applied.name}/today").body.decode()
    for line in ("line?id=L", "wrong?line=L"):
        assert len(re.findall(re.escape(f'href="/w/{applied.name}/{line}'), html)) == 2
    # By its name a change is undone, whatever came after it.
    done = act(browser, applied, "today/undo", made="2.1")
    assert len(bond(applied) & {TEA, SHORT}) == len(bond(applied) & {COFFEE, LONG}) == 1
    undone(browser, applied, done)
    assert bond(applied) == {COFFEE, LONG}


def test_what_is_new_is_new_since_the_last_visit(browser: Browser, applied: Asking) -> None:
    seen = browser.get(f"/w/{applied.name}/today")
    cookies = seen.headers.get_all("Set-Cookie") or []
    assert all("HttpOnly" in one for one in cookies)
    last, visit = (one.partition(";")[0] for one in cookies)
    assert ["Max-Age=1800" in one for one in cookies] == [False, True]
    own, browser.cookie = browser.cookie, f"{browser.cookie}; {last}; {visit}"
    workspace = open_workspace(applied.root)
    for note in ("The fence is green", "The gate is red"):
        dreamt(workspace, note)
    assert "The fence is green" in today(browser, applied)  # the visit goes on: what stood before it is new
    browser.cookie = f"{own}; {last}"  # half an hour later
    text = today(browser, applied)
    assert "Since you looked last, in 2 dreams, it learnt 2" in text
    assert "coffee" not in text
    browser.cookie = f"{own}; {last.partition('=')[0]}=<i>"
    assert "The gate is red" in today(browser, applied)


def test_proposals_are_accepted_as_one_version_and_that_is_taken_back(browser: Browser, waits: Asking) -> None:
    first, second = numbers(waits)
    done = act(browser, waits, "today/answer", verdict="accept", number=[first, second])
    assert "2 changes accepted." in text_of(done)
    assert (bond(waits), numbers(waits)) == ({COFFEE, LONG}, [])
    undone(browser, waits, done)
    assert (bond(waits), numbers(waits)) == ({TEA, SHORT}, [first, second])


def test_an_answer_that_is_given_already_is_no_error_and_keeps_its_undo(browser: Browser, waits: Asking) -> None:
    first, second = numbers(waits)
    act(browser, waits, "today/answer", verdict="accept", number=first)
    act(browser, waits, "today/answer", verdict="decline", number=second)
    crossed = act(browser, waits, "today/answer", verdict="accept", number=second)
    assert ("Already declined." in text_of(crossed), b'class="done"' in crossed.body) == (True, True)
    again = act(browser, waits, "today/answer", verdict="accept", number=first)
    assert (again.status, "Already accepted. Undo the answer" in text_of(again)) == (200, True)
    undone(browser, waits, again)
    assert (bond(waits), numbers(waits)) == ({TEA, SHORT}, [first])


def test_what_was_done_last_is_taken_back_from_a_page_that_is_opened_later(
    browser: Browser, waits: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _), page = numbers(waits), f"/w/{waits.name}/memory"
    act(browser, waits, "today/answer", verdict="accept", number=first)
    for _ in range(2):
        assert "Undo the answer" in text_of(browser.get(page))
    found = act(browser, waits, "find/look", text="undo")
    assert "do Undo the answer" in text_of(found)
    monkeypatch.setattr(window, "utc_now", lambda: utc_now() + timedelta(hours=1))
    assert "Undo the answer" not in text_of(browser.get(page))  # that is another visit
    monkeypatch.undo()
    undone(browser, waits, browser.get(page))
    assert bond(waits) == {TEA, SHORT}
    assert "Undo" not in text_of(browser.get(page)).partition("? shows the keys")[0]


def test_several_acts_are_taken_back_one_after_the_other_and_put_back(browser: Browser, waits: Asking) -> None:
    first, second = numbers(waits)
    act(browser, waits, "today/answer", verdict="accept", number=first)
    done = act(browser, waits, "today/answer", verdict="decline", number=second)
    for waiting in ([second], [first, second]):
        done = undone(browser, waits, done)
        assert numbers(waits) == waiting
    assert "Undo" not in text_of(done).partition("Put it back")[2][:40]
    assert bond(waits) == {TEA, SHORT}


def test_what_is_written_in_ones_own_words_is_one_undo(browser: Browser, waits: Asking) -> None:
    (number,) = (one.number for one in waits(proposals).proposals if one.new == COFFEE)
    done = act(browser, waits, "today/rewrite", number=number, text=OWN)
    assert (bond(waits), len(numbers(waits))) == ({OWN, SHORT}, 1)
    undone(browser, waits, done)
    assert (bond(waits), len(numbers(waits))) == ({TEA, SHORT}, 2)
    act(browser, waits, "today/rewrite", number=number, text=COFFEE)  # that is what was proposed
    assert bond(waits) == {COFFEE, SHORT}
    assert act(browser, waits, "today/rewrite", number=number, text=OWN).status == 404


def test_what_waits_is_shown_in_parts(browser: Browser, waits: Asking) -> None:
    with closing(sqlite3.connect(open_workspace(waits.root).state / "state.db")) as connection, connection:
        connection.executemany(
            "INSERT INTO proposals SELECT ?, dream, at, operation, why, '' FROM proposals WHERE number = 1",
            [(at,) for at in range(11, 41)],
        )
    first, later = (browser.get(f"/w/{waits.name}/today{start}") for start in ("", "?number=31"))
    for page, every in ((first, [1, 2, *range(11, 19)]), (later, range(31, 41))):
        assert re.findall(r'id="proposal-(\d+)"', page.body.decode()) == [str(one) for one in every]
    assert "Accept all 10" in text_of(first)
    assert "22 more wait" in text_of(first)


def test_a_question_is_answered_or_not_important_and_comes_back(browser: Browser, ask: Asking) -> None:
    with ask.served.house.open(ask.name, lambda _: None) as access, access.write() as store:
        for question in ("Who approves refunds?", f"What is {HOSTILE}?"):
            store.questions.raise_(question, Cause.EXPLICIT, utc_now())
    assert "It could not answer · 2" in today(browser, ask)
    done = act(browser, ask, "today/dismiss", question="Who approves refunds?")
    assert "Who approves refunds?" not in today(browser, ask)
    undone(browser, ask, done)
    assert "Who approves refunds?" in today(browser, ask)
    act(browser, ask, "today/note", question="Who approves refunds?", text="Lotte does")
    assert ask(gaps).total == 1
    note = (ask.root / "memory" / "scratch.md").read_text()
    assert "Who approves refunds: Lotte does" in note
    assert all("refunds" not in about for _, about, _ in ask.ledger)
