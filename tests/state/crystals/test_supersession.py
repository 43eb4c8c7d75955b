"""Of the values of a subject the last one is current, wherever one begins."""

import pytest

from state.crystals.supersession import current_values


@pytest.mark.parametrize(
    ("pairs", "current"),
    [
        ([], {}),
        ([(1, 2)], {1: 2}),
        ([(1, 2), (2, 3)], {1: 3, 2: 3}),
        ([(1, 2), (1, 3)], {1: 3}),
        ([(1, 3), (2, 3), (4, 5)], {1: 3, 2: 3, 4: 5}),
        ([(1, 2), (2, 1)], {1: 2}),
        ([(1, 2), (2, 3), (3, 1)], {1: 3, 2: 3}),
        ([(2, 1), (1, 4), (4, 1)], {2: 4, 1: 4}),
    ],
    ids=["none", "one", "a chain", "two ends", "two subjects", "back and forth", "a circle", "a way into a circle"],
)
def test_the_last_value_said_at_the_end_is_current(pairs: list[tuple[int, int]], current: dict[int, int]) -> None:
    assert current_values(pairs, {row: f"2026-03-0{row}" for row in range(1, 6)}) == current
    at_once = dict.fromkeys(range(1, 6), "2026-03-01")
    assert current_values(pairs, at_once) == current
