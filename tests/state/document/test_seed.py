from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Lifecycle, Origin
from state.document.seed import MARKER, appended, seed_crystals, split_seed
from state.trust import Trust

NOW = datetime(2026, 3, 12, tzinfo=UTC)
OLD = "# My notes\n\nI like tea.\n\nI like tea.\nTabs.\n"


def by_paragraph(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n\n"))


def test_old_text_becomes_settled_crystals_with_their_lines() -> None:
    crystals = seed_crystals(OLD, NOW, by_paragraph)
    assert [crystal.text for crystal in crystals] == ["# My notes", "I like tea.", "I like tea.\nTabs.\n"]
    assert {(c.importance, c.lifecycle, c.origin, c.trust) for c in crystals} == {
        (0.75, Lifecycle.CONSOLIDATED, Origin.SEED, Trust.OWNER)
    }
    places = [(c.source.first_line, c.source.last_line) for c in crystals if c.source]
    assert places == [(1, 1), (3, 3), (5, 6)]
    assert [crystal.position for crystal in crystals] == [0, 1, 2]


def test_a_chunk_that_was_rewritten_points_at_the_whole_file() -> None:
    (crystal,) = seed_crystals("a\nb\nc", NOW, lambda _: ("rewritten",))
    assert crystal.source is not None
    assert (crystal.source.first_line, crystal.source.last_line) == (1, 3)


def test_the_old_text_stays_on_top_byte_for_byte() -> None:
    whole = appended(OLD, "# Working Memory State\n")
    assert whole.startswith(OLD)
    assert whole[len(OLD) :] == f"\n\n---\n\n{MARKER}\n\n# Working Memory State\n"
    assert "\r\n---\r\n" in appended("a\r\nb", "c")


def test_the_comment_is_found_again_whatever_the_line_ends() -> None:
    for text in ("old", "old\n", "old\r\n", ""):
        assert split_seed(appended(text, "new\n")) == (text, "new\n")
        assert split_seed(appended(text, "new\n").replace("\n", "\r\n").replace("\r\r", "\r")) is not None
    assert split_seed("no comment") is None
    assert split_seed(f"inside a line {MARKER} it is no mark") is None


TEXT = st.text(alphabet=st.sampled_from("ab \n\r-#`é漢"), max_size=60)


@given(TEXT, TEXT)
def test_splitting_undoes_appending(old: str, generated: str) -> None:
    assert split_seed(appended(old, "x" + generated)) == (old, "x" + generated)


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
