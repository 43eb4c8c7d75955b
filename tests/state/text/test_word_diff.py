"""Which words changed: joined again, the parts are the texts; what is said to be the same stands in both."""

from hypothesis import example, given
from hypothesis import strategies as st

from state.text.word_diff import Part, word_diff

_WORDS = st.lists(
    st.sampled_from(["the ", "port", " 8080", "9090", ".", "\n", "茶", "を", "é", "  ", "_", "<b>"]), max_size=30
)
_TEXTS = _WORDS.map("".join) | st.text(st.characters(exclude_categories=()), max_size=40)


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


def test_long_texts_are_compared_as_wholes() -> None:
    old, new = "a b " * 1_000, "a c " * 1_000
    assert word_diff(old, new) == ((Part(old, changed=True),), (Part(new, changed=True),))
