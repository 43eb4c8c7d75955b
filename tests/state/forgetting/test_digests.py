"""Sums and marks are the same for a text of few words and, by numpy, for one of many."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from state.forgetting import digests
from state.forgetting.digests import mark_of_run, marked_places, sums_of, value_of

SALT = "0f" * 16
WORDS = st.lists(st.sampled_from(["ada", "tea", "é", "", "\ud800", "8080"]), min_size=3, max_size=12)


def summed(words: Sequence[str]) -> list[int]:
    sums = [0]
    for word in words:
        sums.append((sums[-1] * 31 + value_of(SALT, word)) % 2**64)
    return sums


@given(words=WORDS, times=st.sampled_from([1, digests._MANY]))
def test_a_run_is_found_by_its_mark_however_long_the_text(words: list[str], times: int) -> None:
    text = words * times
    sums = sums_of(SALT, text)
    assert list(map(int, sums)) == summed(text)
    first = mark_of_run(SALT, words[:3])
    places = marked_places(sums, 3, {first})
    assert set(range(0, len(text), len(words))) <= {at for at, _ in places}
    assert all(mark_of_run(SALT, text[at : at + 3]) == mark == first for at, mark in places[:9])
