"""Words, chunks and differences of texts in any script."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.forgetting.folded import fold
from state.text import words
from state.text.chunks import CHUNK_TOKENS, OVERLAP_TOKENS, chunk, tokens
from state.text.word_diff import Part, word_diff
from state.text.words import terms


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


def test_what_would_be_no_word_any_more_stays() -> None:
    assert [words.stem(word) for word in ("gas", "being", "string", "sees")] == ["gas", "being", "string", "see"]


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


def test_lines_are_equal_whatever_hides_in_them() -> None:
    assert words.normalise("User\u200b prefers\u00a0 TABS\u202e\n") == words.normalise("user prefers tabs")
    assert words.normalise("cafe\u0301") == words.normalise("CAFÉ")
    assert words.normalise("tabs") != words.normalise("spaces")


def test_a_text_that_fits_is_one_chunk() -> None:
    assert chunk("User's name is Douglas.") == ("User's name is Douglas.",)
    assert chunk(" \n ") == ()


def test_chunks_are_as_long_as_they_may_be_and_overlap() -> None:
    words = [f"word{number:04d}" for number in range(1_000)]
    chunks = chunk(" ".join(words))
    assert all(tokens(piece) <= CHUNK_TOKENS for piece in chunks)
    assert len(chunks) <= 1_000 * 2 / (CHUNK_TOKENS * 2 / 3 - OVERLAP_TOKENS) + 1
    for before, after in itertools.pairwise(chunks):
        shared = set(before.split()) & set(after.split())
        assert 0 < len(shared) * 2 <= OVERLAP_TOKENS


@pytest.mark.parametrize("said", ["日本語", "ภาษาไทย", "ພາສາລາວ", "བོད་སྐད", "မြန်မာစာ", "ភាសាខ្មែរ", "한국어"])
def test_each_sign_of_a_script_without_spaces_is_a_token(said: str) -> None:
    assert tokens(said) >= len(said) * 0.7  # marks may count with their letters
    assert tokens(f"{said}abcd") == tokens(said) + 1
    assert len(terms(said * 3)) > 3
    assert len(fold(said * 3).words) > 3


def test_a_chunk_ends_at_a_paragraph_when_one_is_near_and_an_endless_word_is_cut() -> None:
    paragraph = "The bridge was slow today. " * 20
    assert all(piece.endswith("today.") for piece in chunk("\n\n".join([paragraph.strip()] * 8)))
    assert all(tokens(piece) <= CHUNK_TOKENS for piece in chunk("x" * 10_000))


@given(st.text(alphabet=st.sampled_from("ab. \n日本é-_😀"), max_size=6_000))
def test_no_character_is_lost(text: str) -> None:
    chunks, at = chunk(text), 0
    covered = [False] * len(text)
    for piece in chunks:
        assert piece
        assert tokens(piece) <= CHUNK_TOKENS
        start = text.find(piece, at)
        start = start if start >= 0 else text.find(piece)
        assert start >= 0
        at = start
        covered[start : start + len(piece)] = [True] * len(piece)
    assert all(done or character.isspace() for done, character in zip(covered, text, strict=True))


_PARTS = st.lists(
    st.sampled_from(["the ", "port", " 8080", "9090", ".", "\n", "茶", "を", "é", "  ", "_", "<b>"]), max_size=30
)
_TEXTS = _PARTS.map("".join) | st.text(st.characters(exclude_categories=()), max_size=40)


def joined(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts)


def same(parts: tuple[Part, ...]) -> list[str]:
    return [part.text for part in parts if not part.changed]


@given(_TEXTS, _TEXTS)
@example("word " * 1_000, "word " * 1_001)
def test_joined_again_the_parts_are_the_texts(old: str, new: str) -> None:
    before, after = word_diff(old, new)
    assert joined(before) == old
    assert joined(after) == new
    assert same(before) == same(after)
    assert all(part.text for part in (*before, *after))
    assert [part.changed for part in before if part.changed] == [] or old != new


def test_of_scripts_without_spaces_a_character_is_a_word() -> None:
    before, after = word_diff("明日は晴れ", "明日は雨")
    assert same(before) == same(after) == ["明日は"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("10:00", "9:45"), ("2026-11-05", "2026-11-26"), ("1,000.50", "1,100.50"), ("3/4", "3/5"), ("v1.2.3", "v1.2.4")],
)
def test_a_date_a_time_and_a_number_change_as_a_whole(old: str, new: str) -> None:
    before, after = word_diff(f"Standup is at {old}.", f"Standup is at {new}.")
    assert [(part.text, part.changed) for part in before] == [("Standup is at ", False), (old, True), (".", False)]
    assert [part.text for part in after if part.changed] == [new]


def test_long_texts_are_compared_as_wholes() -> None:
    old, new = "a b " * 1_000, "a c " * 1_000
    assert word_diff(old, new) == ((Part(old, changed=True),), (Part(new, changed=True),))
