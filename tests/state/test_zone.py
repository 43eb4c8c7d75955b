"""The owner's calendar: days, the moments that people write, and differences on the days when clocks are changed."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from graphs import talk
from graphs.extractive import additions
from graphs.room import leaving
from graphs.sheet import Sheet
from state.search.dates import Period, last_day_named, periods_in
from state.zone import clock_time, day_of, full_time, instant, local
from tests.graphs.world import memory, note, snapshot

NEW_YORK, AUCKLAND, KOLKATA = map(ZoneInfo, ("America/New_York", "Pacific/Auckland", "Asia/Kolkata"))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


# The zone, when a note was said, what it says, and the last day that it names.
SAID = [
    (NEW_YORK, "2026-11-28T01:30Z", "Pay the florist by 27 November.", "2026-11-27"),
    (NEW_YORK, "2026-11-28T05:00Z", "Pay the florist by 27 November.", "2027-11-27"),
    (NEW_YORK, "2027-01-01T04:59Z", "Send the report by 31 December.", "2026-12-31"),
    (AUCKLAND, "2026-11-27T13:30Z", "Pay the florist by 27 November.", "2027-11-27"),
    (AUCKLAND, "2026-11-27T10:59Z", "Pay the florist by 27 November.", "2026-11-27"),
    (KOLKATA, "2026-11-27T18:29Z", "Pay the florist by 27 November.", "2026-11-27"),
    (KOLKATA, "2026-11-27T18:30Z", "Pay the florist by 27 November.", "2027-11-27"),
    (UTC, "2026-11-27T23:59Z", "Pay the florist by 27 November.", "2026-11-27"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "said_at", "text", "until"), SAID)
def test_a_deadline_is_a_day_of_the_owner(zone: ZoneInfo, said_at: str, text: str, until: str) -> None:
    assert last_day_named(text, local(at(said_at), zone)) == until
    piece = replace(note(1, text), at=at(said_at))
    (made,) = additions(Sheet(snapshot("", piece, zone=zone)), [piece])
    assert made.until == until


@pytest.mark.parametrize(
    ("zone", "now", "question", "wanted"),
    [
        (AUCKLAND, "2026-11-27T13:30Z", "What did we do yesterday?", [date(2026, 11, 27)]),
        (NEW_YORK, "2026-11-28T01:30Z", "What did we do today?", [date(2026, 11, 27)]),
        # Clocks are put back on 1 November: that day has 25 hours, and the day before it is still yesterday.
        (NEW_YORK, "2026-11-02T04:30Z", "What did we do yesterday?", [date(2026, 10, 31)]),
        (NEW_YORK, "2026-03-09T03:30Z", "What did we do yesterday?", [date(2026, 3, 7)]),
        (KOLKATA, "2026-11-29T20:00Z", "What did we do last week?", [date(2026, 11, day) for day in range(23, 30)]),
        (AUCKLAND, "2026-12-31T11:00Z", "What did we do last year?", [2026]),
    ],
)
def test_a_question_names_days_of_the_owner(
    zone: ZoneInfo, now: str, question: str, wanted: list[date | int]
) -> None:
    expected = [Period(one) if isinstance(one, int) else Period(one.year, one.month, one.day) for one in wanted]
    assert periods_in(question, local(at(now), zone)) == tuple(expected)


def test_a_year_is_over_in_the_owners_january() -> None:
    assert not Period(2026).is_over(local(at("2027-01-01T04:59Z"), NEW_YORK))
    assert Period(2026).is_over(local(at("2027-01-01T05:00Z"), NEW_YORK))


def test_a_line_is_over_after_the_owners_midnight() -> None:
    text = memory(context=["Pay the florist.", "The release is planned."])
    for now, zone, first in (
        ("2026-11-28T04:59Z", NEW_YORK, "The release is planned."),
        ("2026-11-28T05:00Z", NEW_YORK, "Pay the florist."),
        ("2026-11-27T10:59Z", AUCKLAND, "The release is planned."),
        ("2026-11-27T11:00Z", AUCKLAND, "Pay the florist."),
    ):
        read = snapshot(text, now=at(now), zone=zone)
        florist, release = read.lines
        lines = (replace(florist, until="2026-11-27", importance=0.9), replace(release, importance=0.1))
        read = replace(read, lines=lines)
        assert leaving(Sheet(read))[0].text == first
        assert ("over" in talk.opening(read)[1]["content"].partition("Pay the florist")[0]) == (first[0] == "P")


def test_a_model_is_told_the_owners_time() -> None:
    piece = replace(note(1, "Tell Ingrid tomorrow."), at=at("2026-11-28T01:30:05Z"))
    read = snapshot(memory(bond=["A line."]), piece, now=at("2026-11-28T01:36Z"), zone=NEW_YORK)
    line = replace(read.lines[0], born_at=at("2026-11-27T03:00Z"))
    said = talk.opening(replace(read, lines=(line,)))[1]["content"]
    assert said.startswith("It is Friday 2026-11-27 20:36 UTC-05:00 (America/New_York). ")
    assert "N1 (2026-11-27 20:30, note" in said
    assert "L1 (2026-11-26, " in said


@pytest.mark.parametrize(
    ("zone", "text", "moment"),
    [
        (NEW_YORK, "2026-11-27", "2026-11-27T05:00+00:00"),
        (NEW_YORK, "2026-11-27T20:30", "2026-11-28T01:30+00:00"),
        (KOLKATA, "2026-11-27T00:15", "2026-11-26T18:45+00:00"),
        (AUCKLAND, "2026-11-27T20:30Z", "2026-11-27T20:30+00:00"),
        (AUCKLAND, "2026-11-27T20:30-05:00", "2026-11-28T01:30+00:00"),
        (NEW_YORK, "2026-03-08T02:30", "2026-03-08T07:30+00:00"),  # clocks skip this time
        (NEW_YORK, "2026-11-01T01:30", "2026-11-01T05:30+00:00"),  # and have this one twice
        (AUCKLAND, "0001-01-01", "0001-01-01T00:00+00:00"),  # Python has no earlier moment
    ],
)
def test_a_time_without_an_offset_is_the_owners(zone: ZoneInfo, text: str, moment: str) -> None:
    assert instant(at(text), zone) == at(moment)
    assert instant(at(text), zone).tzinfo is UTC


def test_times_are_shown_with_their_zone_and_keep_their_distance() -> None:
    moment = at("2026-11-28T01:36Z")
    assert (day_of(moment, NEW_YORK), day_of(moment, KOLKATA)) == ("2026-11-27", "2026-11-28")
    assert [clock_time(moment, zone) for zone in (NEW_YORK, KOLKATA, UTC)] == [
        "2026-11-27 20:36 EST", "2026-11-28 07:06 IST", "2026-11-28 01:36 UTC",
    ]  # fmt: skip
    assert full_time(moment, KOLKATA) == "Saturday 2026-11-28 07:06 UTC+05:30 (Asia/Kolkata)"
    assert full_time(moment, ZoneInfo("Etc/UTC")) == full_time(moment, UTC) == "Saturday 2026-11-28 01:36 UTC"
    midnights = [instant(at(text), NEW_YORK) for text in ("2026-11-01", "2026-11-02", "2026-03-08", "2026-03-09")]
    days = [local(one, NEW_YORK) for one in midnights]
    assert [days[1] - days[0], days[3] - days[2]] == [timedelta(hours=25), timedelta(hours=23)]
    assert local(datetime.max.replace(tzinfo=UTC), AUCKLAND).year == 9999
