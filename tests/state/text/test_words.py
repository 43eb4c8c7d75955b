import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.text import words


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Straße, GROẞ und Ünïcode_x2!", "strasse gross und ünïcode x2"),
        ("Привет, МИР", "привет мир"),
        ("हिन्दी में लिखो", "हिन्दी में लिखो"),
        ("It doesn't; can't, won’t, cannot", "it does not can not will not can not"),
        ("The user's, the user’s", "the user the user"),
        ("東京都", "東京 京都"),
        ("用Python3写", "用 python3 写"),
    ],
)
def test_words_of_any_script(text: str, terms: str) -> None:
    assert words.terms(text) == tuple(terms.split())
    assert set(words.terms("ภาษาไทย")) > {"ภา", "ทย"}
    assert words.jaccard(words.terms("用户喜欢喝咖啡"), words.terms("用户喜欢喝茶")) > 0.4


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("The user does not like the tabs", {"user", "not", "tab"}),
        ("Der Nutzer mag die Tests nicht", {"nutzer", "mag", "die", "test", "nicht"}),
        ("There are no errors", {"no", "error"}),
    ],
)
def test_stop_words_leave_and_negations_stay(text: str, content: set[str]) -> None:
    assert words.content_terms(text) == content


@pytest.mark.parametrize(
    ("one", "other"),
    [("queries", "query"), ("prefers", "preferred"), ("merging", "merges"), ("tested", "tests"), ("class", "class")],
)
def test_forms_of_a_word_fold_together(one: str, other: str) -> None:
    assert words.stem(one) == words.stem(other)


def test_numbers_are_read_in_any_digits() -> None:
    assert words.numbers("8,000 chars, v1.2.3 at 17:30 on 2026-03-20, the 20th, ٤٢ and ３.５") == (
        *("8000", "1.2.3", "17:30", "2026-03-20", "20", "42", "3.5"),
    )


def test_what_is_raised_or_wide_is_another_line_and_is_found_by_its_plain_letters() -> None:
    for one, other in (("10² m", "102 m"), ("x²", "x2"), ("ＴＡＢＳ", "tabs"), ("½ cup", "1⁄2 cup")):
        assert words.normalise(one) != words.normalise(other)
        assert words.search_form(one) == words.search_form(other)
        assert words.terms(one) == words.terms(other)


SETS = st.frozensets(st.text(max_size=3), max_size=8)


@given(st.text(max_size=200))
def test_normalising_twice_is_once_and_keeps_the_words_which_are_letters_digits_and_marks(text: str) -> None:
    once = words.normalise(text)
    assert words.normalise(once) == once
    assert words.terms(once) == words.terms(text)
    for term in words.terms(text):
        assert term
        assert not any(char.isspace() or char in "-_.,!?`#" for char in term)


@given(SETS, SETS)
def test_jaccard_is_symmetric_and_bounded(a: frozenset[str], b: frozenset[str]) -> None:
    assert 0.0 <= words.jaccard(a, b) == words.jaccard(b, a) <= 1.0
    assert (words.jaccard(a, b) == 1.0) == (a == b and bool(a))


@given(st.text(alphabet="abcdeiglnrsy", min_size=1, max_size=12))
def test_folding_never_empties_a_word(word: str) -> None:
    assert words.stem(word)


def test_lines_are_equal_whatever_hides_in_them() -> None:
    assert words.normalise("User\u200b prefers\u00a0 TABS\u202e\n") == words.normalise("user prefers tabs")
    assert words.normalise("cafe\u0301") == words.normalise("CAFÉ")
    assert words.normalise("tabs") != words.normalise("spaces")
