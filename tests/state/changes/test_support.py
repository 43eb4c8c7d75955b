"""What of a line none of its evidence has: numbers, dates and names, and no other word."""

import json
import re
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes.support import Said, unsupported
from state.changes.values import names_in

DAY = date(2026, 11, 15)  # a Sunday
HONEST = sorted((Path(__file__).parents[2] / "redteam" / "corpora").glob("honest_[abc].jsonl"))


def marked(line: str, *evidence: str, day: date = DAY, names: str = "") -> list[str]:
    spans = unsupported(line, tuple(Said(text, day) for text in evidence), names_in(names))
    return [line[one.start : one.end] for one in spans]


@pytest.mark.parametrize(
    ("line", "evidence", "found"),
    [
        ("Standup is at 9:45.", "The standup moved to 9.45", []),
        ("Standup is at 10:45.", "The standup moved to 9.45", ["10:45"]),
        ("Pavel Novak leaves in 2026.", "pavel (Novak) said he would go this year", []),
        ("Pavel Nowak stays.", "pavel (Novak) stays", ["Nowak"]),
        ("She asked Mara's office for 1,000 tonnes.", "Mara: one thousand tonnes, please", []),
        ("Wants brief answers, as ever.", "Keep it short", []),
        ("Kommt aus Brno, sagt Paul.", "Pauls Eltern sind aus Brno", []),
        ("Сертификат продлевает Алина Юсупова.", "Сертификатом занята Алине Юсуповой", []),
        ("Сертификат продлевает Ирина.", "Сертификатом занята Алина", ["Ирина"]),
        ("会议在9:45开始，由Mara主持", "Mara：会议9点45分", []),
        ("会议在9:50开始，由Lena主持", "Mara：会议9点45分", ["9:50", "Lena"]),
        ("担当はキムラ・アンナ、連絡はスミス", "スミスさんと木村アンナ", ["キムラ"]),
        ("Three builds a day.", "3 builds each day", []),
        ("Four builds a day.", "3 builds each day", ["Four"]),
        ("Run `bidtable.py --lot 4`.", "bidtimes.py --lot 4 does it", ["bidtable"]),
        ("Reports go to /volume1/plans/out.", "plans go out to volume1", []),
        ("The API is v3.", "application programming interface, version 3", []),
        ("Ask Mara or Ben.", "ask Mara or ben", []),
        ("Vacation from 14-20 December.", "away 14 December until the 20th", []),
    ],
)
def test_numbers_and_names_are_compared_in_any_form(line: str, evidence: str, found: list[str]) -> None:
    assert marked(line, evidence) == found


@pytest.mark.parametrize(
    ("evidence", "means", "not_meant"),
    [
        ("the demo is tomorrow", "16 November 2026", "26 November 2026"),
        ("Demo ist morgen", "16.11.2026", "18.11.2026"),
        ("demo on Friday", "20 November", "19 November"),
        ("la demo es el viernes", "2026-11-20", "2026-11-18"),
        ("demo on the 24th", "24 November 2026", "25 November 2026"),
        ("demo on 3 January", "2027-01-03", "2026-02-03"),
        ("демо в среду", "18 ноября", "19 ноября"),
        ("デモは水曜日", "11月18日", "11月19日"),
        ("the demo is on Friday 20 November", "2026-11-20", "2026-11-27"),
        ("the demo is next month", "7 December", "7 May"),
        ("demo 20.11.", "20 November 2026", "21 November 2026"),
        ("the demo is in December", "in December 2026", "in December 2027"),
        ("we had the demo", "15 November 2026", "13 November 2026"),
    ],
)
def test_a_day_may_follow_from_when_it_was_said(evidence: str, means: str, not_meant: str) -> None:
    assert marked(f"- demo: {means}", evidence) == []
    assert marked(f"- demo: {not_meant}", evidence) != []


def test_a_weekday_may_follow_from_a_date() -> None:
    assert marked("Demo on Friday.", "demo on 20 November") == []
    assert marked("Demo on Thursday.", "demo on 20 November") == ["Thursday"]


def test_a_sentence_begins_with_a_name_if_the_memory_or_its_note_says_so() -> None:
    assert marked("Briefly, ask Mara.", "Mara is asked") == []
    assert marked("Lena is asked.", "call the lead") == []
    assert marked("Lena is asked.", "call the lead", names="Then ask Lena.") == ["Lena"]
    assert marked("Lena is asked.", "call the lead", names="- Ask her (Ada)\n- Lena knows") == []
    assert marked("Lena runs the standup.", "Mara runs the standup") == ["Lena"]


def test_of_more_than_is_read_nothing_is_said() -> None:
    assert marked("Port 8443", "port 80 " * 20_000) == []


WORDS = st.sampled_from(
    "Mara 9:45 Пётр three 16 November Friday 2026-11-20 /etc/x.conf 東京 5 pm a the ж 1,000 Straße".split(" ")
)
TEXTS = st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=12).map(" ".join)
DAYS = st.dates()


@given(TEXTS, DAYS)
def test_a_text_supports_itself(text: str, day: date) -> None:
    assert marked(text, text, day=day, names=text) == []


@given(TEXTS, TEXTS, TEXTS, DAYS)
def test_marks_are_in_the_line_apart_and_fewer_with_more_evidence(line: str, one: str, other: str, day: date) -> None:
    spans = unsupported(line, (Said(one, day),))
    ends = [place for span in spans for place in (span.start, span.end)]
    assert ends == sorted(ends)
    assert all(0 <= place <= len(line) for place in ends)
    assert {*unsupported(line, (Said(one, day), Said(other, day - timedelta(days=day > date.min))))} <= {*spans}


@given(st.integers(10, 10**6), st.integers(10, 10**6), DAYS)
def test_another_number_is_marked(said: int, written: int, day: date) -> None:
    expected = [] if said == written else [f"{written}"]
    if len(f"{written}") != 4:  # it may be a year
        assert marked(f"port {written} is open", f"port {said}", day=day) == expected


def test_honest_lines_are_hardly_ever_marked_and_a_changed_number_always() -> None:
    """Notes and lines in nine languages; of the real dreams with a model that were played, 3 to 11 % had a mark."""
    pairs = [json.loads(row) for file in HONEST for row in file.read_text("utf-8").splitlines()]
    honest = [one for one in pairs if marked(one["line"], one["text"])]
    assert len(honest) <= 0.005 * len(pairs), [(one["line"], one["text"]) for one in honest]
    changed = missed = 0
    for one in pairs:
        for number in re.finditer(r"\d{2,}", one["line"]):
            other = str(int(number[0]) + 11)
            line = f"{one['line'][: number.start()]}{other}{one['line'][number.end() :]}"
            if other not in one["text"]:
                changed += 1
                missed += not marked(line, one["text"])
    assert (changed > 250, missed <= 0.01 * changed) == (True, True), (changed, missed)
