"""A long text in pieces: nothing is left out without a sign, and a bullet keeps what it stands below."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.text.pieces import pieces

HAN = "这是第一句。这是第二句！"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Decisions\nOne. Two.\n\nThree.", ["Decisions: One. Two.", "Decisions: Three."]),
        ("Rules:\n- a\n- b\n  goes on\n  - nested\n- c", ["Rules: a", "Rules: b goes on - nested", "Rules: c"]),
        ("Steps:\n1. first\n2) second\n\nThe end.", ["Steps: 1. first", "Steps: 2) second", "The end."]),
        ("It begins.\n- a\n\n* b\n• c", ["It begins.", "a", "b", "c"]),
        ("规则：\n・甲\n・乙", ["规则： 甲", "规则： 乙"]),
        ("# One\n# Two", ["One", "Two"]),
        ("| Host | Port |\n|---|---|\n| web | 80 |", ["| Host | Port | | web | 80 |"]),
        ("```\n- no bullet\n\n# no heading\n```\nAfter.", ["```\n- no bullet\n# no heading\n```", "After."]),
        ("A first sentence of this. " * 5, ["A first sentence of this. A first sentence of this."] * 2
         + ["A first sentence of this."]),
        ("word " * 30, ["word " * 11 + "word", "word " * 11 + "word", "word " * 5 + "word"]),
        ("x" * 90, ["x" * 59 + "…"]),
        (HAN * 6, [HAN * 5, HAN]),
        ("กข" * 40, ["กข" * 30, "กข" * 10]),
    ],
)  # fmt: skip
def test_a_text_is_cut_at_its_bullets_then_its_sentences_then_its_words(text: str, said: list[str]) -> None:
    assert list(pieces(text, 60)) == said


def test_a_letter_keeps_its_marks() -> None:
    family = "👩\u200d👩\u200d👧"
    for cut, after in pairwise(pieces(f"x{family * 40}", 62)):
        assert cut.endswith("👧")
        assert after.startswith("👩")


@given(st.text(st.sampled_from("ab .-#|`:\n。字\u0301"), max_size=400), st.integers(100, 200))
def test_no_piece_is_too_long_and_every_letter_is_in_one(text: str, limit: int) -> None:
    found = list(pieces(text, limit))
    assert all(0 < len(piece) <= limit for piece in found)
    if not any(piece.endswith("…") for piece in found):
        assert all("".join(found).count(char) >= text.count(char) for char in "ab字")
