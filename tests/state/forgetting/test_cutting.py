"""Laws of forgetting: nothing that matches is left, nothing else goes, and doing it again changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import UsageError
from state.forgetting.cutting import Cut, cut_all, cut_out, joined, sentences
from state.forgetting.folded import Span, fold
from state.forgetting.known import LONGEST_RUN, Target, spans, without
from tests.support.cases import cases

CASES = cases(__file__)

WORDS = st.sampled_from(
    "ada Ada tea İstanbul straße STRASSE e\u0301t\u00e9 été 東京都 한국 x 7731 don't forgotten".split()
)
GAPS = st.sampled_from([" ", "  ", "\n", ". ", "! ", ", ", "** ", "\n- ", "\n\n", '" ', "\\ ", "。", "_", "-"])
TEXTS = st.lists(st.tuples(WORDS, GAPS).map("".join), max_size=30).map("".join)
TARGETS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join).map(Target.of)
CUTS = st.sampled_from(list(Cut))


@given(st.text(max_size=200), st.text(max_size=20), CUTS)
def test_no_match_is_left_of_any_text(text: str, wanted: str, cut: Cut) -> None:
    try:
        target = Target.of(wanted)
    except UsageError:
        assert fold(wanted).words == ()
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
        if not touched and fold(sentence).words and fold(left).words:
            place = left.find(sentence, at)
            assert place >= 0, (sentence, left)
            at = place + len(sentence)
    assert len(fold(left.replace("[forgotten]", "")).words) < len(fold(text).words)


@given(st.lists(WORDS, min_size=LONGEST_RUN + 1, max_size=4 * LONGEST_RUN).map(" ".join), st.data())
def test_two_runs_of_a_long_text_in_a_row_are_found_whole_or_in_part(text: str, data: st.DataObject) -> None:
    target = Target.of(text)
    start = data.draw(st.integers(0, max(0, len(target.words) - 2 * LONGEST_RUN)))
    piece = " ".join(target.words[start : start + 2 * LONGEST_RUN])
    assert spans(piece, [target])
    left = without(f"Bo is late. {text}. Bo goes.", [target], Cut.WORDS)
    assert not any(word in fold(left).words for word in {"7731", "ada", "tea"} & set(target.words))


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
