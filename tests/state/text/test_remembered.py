"""What is remembered of texts is as much as their characters allow, however long each of them is."""

from hypothesis import given
from hypothesis import strategies as st

from state.text.remembered import remembered

texts = st.lists(st.text(alphabet="abc", max_size=300), max_size=60)


@given(texts)
def test_answers_are_those_of_the_function_and_what_is_kept_stays_within_its_bound(asked: list[str]) -> None:
    upper = remembered(1_000)(str.upper)
    for text in asked:
        assert upper(text) == text.upper()
        assert 0 <= upper.held <= 1_000
    upper.cache_clear()
    assert upper.held == 0


def test_what_was_asked_for_lately_is_not_computed_again() -> None:
    computed: list[str] = []

    def count(text: str) -> int:
        computed.append(text)
        return len(text)

    counted = remembered(1_000)(count)
    for text in ("a" * 300, "b" * 300, "a" * 300, "c" * 300, "a" * 300, "b" * 300, "d" * 2_000, "d" * 2_000):
        assert counted(text) == len(text)
    assert [text[0] for text in computed] == ["a", "b", "c", "b", "d", "d"]
