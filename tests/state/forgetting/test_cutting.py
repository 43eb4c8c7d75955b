"""Laws of forgetting: nothing that matches is left, nothing else goes, and doing it again changes nothing."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.errors import UsageError
from state.forgetting.cutting import Cut, Span, cut_all, cut_out, joined, sentences
from state.forgetting.known import RUN_WORDS, Target, spans, without
from state.forgetting.letters import letters_of
from tests.support.cases import cases

CASES = cases(__file__)

WORDS = st.sampled_from(
    "ada Ada tea İstanbul straße STRASSE e\u0301t\u00e9 été 東京都 한국 x 7731 don't forgotten".split()
)
GAPS = st.sampled_from([" ", "  ", "\n", ". ", "! ", ", ", "** ", "\n- ", "\n\n", '" ', "\\ ", "。", "_", "-"])
LONG = "we sell the Hamburg office to Orbit Holding in March and tell nobody before the board has met there"
TEXTS = st.lists(st.tuples(WORDS, GAPS).map("".join), max_size=30).map("".join)
TARGETS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join).map(Target.of)
CUTS = st.sampled_from(list(Cut))


@given(st.text(max_size=200), st.text(max_size=20), CUTS)
def test_no_match_is_left_of_any_text(text: str, wanted: str, cut: Cut) -> None:
    try:
        target = Target.of(wanted)
    except UsageError:
        assert letters_of(wanted).signs == ""
        return
    left = without(f"{text} {wanted} {text}", [target], cut)
    assert spans(left, [target]) == ()
    assert without(left, [target], cut) == left


@given(TEXTS, TARGETS, CUTS)
def test_a_text_without_a_match_stays_as_it_is(text: str, target: Target, cut: Cut) -> None:
    assert (without(text, [target], cut) == text) or spans(text, [target])


@pytest.mark.parametrize("cut", Cut)
def test_a_text_laid_around_itself_many_times_goes_in_few_turns(cut: Cut) -> None:
    target, turns = Target.of("ada tea"), 0

    def find(text: str) -> tuple[Span, ...]:
        nonlocal turns
        turns += 1
        return spans(text, [target])

    depth = 2_000
    left = cut_all("ada\n" * depth + "tea\n" * depth, find, cut)
    assert spans(left, [target]) == ()
    assert turns <= 30


@given(TEXTS, TARGETS)
def test_only_sentences_with_a_match_go_at_once(text: str, target: Target) -> None:
    """Of one cut: what goes are sentences that a match touches, and every other one is left, in its order."""
    found = spans(text, [target])
    if not found:
        return
    left = cut_out(text, found, Cut.SENTENCES)
    at = 0
    for start, end in sentences(text):
        touched = any(start < stop and begin < end for begin, stop in found)
        sentence = text[start:end].strip()
        if not touched and letters_of(sentence).signs and letters_of(left).signs:
            place = left.find(sentence, at)
            assert place >= 0, (sentence, left)
            at = place + len(sentence)
    assert len(letters_of(left.replace("[forgotten]", "")).signs) < len(letters_of(text).signs)


@given(st.lists(WORDS, min_size=1, max_size=60).map(" ".join), st.integers(0, 60), st.integers(1, 60))
@example(LONG, 0, RUN_WORDS)
@example(LONG, 11, RUN_WORDS)
@example(f"{'ada ' * 7}don't{' ada' * 8}", 9, 8)  # "that" ends as "don't" does
def test_whatever_is_cut_off_from_a_long_text_is_it(text: str, start: int, length: int) -> None:
    """Eight words at least, in a text of their own or in a line; a part that begins or ends the target, at an end."""
    target = Target.of(text)
    piece = " ".join(target.words[start : start + length])
    if len(target.words[start : start + length]) < min(RUN_WORDS, len(target.words)):
        return
    assert spans(piece, [target])
    assert spans(f"Before that.\n- {piece}\r\nAfter it.", [target])
    if start == 0:
        assert spans(f"He said {piece}", [target])
        assert spans(f"He said {piece} yo", [target])
    if start + length >= len(target.words):
        assert spans(f"{piece}, he said", [target])
        assert spans(f"yo {piece}, he said", [target])


@pytest.mark.parametrize(
    "text",
    [
        "https://wiki.example/?q=caf%C3%A9%20code%207731",
        "caf&eacute;&nbsp;code&#32;7731",
        "<p>caf&#xE9; <b>code</b><br/>7731</p>",
    ],
)
def test_escapes_do_not_hide_a_text(text: str) -> None:
    target = Target.of("café code 7731")
    assert spans(text, [target])
    for cut in Cut:
        assert spans(without(f"Bo is late. See {text}", [target], cut), [target]) == ()
        assert without(f"Bo is late. See {text}", [target], cut).startswith("Bo is late.")


@pytest.mark.parametrize(("text", "wanted", "left"), CASES["the_sentence_goes_and_no_more"])
def test_the_sentence_goes_and_no_more(text: str, wanted: str, left: str) -> None:
    assert without(text, [Target.of(wanted)], Cut.SENTENCES) == left


def test_matches_that_overlap_are_one_and_those_that_adjoin_are_two() -> None:
    assert joined([(4, 6), (0, 2), (1, 3), (3, 4)]) == ((0, 3), (3, 4), (4, 6))
    assert joined([(0, 9), (2, 3)]) == ((0, 9),)
    assert without("x 暗号暗号 y", [Target.of("暗号")], Cut.WORDS) == "x [forgotten][forgotten] y"


@pytest.mark.parametrize(
    ("text", "wanted", "left"),
    [
        ("the code is 7731 now", "code is 7731", "the [forgotten] now"),
        ("**Ada** likes tea", "ada", "**[forgotten]** likes tea"),
        ("forgotten things", "forgotten", "[…] things"),
        ("the code", "the code", ""),
    ],
)
def test_words_alone_leave_a_mark(text: str, wanted: str, left: str) -> None:
    assert without(text, [Target.of(wanted)], Cut.WORDS) == left
