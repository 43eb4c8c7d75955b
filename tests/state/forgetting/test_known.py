"""Laws: what is buried is found in any text that holds it, in no other, and what is kept says nothing about it."""

import sqlite3
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Origin
from state.forgetting.known import Known, Target, spans
from state.stores.database.opening import open_database
from state.stores.database.tombstones import TombstoneStore
from tests.support.cases import cases
from tests.support.in_memory import trial
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, tzinfo=UTC)
AROUND = ("Miez is a cat. By the way, ", "! Rex is a dog.")
SPELLINGS: dict[str, list[str]] = cases(__file__)["SPELLINGS"]
OTHERS: dict[str, list[str]] = cases(__file__)["OTHERS"]
WORDS = ("vault", "code", "4711", "Miez", "straße", "café", "Łódź", "tomorrow", "the", "is", "Οδός", "дом", "東京")
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=20)
gaps = st.sampled_from([" ", "\n", "\t", "  ", ", ", ". ", " - ", "**", "`", '"', "\u00a0", " (", "…", "_"])
dresses: st.SearchStrategy[Callable[[str], str]] = st.sampled_from(
    [
        str.upper,
        str.title,
        str.swapcase,
        lambda word: unicodedata.normalize("NFD", word),
        lambda word: unicodedata.normalize("NFKC", word),
        "\u200b".join,
        str,
    ]
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path_factory.mktemp("laws") / "state.db")
    yield connection
    connection.close()


@contextmanager
def buried(connection: sqlite3.Connection, *texts: str) -> Iterator[TombstoneStore]:
    """A store in which these are buried, for as long as it is looked at."""
    with trial(connection):
        forgotten = TombstoneStore(connection)
        for text in texts:
            forgotten.block(Target.of(text), NOW)
        yield forgotten


def _dressed(draw: st.DrawFn, said: list[str]) -> str:
    gap = "".join(draw(dresses)(word) + draw(gaps) for word in said)
    return f"{draw(gaps)}{gap}"


@st.composite
def tellings(draw: st.DrawFn) -> tuple[str, str]:
    """A text, and another one that says it: other case, forms, signs between the words, and words around it."""
    said = draw(words)
    around = [" ".join(draw(st.lists(st.sampled_from(("before", "after", "Any")), max_size=5))) for _ in range(2)]
    return " ".join(said), f"{around[0]} {_dressed(draw, said)} {around[1]}"


@examples(60)
@given(st.lists(words.map(" ".join), min_size=1, max_size=3), tellings())
def test_digests_find_what_an_erasing_finds_that_knows_the_text(
    connection: sqlite3.Connection, texts: list[str], telling: tuple[str, str]
) -> None:
    text, other = telling
    with buried(connection, text, *texts) as forgotten:
        found = forgotten.tombstones().found(other)
        assert found == spans(other, [Target.of(one) for one in (text, *texts)])
        assert found
        assert not forgotten.holds(forgotten.tombstones().without(other))
        assert not forgotten.holds(forgotten.tombstones().masked(other))


@pytest.mark.parametrize(("text", "other"), [(text, other) for text, every in SPELLINGS.items() for other in every])
def test_another_spelling_is_known_again_and_no_more_goes(
    connection: sqlite3.Connection, text: str, other: str
) -> None:
    with buried(connection, text) as forgotten:
        known = forgotten.tombstones()
        assert known.found(other)
        told = other.join(AROUND)
        left, masked = known.without(told), known.masked(told)
        assert left.startswith("Miez is a cat.")
        assert left.endswith("Rex is a dog.")
        assert not known.found(left)
        assert masked.startswith(AROUND[0])
        assert masked.endswith(AROUND[1])
        assert not known.found(masked)


@pytest.mark.parametrize(("text", "other"), [(text, other) for text, every in OTHERS.items() for other in every])
def test_what_is_another_s_is_left_alone(connection: sqlite3.Connection, text: str, other: str) -> None:
    with buried(connection, text) as forgotten:
        assert forgotten.tombstones().found(other) == ()
        assert forgotten.tombstones().found(other.join(AROUND)) == ()


@examples(30)
@given(st.lists(words.map(" ".join), min_size=2, max_size=4))
def test_lifting_one_leaves_what_the_others_say(connection: sqlite3.Connection, texts: list[str]) -> None:
    with buried(connection, *texts[1:]) as others:
        still = others.holds(texts[0])
    with buried(connection, *texts) as forgotten:
        assert forgotten.unblock(texts[0])
        assert not forgotten.unblock(texts[0])
        if not still and not any(spans(text, [Target.of(texts[0])]) for text in texts[1:]):
            assert not forgotten.holds(texts[0])
        for text in texts:
            forgotten.unblock(text)
        assert not forgotten.tombstones()


@examples(5)
@given(st.lists(st.from_regex(r"[a-z]{6,12}", fullmatch=True), min_size=1, max_size=12, unique=True))
def test_the_file_of_the_database_holds_neither_the_text_nor_a_word_of_it(said: list[str]) -> None:
    text = " ".join(said)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        with closing(open_database(path)) as connection:
            TombstoneStore(connection).block(Target.of(text), NOW)
            TombstoneStore(connection).block_texts([text], NOW)
            assert TombstoneStore(connection).holds(text)
            schema = " ".join(row[0] or "" for row in connection.execute("SELECT sql FROM sqlite_master")).lower()
            assert path.with_name("state.db-wal").stat().st_size  # the digests are in the log still
            content = b"".join(file.read_bytes() for file in path.parent.iterdir()).lower()
        content += path.read_bytes().lower()
        for word in (text, *said):
            if word not in schema:
                assert word.encode() not in content
                assert word.encode("utf-16-le") not in content


@given(st.text(max_size=40))
def test_while_nothing_is_buried_every_text_is_what_it_is(text: str) -> None:
    crystal = Crystal(text, Origin.SESSION, NOW)
    assert not Known()
    assert Known().found(text) == ()
    assert Known().without(text) is text
    assert Known().spared(crystal) is crystal
