"""An open question is asked again at the dream, and written only if it is still open; never with forgotten words."""

import pytest

from daemon.api.operations.search import recall
from daemon.dream.snapshot import snapshot
from daemon.upkeep.forget import forget, unforget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import Store, utc_now
from state.bootstrap import bootstrap
from state.dream import Kind, Reason
from state.scratch import Note
from state.signals.curiosity import Cause
from tests.support.committing import dreamt
from tests.support.working import document, noted

ASKED = "How often does the harvest feed publish"
ANSWER = "The harvest feed publishes every 15 s"
OTHERS = ("Ada prefers tea", "The ledger is SQLite", "The office is in Hamburg-Altona")


def asked_at_the_dream(store: Store) -> list[str]:
    read = snapshot(store, (), (), "20260101T000000Z", Reason.MANUAL, utc_now())
    return [piece.text for piece in read.evidence if piece.kind is Kind.GAP]


def miss(store: Store, query: str = ASKED) -> None:
    store.questions.raise_(f"What is known about: {query}?", Cause.MISS, utc_now())


def test_a_question_that_nothing_answers_is_written(store: Store) -> None:
    noted(store, *OTHERS)
    assert not recall(store, ASKED, agent="codex").good
    dreamt(store)
    assert f"- What is known about: {ASKED}?\n" in document(store)


@pytest.mark.parametrize("when", ["before", "after", "in the same dream", "by hand"])
def test_a_question_with_an_answer_is_not(store: Store, when: str) -> None:
    noted(store, *OTHERS, *[ANSWER] * (when == "before"))
    dreamt(store)
    miss(store)
    noted(store, "Rex is a dog", *[ANSWER] * (when != "before"))
    if when == "after":
        dreamt(store)
        miss(store)
        noted(store, "Bello is a dog")
    elif when == "by hand":
        path = store.workspace.document
        path.write_text(document(store).replace("- Ada", f"- {ANSWER}\n- Ada"), encoding="utf-8")
    dreamt(store)
    assert ASKED not in document(store)
    assert ANSWER in document(store)


def test_a_text_that_asks_the_same_is_no_answer(store: Store) -> None:
    noted(store, *OTHERS)
    dreamt(store)
    miss(store)
    noted(store, f"{ASKED}? Nobody says so", f"{ASKED}?")
    dreamt(store)
    assert f"- {ASKED}?" in document(store)


SECRET = "The vault code of Wren is 8812"


@pytest.mark.parametrize("query", ["vault code of Wren", "Wren vault code", "which code has Wren's vault", SECRET])
def test_no_question_has_only_words_that_are_forgotten(store: Store, query: str) -> None:
    noted(store, *OTHERS, f"{OTHERS[0]}. {SECRET}.")
    miss(store, query)
    miss(store, "vault code of Robin")
    dreamt(store, *OTHERS)
    path = store.workspace.document
    line = f"- What is known about: {query}?\n"
    path.write_text(document(store).replace(line, "").rstrip("\n") + f"\n{line}", encoding="utf-8")
    assert forget(store, ForgetRequest(SECRET), utc_now()).clean
    assert line not in document(store)
    recall(store, query, agent="codex")
    miss(store, query)
    assert asked_at_the_dream(store) == []
    assert [gap.question for gap in store.questions.all()] == ["What is known about: vault code of Robin?"]
    unforget(store.connection, SECRET, utc_now())
    miss(store, query)
    assert f"What is known about: {query}?" in [gap.question for gap in store.questions.all()]


def given(*rows: str, note: str = "Rex is a dog") -> str:
    return bootstrap("\n".join(rows), [Note(note, utc_now())], 200_000).memory


def test_no_session_is_given_a_question_that_is_answered_above_it() -> None:
    asked = "## Curiosity Gaps", "", f"- What is known about: {ASKED}?", "- Which region holds the backups?"
    above = "# Working Memory State", "", "## Active Context", ""
    assert given(*above, f"- {ANSWER}", "", *asked).count("?") == 1
    assert given(*above, "- Rex is a dog", "", *asked).count("?") == 2
    assert given(*above, "- Rex is a dog", "", *asked, note=ANSWER).count("?") == 1
    assert "Curiosity" not in given(*above, f"- {ANSWER}", "", *asked[:3])
    assert given(*above, f"- {ANSWER}", "", *asked[:2], f"{asked[2]} 📌").count("?") == 1
