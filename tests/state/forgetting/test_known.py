"""Laws: what is buried is found in any text that holds it, in no other, and what is kept says nothing about it."""

import sqlite3
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Origin
from state.forgetting import digests
from state.forgetting.digests import mark_of_run, marked_places, sums_of, value_of
from state.forgetting.known import Known, Target, spans
from state.stores.database.connection import open_database
from state.stores.database.tombstones import TombstoneStore
from tests.support.in_memory import trial
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, tzinfo=UTC)
WORDS = ("vault", "code", "4711", "Miez", "straße", "café", "Łódź", "tomorrow", "the", "is", "Οδός", "дом", "東京")
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=20)
gaps = st.sampled_from([" ", "\n", "\t", "  ", ", ", ". ", " - ", "**", "`", '"', "\u00a0", " (", "…"])
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
            forgotten.unblock_all_of(text)
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


SALT = "0f" * 16
RUNS = st.lists(st.sampled_from(["ada", "tea", "é", "", "\ud800", "8080"]), min_size=3, max_size=12)


def summed(words: Sequence[str]) -> list[int]:
    sums = [0]
    for word in words:
        sums.append((sums[-1] * 31 + value_of(SALT, word)) % 2**64)
    return sums


@given(words=RUNS, times=st.sampled_from([1, digests._MANY]))
def test_a_run_is_found_by_its_mark_however_long_the_text(words: list[str], times: int) -> None:
    text = words * times
    sums = sums_of(SALT, text)
    assert list(map(int, sums)) == summed(text)
    first = mark_of_run(SALT, words[:3])
    places = marked_places(sums, 3, {first})
    assert set(range(0, len(text), len(words))) <= {at for at, _ in places}
    assert all(mark_of_run(SALT, text[at : at + 3]) == mark == first for at, mark in places[:9])
