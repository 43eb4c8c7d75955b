import pytest

from state.sessions.ids import promoted_id, working_id
from tests.state.sessions.shelves import START


def free(_: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("session", "content", "expected"),
    [
        ("user-session-123", "Keep this", "working_memory_user-session-123-Keep this_20260312-143000"),
        (
            "user-session-123",
            "Meeting notes from today's standup",
            "working_memory_user-session-123-Meeting notes from t_20260312-143000",
        ),
        ("s", "Important info that needs", "working_memory_s-Important info that_20260312-143000"),
        ("../../etc", "a/b\\c\n\td\x00e\u202e", "working_memory_../../etc-a b c de_20260312-143000"),
        ("", "\ud800", "working_memory_-_20260312-143000"),
    ],
)
def test_an_id_says_where_how_it_begins_and_when(session: str, content: str, expected: str) -> None:
    assert working_id(session, content, START, free) == expected


def test_the_beginning_is_twenty_code_points() -> None:
    assert working_id("s", "🙂" * 25, START, free) == "working_memory_s-" + "🙂" * 20 + "_20260312-143000"


def test_what_is_taken_gets_a_number() -> None:
    taken: set[str] = set()
    for _ in range(40):
        taken.add(working_id("s", "x", START, taken.__contains__))
    base = "working_memory_s-x_20260312-143000"
    assert taken == {base, *(f"{base}-{number}" for number in range(2, 41))}


def test_the_ten_thousandth_of_one_second_asks_a_few_times() -> None:
    base = "working_memory_s-x_20260312-143000"
    asked: list[str] = []

    def taken(name: str) -> bool:
        asked.append(name)
        return name == base or int(name.rsplit("-", 1)[1]) < 10_000

    assert working_id("s", "x", START, taken) == f"{base}-10000"
    assert len(asked) <= 30


def test_a_promoted_id_names_the_item_and_the_moment() -> None:
    working = "working_memory_user-session-123-Important info_20241222-150000"
    assert promoted_id(working, START) == f"memory_promoted_{working}_20260312-143000"
