"""Crystal pointers: written, read, and chosen so that the search finds what they point at."""

import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.document.pointer import (
    MAX_WORDS,
    TOPIC_CHARACTERS,
    WORDS,
    candidates,
    choose,
    parse_pointer,
    render_pointer,
    topic_of,
)
from state.text.words import terms

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    st.lists(
        st.sampled_from(
            [
                "Anna",
                "→",
                "->",
                "search:",
                "`",
                "—",
                ".",
                ": ",
                "deploy",
                "重要会议",
                "port 8080",
                "\n",
                "\u2028",
                " - ",
            ]
        ),
        max_size=12,
    ).map(" ".join),
)
keywords = st.lists(st.sampled_from(["anna", "8080", "重要", "straße", "eigentrust"]), min_size=1, max_size=12).map(
    " ".join
)
ranked_words = st.lists(st.text("abcdefgh", min_size=2, max_size=5), max_size=40, unique=True)


@given(texts, keywords)
@example("CORS -> search: `forged`", "anna")
@example("a → search: `b` → search: `c`", "anna")
@example("", "anna")
def test_parse_undoes_render(text: str, words: str) -> None:
    topic = topic_of(text)
    assert parse_pointer(render_pointer(topic, words)) == (topic, words)


@given(texts)
@example("x" * 200)
@example("Straßenbahn" * 20 + " and more")
def test_a_topic_is_short_and_on_one_row(text: str) -> None:
    topic = topic_of(text)
    assert 0 < len(topic) <= TOPIC_CHARACTERS
    assert topic == " ".join(topic.split())
    assert not set("`→") & set(topic)
    assert topic_of(topic) == topic or topic.endswith("…")


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("CORS on the P2P bridge was fixed; see notes", "CORS on the P2P bridge was fixed"),
        ("Deployed", "Deployed"),
        ("`make` → all", "'make' all"),
        ("", "An earlier note"),
    ],
)
def test_a_topic_is_the_first_clause(text: str, topic: str) -> None:
    assert topic_of(text) == topic


@pytest.mark.parametrize(
    "text",
    [
        "CORS debugging",
        "CORS → search: cors",
        "CORS → search: ``",
        "CORS search: `cors`",
        "→ look: `cors`",
        "CORS → search: `cors` and more",
    ],
)
def test_what_is_no_pointer_is_not_read_as_one(text: str) -> None:
    assert parse_pointer(text) is None


def test_rare_words_come_first_then_long_ones_then_those_that_stand_first() -> None:
    text = "zebra apple kiwi eigentrust lemon"
    assert candidates(text, {}) == ("eigentrust", "zebra", "apple", "lemon", "kiwi")
    assert candidates(text, {"eigentrust": 7, "zebra": 2}) == ("apple", "lemon", "kiwi", "zebra", "eigentrust")


def test_words_that_say_little_come_last_and_stop_words_never() -> None:
    words = candidates("The current decision about the eigentrust 7 12", {"eigentrust": 90})
    assert set(words) == {"current", "decision", "eigentrust", "12"}
    assert set(words[-2:]) == {"current", "12"}


@given(ranked_words, st.integers(1, 20))
def test_what_is_chosen_was_found(ranked: list[str], rarity: int) -> None:
    asked: list[str] = []

    def finds(words: str) -> bool:
        return zlib.crc32(words.encode()) % rarity == 0

    def seen(words: str) -> bool:
        asked.append(words)
        return finds(words)

    chosen = choose(ranked, seen)
    if chosen is None:
        assert not any(map(finds, asked))
        return
    assert finds(chosen)
    assert asked[-1] == chosen
    words = chosen.split()
    assert len(set(words)) == len(words)
    assert set(words) <= set(ranked)
    assert min(WORDS, len(ranked)) <= len(words) <= MAX_WORDS


@given(ranked_words)
def test_the_search_is_asked_a_bounded_number_of_times_and_never_twice_the_same(ranked: list[str]) -> None:
    asked: list[str] = []

    def refused(words: str) -> bool:
        asked.append(words)
        return False

    assert choose(ranked, refused) is None
    assert len(set(asked)) == len(asked)
    assert len(asked) <= MAX_WORDS - WORDS + 1 + len(ranked) // WORDS
    assert bool(asked) == bool(ranked)


def test_one_number_at_most_is_among_the_first_words_where_there_are_others() -> None:
    text = "The splitting job 4010 wrote 6984 rows to the archive."
    ranked = candidates(text, {"splitting": 3, "rows": 2, "archive": 2, "wrote": 2, "job": 5})
    assert ranked[0] == "4010"
    assert "6984" not in ranked[:4]
    assert choose(ranked, bool, terms(text)) == " ".join(sorted(ranked[:4], key=terms(text).index))


def test_a_topic_is_cut_behind_a_word_that_says_something() -> None:
    text = "Gideon and Farid had a row about tabs in the Makefile again"
    assert topic_of(text) == "Gideon and Farid had a row about tabs…"


def test_a_pointer_may_be_written_with_ascii_and_spare_blanks() -> None:
    assert parse_pointer("  CORS ->  search:  ` cors   bridge ` ") == ("CORS", "cors bridge")
