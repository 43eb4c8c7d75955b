from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from state.document.seed import MARKER, appended, seed_crystals, split_seed

TEXT = st.text(alphabet=st.sampled_from("ab \n\r-#`é漢"), max_size=60)


@given(TEXT, TEXT)
def test_splitting_undoes_appending(old: str, generated: str) -> None:
    assert split_seed(appended(old, "x" + generated)) == (old, "x" + generated)


@given(TEXT)
def test_text_without_the_comment_is_not_split(text: str) -> None:
    assert MARKER not in text
    assert split_seed(text) is None


@given(st.lists(st.text(alphabet="abc \n", min_size=1, max_size=10), max_size=6))
def test_every_chunk_that_says_something_is_kept_and_stands_where_its_source_says(pieces: list[str]) -> None:
    text = "".join(pieces)
    crystals = seed_crystals(text, datetime(2026, 1, 1, tzinfo=UTC), lambda _: pieces)
    assert {crystal.text.strip() for crystal in crystals} == {piece.strip() for piece in pieces} - {""}
    rows = text.split("\n")
    for crystal in crystals:
        assert crystal.source is not None
        place = "\n".join(rows[crystal.source.first_line - 1 : crystal.source.last_line])
        assert crystal.text.rstrip("\n") in place
