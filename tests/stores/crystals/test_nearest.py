"""What is nearest is what comparing with every vector gives, whatever was written, changed, forgotten or told."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from state.crystals.crystal import Kind
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.nearest import to_matrix
from state.stores.database.opening import open_database
from tests.stores.crystals.test_search import _note
from tests.support.in_memory import BagOfWords, ListIndex
from tests.support.long_variants import examples

WIDTH = 16
WORDS = ("canary", "cluster", "drained", "ferry", "harbour", "lunch", "noon", "quartz")
EMBEDDER = BagOfWords(width=WIDTH)
FEW = 10_000
CLOSE = 2e-3  # vectors are stored in float16
FILTERS: tuple[tuple[str, list[object]], ...] = (
    ("", []),
    ("crystals.kind = ?", ["goal"]),
    ("crystals.kind <> ?", ["goal"]),
    ("crystals.key IN (SELECT crystal FROM occurrences WHERE session = ?)", ["s"]),
)


@contextmanager
def opened(folder: Path) -> Iterator[Crystals]:
    with closing(open_database(folder / "state.db")) as connection:
        yield Crystals(connection)


def fill(crystals: Crystals, count: int = 8) -> None:
    crystals.learn(_note(f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} {number}") for number in range(count))
    crystals.vectors.embed_pending(EMBEDDER, FEW)


def embedded(crystals: Crystals, condition: str = "", values: tuple[object, ...] = ()) -> dict[int, str]:
    """The texts, as they are embedded, of every crystal that does not wait for its vector."""
    vectors = "SELECT key, iif(context <> '', context || ': ', '') || text FROM crystals WHERE vector IS NOT NULL"
    rows = crystals.connection.execute(" AND ".join((vectors, condition or "TRUE")), values)
    return {int(key): str(text) for key, text in rows}


def agrees(crystals: Crystals, embedder: BagOfWords = EMBEDDER, index: ListIndex | None = None) -> None:
    """What is found, with every filter, is what the texts themselves give; and of each crystal its own vector."""
    asked = embedder.embed(["canary cluster", "ferry noon drained"])
    vectors = crystals.vectors
    for condition, values in FILTERS:
        texts = embedded(crystals, condition, tuple(values))
        known = embedder.embed(list(texts.values())) if texts else np.empty((0, WIDTH), np.float32)
        for k in (1, 3, FEW):
            for vector in asked:
                told = vectors.nearest.to(vector, k, condition, values, index)
                exact = dict(zip(texts, (known @ vector).tolist(), strict=True))
                assert list(told.values()) == sorted(told.values(), reverse=True)
                assert list(told.values()) == pytest.approx(sorted(exact.values(), reverse=True)[:k], abs=CLOSE)
                assert told == pytest.approx({key: exact[key] for key in told}, abs=CLOSE)
    every = [int(key) for (key,) in map(tuple, crystals.connection.execute("SELECT key FROM crystals"))]
    assert vectors.read(every)[0] == sorted(embedded(crystals))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)),
        st.tuples(st.just("say earlier"), st.sampled_from(WORDS)),
        st.tuples(st.just("embed"), st.integers(1, 5)),
        st.tuples(st.just("tell"), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.just(0)),
        st.tuples(st.just("model"), st.sampled_from(("bag-of-words", "another"))),
    ),
    max_size=25,
)


@pytest.mark.parametrize("few", [0, 5_000])
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=steps, asks=st.booleans())
@example(taken=[("write", "canary"), ("embed", 1), ("remove", 0), ("write", "ferry"), ("embed", 1)], asks=False)
@example(taken=[("write", "cluster"), ("embed", 1), ("tell", 1), ("write", "canary"), ("embed", 1)], asks=True)
@example(taken=[("write", "cluster"), ("embed", 1), ("tell", 1), ("say earlier", "cluster")], asks=True)
@example(taken=[("write", "cluster"), ("embed", 1), ("tell", 1), ("remove", 0)], asks=True)
def test_after_any_steps_the_nearest_are_those_of_an_exact_search(
    taken: list[tuple[str, str | int]], few: int, *, asks: bool
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(Path(folder)) as crystals,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("state.stores.crystals.nearest._FEW", few)  # 0: filters are applied to what ChromaDB answers
        embedder, index, said = EMBEDDER, ListIndex(), 0
        for step, value in taken:
            number = int(value) if isinstance(value, int) else 0
            if step == "write":
                kind = Kind.GOAL if "noon" in str(value) else Kind.FACT
                crystals.learn([_note(str(value), session="s" if "ferry" in str(value) else "", kind=kind)])
            elif step == "say earlier":  # in another context, which is embedded with the text
                said += 1
                note = _note(str(value))
                earlier = note.created_at - timedelta(days=said)
                crystals.learn([replace(note, created_at=earlier, context=f"harbour {said}")])
            elif step == "embed":
                crystals.vectors.embed_pending(embedder, number)
            elif step == "tell":
                index.tell(crystals, number)
            elif step == "remove":  # the latest ones: their rows are given again
                ids = [row[0] for row in crystals.connection.execute("SELECT id FROM crystals ORDER BY key")]
                crystals.remove(ids[-1 - number :][:1])
            elif step == "drop":
                crystals.vectors.index_anew()
                index = ListIndex()
            elif step == "model":
                if crystals.vectors.use_model(str(value)):
                    index = ListIndex()
                embedder = BagOfWords(str(value), WIDTH)
            agrees(crystals, embedder, index if asks and index.vectors else None)
            assert not index.failed
        crystals.vectors.embed_pending(embedder, FEW)
        index.tell(crystals, FEW)
        assert crystals.vectors.waiting() == (0, 0)
        assert crystals.vectors.vector_count() == crystals.count()
        every = {row[0] for row in crystals.connection.execute("SELECT id FROM crystals")}
        assert index.vectors.keys() == every
        agrees(crystals, embedder, index if every else None)


@pytest.mark.parametrize("wrong", ["of others", "other cosines", "too few"])
def test_an_index_that_answers_what_is_not_so_is_asked_no_more(tmp_path: Path, wrong: str) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
        index = ListIndex()
        index.tell(crystals)
        known = list(index.vectors.items())
        index.vectors = {
            "of others": {f"{number:064}": vector for number, (_, vector) in enumerate(known)},
            "other cosines": {id_: known[number - 1][1] for number, (id_, _) in enumerate(known)},
            "too few": dict(known[1:]),
        }[wrong]
        agrees(crystals, index=index)
        assert index.failed


@pytest.mark.parametrize("vector", [b"", b"\0\x3c", b"\xff" * 2 * WIDTH, b"\0" * 2 * WIDTH])
def test_a_row_with_what_is_no_vector_of_this_model_harms_no_other(tmp_path: Path, vector: bytes) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
        crystals.connection.execute("UPDATE crystals SET vector = ? WHERE key = 3", (vector,))
        (asked,) = EMBEDDER.embed(["canary canary 0"])
        assert next(iter(crystals.vectors.nearest.to(asked, 3))) == 1


def test_stored_vectors_are_widened_exactly() -> None:
    every = np.arange(65_536, dtype="<u2").view("<f2")
    finite = every[np.isfinite(every)]
    assert np.array_equal(to_matrix([finite.tobytes()])[0], finite.astype(np.float32))
