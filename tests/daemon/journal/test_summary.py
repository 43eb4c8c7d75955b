"""A run in a sentence, in words of people: nothing of an exception, an address or a server's page is in it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from daemon.journal.dream import DreamRun
from daemon.journal.summary import Kind, ended, local_time, owners_acts, summary, topics
from state.budget import Spend
from state.stores.database.tables import Run
from state.stores.history.lineage import Version

AT = datetime(2026, 11, 26, 23, 10, tzinfo=UTC)


def version(cause: str = "dream", reason: str = "", **counts: int) -> Version:
    every = dict.fromkeys(("added", "revised", "recalled", "evicted", "closed", "asked", "notes"), 0) | counts
    return Version(
        number=7, at=AT, cause=cause, reason=reason, dream="d", model="m", calls=1, tokens=9, usd=0.0, seconds=17.0,
        characters=100, **every,
    )  # fmt: skip


def run(outcome: str = "committed", detail: str = "", **fields: Any) -> DreamRun:
    row = Run(id="d", started_at=AT, ended_at=AT, reason="idle", outcome=outcome, detail=detail)
    return replace(DreamRun(row, None, "m", Spend(), 0.0), **fields)


def dream(usd: float = 0.0, about: tuple[str, ...] = (), detail: str = "", **counts: int) -> DreamRun:
    made = version("dream", "", **counts)
    return run(detail=detail, version=made, spent=Spend(1, 9, usd), seconds=17.0, about=about)


def test_a_dream_says_what_it_did_and_what_it_cost() -> None:
    said = summary(dream(0.0012, ("Morning summaries: before 9:00",), added=3, revised=2, notes=9))
    assert (said.kind, str(said), said.about) == (Kind.DREAM, "Learnt 3, changed 2.", "Morning summaries")
    assert said.figures == "9 notes · $0.0012 · 17 s"
    every = summary(dream(added=1, revised=1_200, recalled=4, closed=5, evicted=2, asked=2, notes=1))
    assert str(every) == "Learnt 1, changed 1,200, brought back 4, answered 5, put away 2. It asks you about 2."
    assert every.figures == "1 note · 17 s"
    assert str(summary(dream(asked=1))) == "It asks you about 1."
    assert (str(summary(run())), summary(run()).kind) == ("Nothing new.", Kind.NOTHING)


def test_what_it_was_about_are_the_short_beginnings_of_lines() -> None:
    texts = ("Morning summaries: before 9:00", "The XML parser is fixed. It was slow.", "Standup is at 9:45", "More")
    assert topics(texts) == "Morning summaries; The XML parser is fixed; Standup is at 9:45 …"
    assert topics(("a word of " + "x" * 90,)) == "a word of …"
    assert topics(("y" * 90,)) == f"{'y' * 40} …"
    assert topics(("by bus, " + "x" * 90,)) == "by bus …"
    assert topics(()) == ""


SERVER = "the model's server"
GONE = "something went wrong that dreamd does not know"


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ("MODEL_ERROR: m at http://h:1/v1 failed (500) (tries: 4); try later.", f"{SERVER} answered 500 four times"),
        ("MODEL_ERROR: m failed (503) (tries: 9, the provider asks …)", f"{SERVER} answered 503 9 times"),
        ("MODEL_ERROR: m cannot be reached (tries: 4); check model.api_base", f"{SERVER} could not be reached"),
        ("MODEL_ERROR: m did not answer within 60 s (tries: 2)", "the model did not answer within 60 s"),
        ("MODEL_ERROR: m refused the request (418): <html>teapot</html>", f"{SERVER} refused the request"),
        ("MODEL_ERROR: openai/x: its key is missing; set OPENAI_API_KEY", "the key for the model is missing"),
        ("CEILING: limits.usd_per_day: one more call", "what the model may cost in a day is used up"),
        ("interrupted before it had said anything", "it was interrupted"),
        ("ZeroDivisionError: division by zero", GONE),
    ],
)  # fmt: skip
def test_a_failure_says_why_and_nothing_of_the_program(detail: str, said: str) -> None:
    assert str(summary(run("failed", detail))) == f"Failed: {said}. Nothing changed."
    assert ended(run("failed", detail), None) == f"Failed: {said}; your notes wait."


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ("the answer changes nothing and names no note; refused: L1", "the model's answer used none of the notes"),
        ("schema: 3 fields, at byte 9", "the model's answer could not be read"),
    ],
)  # fmt: skip
def test_a_refused_dream_failed_too(detail: str, said: str) -> None:
    found = summary(run("rejected", detail, spent=Spend(3, 9, 0.01), seconds=130.0))
    assert (str(found), found.kind) == (f"Failed: {said}. Nothing changed.", Kind.FAILED)
    assert found.figures == "$0.01 · 2 min"


def test_a_failure_says_what_became_of_its_notes() -> None:
    failed = run("failed", "interrupted", notes=11)
    told = {
        None: "Its 11 notes wait.",
        AT + timedelta(minutes=9): "Its 11 notes came in later that day.",
        AT + timedelta(hours=4): "Its 11 notes came in the next day.",
        AT + timedelta(days=3): "Its 11 notes came in 3 days later.",
    }
    for taken_at, said in told.items():
        assert str(summary(replace(failed, taken_at=taken_at))) == f"Failed: it was interrupted. {said}"
    assert str(summary(replace(failed, notes=1))).endswith("Its note waits.")
    assert summary(failed).figures == "11 notes · $0"


def test_a_dream_without_its_model_and_one_that_withheld_say_so() -> None:
    failed = "the model failed, extractive instead: m failed (500) (tries: 4); try later."
    assert str(summary(dream(detail=failed, added=1))) == (
        "Learnt 1. Without the model: the model's server answered 500 four times."
    )
    assert str(summary(dream(detail="2 texts withheld: forgotten", added=1))) == (
        "Learnt 1. It left out 2 that you had forgotten."
    )


def test_a_skip_says_what_was_missing_and_how_often() -> None:
    skipped = run("skipped", "0 new, 1 wanted")
    assert str(summary(skipped)) == "Nothing new."
    often = replace(skipped, run=replace(skipped.run, detail="2 new, 5 wanted", times=12))
    assert str(summary(often)) == "2 of 5 that a dream wants, 12 times in a row."


def test_what_the_owner_did_is_counted_over_several_versions() -> None:
    made = [
        version("review", reason="accepted 1, 2, 5; declined 4"),
        version("review", reason="accepted 9"),
        version("edit", reason="1 edited, 2 pinned"),
        version("edit", reason="wrong"),
        version("undo", reason="changes 12.3, 12.4"),
        version("human", revised=1, closed=2),
        version("restore", reason="version 5"),
    ]
    said = owners_acts(run(version=one) for one in made)
    assert str(said) == (
        "You: accepted 4 · declined 1 · edited 2 · pinned 2 · put right 1 · undid 2 · deleted 2 · restored version 5"
    )
    assert summary(run(version=made[1])) == replace(said, said="accepted 1")


def test_a_dream_that_was_asked_for_is_told_by_how_it_ended() -> None:
    assert ended(dream(0.001, added=2, revised=1), None) == "Learnt 2, changed 1, $0.001."
    assert ended(dream(0.001, added=2, asked=1), None) == "Learnt 2, $0.001. It asks you about 1."
    assert ended(run("skipped", "0 new, 1 wanted"), AT) == "Nothing new since 23:10."
    assert ended(run(), AT) == "Nothing new since 23:10."


def test_a_moment_is_said_as_people_say_it() -> None:
    assert local_time(AT, AT) == "Thu 26 Nov, 23:10"
    assert local_time(AT, AT + timedelta(days=60)) == "Thu 26 Nov 2026, 23:10"
