"""Lines that are about the same, so that the newer one comes first and the older one counts less."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from state.changes.change import CurrentLine
from state.changes.likeness import Likeness, by_meaning
from state.document.sections import SectionName
from state.trust import Trust

NOW = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
OTHERS = ("Grace plays chess.", "The importer is slow.", "Anna lives in Bonn.")


def line(number: int, text: str) -> CurrentLine:
    born = NOW + timedelta(minutes=number)
    return CurrentLine(f"L{number}", SectionName.CONTEXT, text, 0.5, Trust.AGENT, born)


@pytest.mark.parametrize(
    ("older", "newer", "is_alike"),
    [
        ("The deploy host is atlas at port 2222.", "The deploy host atlas has port 2022.", True),
        ("The freeze of the deploy begins on 2 April.", "The freeze of the deploy begins on 3 April.", False),
        ("The freeze of the deploy begins on 2 April.", "The freeze of the deploy begins on 2026-04-02.", True),
        ("The freeze of the deploy begins on 2 April.", "The freeze of the deploy begins.", True),
        ("The deploy host is atlas.", "Ada likes tea.", False),
    ],
)
def test_lines_that_share_rare_words_are_alike_unless_they_name_different_days(
    older: str,
    newer: str,
    is_alike: bool,  # noqa: FBT001 - a case
) -> None:
    first, last = line(1, older), line(9, newer)
    found = Likeness([first, *(line(n, text) for n, text in enumerate(OTHERS, 2)), last])
    near = found.older(last).get("L1", 0.0)
    assert (near > 0.4) is is_alike
    assert not is_alike or found.to_newer(first) == near
    assert (found.to_newer(last), found.older(first)) == (0.0, {})


def test_of_two_lines_of_one_moment_the_one_with_the_lower_number_is_older() -> None:
    lines = [replace(line(number, "The host is atlas."), born_at=NOW) for number in (10, 9)]
    assert Likeness(lines).older(lines[0]) == {"L9": pytest.approx(1.0)}
    assert by_meaning(lines, [[1.0, 0.7], [0.7, 1.0]]) == {"L10": {"L9": 0.7}, "L9": {}}
