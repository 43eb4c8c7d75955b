"""Entries in state.db do what a dictionary does, whatever labels are called; vectors follow their texts and model."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from state.entries.entry import EntryChange, Namespace, NamespacePattern
from state.stores.database.connection import memory_database
from state.stores.entries.entries import Entries
from state.stores.entries.meanings import Meanings, forget_vectors
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 1, tzinfo=UTC)
labels = st.sampled_from(["a", "a,", 'a"', 'a","b', "a]", "b", "ü", "a\\", "*", "A", "a%", "\n"]) | st.text(
    st.characters(codec="utf-8"), min_size=1, max_size=3
)
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
changes = st.lists(st.tuples(namespaces, labels, st.none() | st.integers(0, 9)), max_size=12)


@examples(100)
@given(st.lists(changes, max_size=4), st.lists(labels, max_size=2).map(tuple), st.integers(1, 3))
def test_they_do_what_a_dictionary_does(
    batches: list[list[tuple[Namespace, str, int | None]]], prefix: Namespace, depth: int
) -> None:
    expected: dict[tuple[Namespace, str], int] = {}
    with closing(memory_database()) as connection:
        entries = Entries(connection)
        for number, batch in enumerate(batches):
            made = [EntryChange(space, name, {"n": n} if n is not None else None) for space, name, n in batch]
            entries.change(made, NOW + timedelta(seconds=number))
            for space, name, n in batch:
                expected.pop((space, name), None)
                if n is not None:
                    expected[space, name] = n
        now = NOW + timedelta(days=1)
        for space, name, _ in (change for batch in batches for change in batch):
            found = entries.get(space, name, now)
            assert (found.entry.value["n"] if found else None) == expected.get((space, name))
        below = {key: n for key, n in expected.items() if key[0][: len(prefix)] == prefix}
        listed = entries.by_keys(entries.latest_keys(prefix, now))
        assert {(one.entry.namespace, one.entry.name): one.entry.value["n"] for one in listed} == below
        moments = [one.entry.updated_at for one in listed]
        assert moments == sorted(moments, reverse=True)
        shown = entries.namespaces([NamespacePattern(prefix)], depth, now)
        fits = {space for space, _ in expected if NamespacePattern(prefix).fits(space)}
        assert shown == sorted({space[:depth] for space in fits})


def test_what_expires_is_not_there_and_is_swept() -> None:
    with closing(memory_database()) as connection:
        entries = Entries(connection)
        entries.change([EntryChange(("a",), "k", {}, lifetime=timedelta(seconds=10))], NOW)
        assert entries.get(("a",), "k", NOW + timedelta(seconds=9)) is not None
        later = NOW + timedelta(seconds=10)
        assert entries.get(("a",), "k", later) is None
        assert entries.latest_keys((), later) == []
        assert entries.namespaces([], None, later) == []
        entries.use([1], NOW + timedelta(seconds=9))
        assert entries.get(("a",), "k", later) is not None
        assert entries.sweep(later) == 0
        assert entries.sweep(NOW + timedelta(seconds=19)) == 1
        assert connection.execute("SELECT count(*) FROM entries").fetchone()[0] == 0


@dataclass(frozen=True)
class Letters:
    """Turns a text into how often it has each of three letters."""

    name: str = "letters"
    width: int = 3

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array([[text.count(letter) + 0.001 for letter in "abc"] for text in texts], dtype=np.float32)
        made: NDArray[np.float32] = rows.reshape(-1, 3) / np.linalg.norm(rows.reshape(-1, 3), axis=1, keepdims=True)
        return made


def _put(entries: Entries, *texts: str) -> None:
    values = [EntryChange(("x",), text, {"t": text.split()}, ("t[*]",)) for text in texts]
    entries.change(values, NOW)


def test_the_nearest_text_of_an_entry_counts() -> None:
    with closing(memory_database()) as connection:
        entries, meanings = Entries(connection), Meanings(connection, Letters())
        _put(entries, "aaa ccc", "bbb", "ab", "")
        assert meanings.embed() == 4
        assert meanings.embed() == 0
        found = meanings.nearest("a", ("x",), NOW)
        assert [one.entry.name for one in entries.by_keys(list(found))] == ["aaa ccc", "ab", "bbb"]
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert meanings.nearest("a", ("y",), NOW) == {}
        _put(entries, "ab")
        assert len(meanings.nearest("a", (), NOW)) == 2  # another value has no vector yet
        entries.change([EntryChange(("x",), "bbb", None)], NOW)
        meanings.embed()
        assert connection.execute("SELECT count(*) FROM entry_vectors").fetchone()[0] == 3


def test_vectors_of_another_model_are_made_anew_after_those_of_what_just_came() -> None:
    with closing(memory_database()) as connection:
        entries = Entries(connection)
        for name, other in (("m", "z"), ("z", "m")):
            forget_vectors(connection, [row[0] for row in connection.execute("SELECT key FROM entries")])
            _put(entries, "a", "b", "c")
            Meanings(connection, Letters(name)).embed()
            meanings = Meanings(connection, Letters(other))
            assert meanings.nearest("a", (), NOW) == {}
            _put(entries, "new")
            assert meanings.embed(1) == 1
            assert [one.entry.name for one in entries.by_keys(list(meanings.nearest("a", (), NOW)))] == ["new"]
            assert meanings.embed() == 3
            assert len(meanings.nearest("a", (), NOW)) == 4
            entries.change([EntryChange(("x",), "new", None)], NOW)
