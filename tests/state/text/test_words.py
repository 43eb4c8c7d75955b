import pytest

from state.text import words


def test_words_of_any_script_are_casefolded() -> None:
    assert words.terms("Straße, GROẞ und Ünïcode_x2!") == ("strasse", "gross", "und", "ünïcode", "x2")
    assert words.terms("Привет, МИР") == ("привет", "мир")
    assert words.terms("हिन्दी में लिखो") == ("हिन्दी", "में", "लिखो")


def test_a_contracted_not_is_a_word_of_its_own_and_a_possessive_is_none() -> None:
    assert words.terms("It doesn't; can't, won’t, cannot") == (
        *("it", "does", "not", "can", "not", "will", "not", "can", "not"),
    )
    assert words.terms("The user's, the user’s") == ("the", "user", "the", "user")


def test_scripts_without_spaces_are_cut_into_pairs() -> None:
    assert words.terms("東京都") == ("東京", "京都")
    assert words.terms("用Python3写") == ("用", "python3", "写")
    assert set(words.terms("ภาษาไทย")) > {"ภา", "ทย"}
    assert words.jaccard(words.terms("用户喜欢喝咖啡"), words.terms("用户喜欢喝茶")) > 0.4


def test_stop_words_leave_and_negations_stay() -> None:
    assert words.content_terms("The user does not like the tabs") == {"user", "not", "tab"}
    assert words.content_terms("Der Nutzer mag die Tests nicht") == {"nutzer", "mag", "die", "test", "nicht"}
    assert "no" in words.content_terms("There are no errors")


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
