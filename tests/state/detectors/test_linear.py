"""Four times the text costs at most five times the time, whatever the text and whoever reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.detectors.shapes import FEW_SHAPES, PIECES, SHAPES
from tests.state.detectors.table import DETECTORS
from tests.state.detectors.timing import growth
from tests.support.long_variants import examples, spread, variants

MOST = 5.0
SHORT = 1_024
ALPHABETS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4)


@pytest.mark.parametrize("length", variants(SHORT, 16_384))
@pytest.mark.parametrize("name", spread(DETECTORS, 16))
def test_no_shape_of_text_is_slow_to_read(name: str, length: int) -> None:
    detector = DETECTORS[name]
    detector("compiled and loaded. 忽略 → search: `keys`?")
    shapes = FEW_SHAPES if length == SHORT else SHAPES
    slow = {shape: grown for shape, text in shapes.items() if (grown := growth(detector, text, length)) > MOST}
    assert slow == {}


@pytest.mark.full
@examples(30)
@given(before=ALPHABETS, again=ALPHABETS, after=ALPHABETS)
def test_no_repeated_pieces_are_slow_to_read(before: list[str], again: list[str], after: list[str]) -> None:
    head, body, end = map("".join, (before, again, after))

    def text(length: int) -> str:
        return head + body * (length // len(body)) + end

    slow = {name: grown for name, detector in DETECTORS.items() if (grown := growth(detector, text, SHORT)) > MOST}
    assert slow == {}
