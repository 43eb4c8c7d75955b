"""What is nearest is what comparing with every vector gives, whatever was written, forgotten, lost or copied back."""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from state.crystals.crystal import Kind
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.vectors import NAME
from state.stores.database.connection import open_database
from tests.stores.crystals.test_search import _note
from tests.support.in_memory import BagOfWords, ListIndex
from tests.support.long_variants import examples

WIDTH = 16
WORDS = ("canary", "cluster", "drained", "ferry", "harbour", "lunch", "noon", "quartz")
EMBEDDER = BagOfWords(width=WIDTH)
FEW = 10_000
FILTERS: tuple[tuple[str, list[object]], ...] = (
    ("", []),
    ("crystals.kind = ?", ["goal"]),
    ("crystals.kind <> ?", ["goal"]),
    ("crystals.key IN (SELECT crystal FROM occurrences WHERE session = ?)", ["s"]),
)


@contextmanager
def opened(folder: Path) -> Iterator[Crystals]:
    """The crystals of a database in the folder, with vectors.db beside it."""
    with closing(open_database(folder / "state.db")) as connection:
        crystals = Crystals(connection, folder / NAME)
        with closing(crystals.vectors):
            yield crystals


def fill(crystals: Crystals, count: int = 8) -> None:
    crystals.upsert(_note(f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} {number}") for number in range(count))
    crystals.vectors.embed_pending(EMBEDDER, FEW)


def embedded(crystals: Crystals, condition: str = "", values: tuple[object, ...] = ()) -> dict[int, str]:
    """What must have a vector: every crystal that does not wait for one."""
    vectors = "SELECT key, text FROM crystals WHERE key NOT IN (SELECT crystal FROM to_embed)"
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
            for vector, told in zip(asked, vectors.nearest.to(asked, k, condition, values, index), strict=True):
                exact = dict(zip(texts, (known @ vector).tolist(), strict=True))
                assert list(told.values()) == pytest.approx(sorted(exact.values(), reverse=True)[:k], abs=1e-5)
                assert told == pytest.approx({key: exact[key] for key in told}, abs=1e-5)
    every = [int(key) for (key,) in map(tuple, crystals.connection.execute("SELECT key FROM crystals"))]
    assert vectors.read(every)[0] == sorted(embedded(crystals))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)),
        st.tuples(st.just("embed"), st.integers(1, 5)),
        st.tuples(st.just("tell"), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.just(0)),
        st.tuples(st.just("model"), st.sampled_from(("bag-of-words", "another"))),
        st.tuples(st.just("open again"), st.just(0)),
    ),
    max_size=25,
)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=steps, asks=st.booleans())
@example(taken=[("write", "canary"), ("embed", 1), ("remove", 0), ("write", "ferry"), ("embed", 1)], asks=False)
@example(taken=[("write", "cluster"), ("embed", 1), ("tell", 1), ("write", "canary"), ("embed", 1)], asks=True)
def test_after_any_steps_the_nearest_are_those_of_an_exact_search(
    taken: list[tuple[str, str | int]], *, asks: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as crystals:
        embedder, index = EMBEDDER, ListIndex()
        for step, value in taken:
            number = int(value) if isinstance(value, int) else 0
            if step == "write":
                kind = Kind.GOAL if "noon" in str(value) else Kind.FACT
                crystals.upsert([_note(str(value), session="s" if "ferry" in str(value) else "", kind=kind)])
            elif step == "embed":
                crystals.vectors.embed_pending(embedder, number)
            elif step == "tell":
                index.tell(crystals, number)
            elif step == "remove":  # the latest ones: their rows are given again
                ids = [row[0] for row in crystals.connection.execute("SELECT id FROM crystals ORDER BY key")]
                crystals.remove(ids[-1 - number :][:1])
            elif step == "drop":
                crystals.vectors.drop()
                index = ListIndex()
            elif step == "model":
                embedder, index = BagOfWords(str(value), WIDTH), ListIndex()
                crystals.vectors.use_model(embedder.name)
            else:
                crystals.vectors.close()
            agrees(crystals, embedder, index if asks and index.vectors else None)
        crystals.vectors.embed_pending(embedder, FEW)
        crystals.vectors.drop()
        assert crystals.vectors.waiting()[0] == 0
        assert crystals.vectors.vector_count() == crystals.count()
        agrees(crystals, embedder)


@pytest.mark.parametrize("wrong", ["of others", "other cosines"])
def test_an_index_that_answers_what_is_not_so_is_asked_no_more(tmp_path: Path, wrong: str) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
        index = ListIndex()
        index.tell(crystals)
        known = list(index.vectors.items())
        index.vectors = (
            {f"{number:064}": vector for number, (_, vector) in enumerate(known)}
            if wrong == "of others"
            else {id_: known[number - 1][1] for number, (id_, _) in enumerate(known)}
        )
        agrees(crystals, index=index)
        assert index.failed


# --- what becomes of the file


def _gone(path: Path) -> None:
    path.unlink()


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _noise(path: Path) -> None:
    path.write_bytes(np.random.default_rng(3).bytes(path.stat().st_size))


def _noise_in_the_vectors(path: Path) -> None:
    with path.open("r+b") as file:
        content = file.read()
        place = content.index(EMBEDDER.embed(["canary canary 0"])[0].tobytes())
        file.seek(place)
        file.write(b"\xff" * 4 * WIDTH)


def _pages_torn(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(65_536)
        file.write(b"\x55" * (path.stat().st_size - 65_536))


def _half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _another_width(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE vectors SET vector = x'0000803f' WHERE key = 3")


def _another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE vectors (key, vector)")


def _a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _of_another_workspace(path: Path) -> None:
    (path.parent / "other").mkdir()
    with opened(path.parent / "other") as other:
        other.upsert(_note(f"quartz {number}") for number in range(8))
        other.vectors.embed_pending(EMBEDDER, FEW)
    for side in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{side}").unlink(missing_ok=True)
    shutil.copy(path.parent / "other" / NAME, path)


KINDS = (
    _gone, _emptied, _noise, _noise_in_the_vectors, _pages_torn, _half, _another_width, _another_program, _a_link,
    _of_another_workspace,
)  # fmt: skip


@pytest.mark.parametrize("spoil", KINDS)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_that_is_harmed_costs_nothing_but_time(
    tmp_path: Path, spoil: Callable[[Path], None], *, is_open: bool
) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
        # Under SQLite's feet it is undefined.
        if not is_open or spoil in (_noise, _noise_in_the_vectors, _pages_torn, _half, _emptied):
            crystals.vectors.close()
        spoil(tmp_path / NAME)
        kept = (tmp_path / "elsewhere").read_bytes() if spoil is _a_link else b""
        crystals.vectors.nearest.to(EMBEDDER.embed(["canary"]), 3)  # by words alone, perhaps; nothing is raised
        crystals.vectors.cosines(EMBEDDER.embed(["canary"])[0], range(9))
        crystals.vectors.embed_pending(EMBEDDER, FEW)
        agrees(crystals)
        assert crystals.vectors.waiting()[0] == 0
        assert crystals.vectors.vector_count() == 8
        assert spoil is not _a_link or (tmp_path / "elsewhere").read_bytes() == kept


def _live(folder: str, number: int) -> None:
    """A life of writing and embedding, until it is killed."""
    with opened(Path(folder)) as crystals:
        for turn in range(10_000):
            crystals.upsert([_note(f"{WORDS[turn % 8]} {number} {turn}")])
            crystals.vectors.embed_pending(EMBEDDER, 1 + turn % 3)
            if turn % 5 == 4:
                last = crystals.connection.execute("SELECT id FROM crystals ORDER BY key DESC LIMIT 1").fetchone()
                crystals.remove([last[0]])
            if turn % 7 == 6:
                crystals.vectors.drop()


@pytest.mark.parametrize("life", range(3))
def test_a_process_that_is_killed_leaves_what_an_exact_search_agrees_with(tmp_path: Path, life: int) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(3):
        process = context.Process(target=_live, args=(str(tmp_path), number))
        process.start()
        process.join(0.15 + 0.05 * life)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with opened(tmp_path) as crystals:
            crystals.vectors.settle()  # as whoever owns the workspace does first
            agrees(crystals)
            crystals.vectors.embed_pending(EMBEDDER, FEW)
            agrees(crystals)


def test_what_is_dropped_leaves_no_byte_of_its_vector(tmp_path: Path) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
        vector = EMBEDDER.embed(["canary canary 0"])[0].tobytes()
        crystals.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        crystals.remove([_note("canary canary 0").id])
        crystals.vectors.drop()
        assert not any(vector in path.read_bytes() for path in tmp_path.glob(f"{NAME}*"))
        agrees(crystals)
