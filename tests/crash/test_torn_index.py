"""Whatever happens to the index's files, the next opening finds every vector of the truth again, by itself.

Files are torn in every way that a disk and a human know, and processes are killed while they fill an index. Each
opening happens in a process of its own, so that an index that kills it fails one test and not all.
"""

import multiprocessing
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from state.stores.vectors.chroma import Found, IndexReport, VectorIndex, open_index
from state.stores.vectors.sealed_folder import IndexFolder

Matrix = NDArray[np.float32]
Damage = Callable[[Path, Path], None]  # to a file (or all crystals), with the same of another workspace at hand
WIDTH = 384
# ChromaDB writes its graph as a whole at every thousandth record only.
SMALL, NEARLY, LARGE = 150, 960, 1010
KILLS = 12
PATIENCE_SECONDS = 120.0
pytestmark = pytest.mark.full


class Table:
    """A truth in SQLite, as a workspace has one."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (id TEXT PRIMARY KEY, vector BLOB NOT NULL)")

    def add(self, ids: list[str], vectors: Matrix) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        rows = [(name, vector.tobytes()) for name, vector in zip(ids, vectors, strict=True)]
        self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")

    def keep(self, records: int) -> None:
        """Forget all but the first so many."""
        self._connection.execute("DELETE FROM vectors WHERE id >= ?", (f"{records:032x}",))

    def close(self) -> None:
        self._connection.close()

    def vector_count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def vector_sample(self, n: int) -> list[tuple[str, Matrix]]:
        rows = self._connection.execute("SELECT id, vector FROM vectors").fetchall()
        return [(name, np.frombuffer(blob, np.float32)) for name, blob in rows[:: max(1, len(rows) // n)][:n]]

    def vector_batches(self, size: int) -> Iterator[tuple[list[str], Matrix]]:
        last = ""
        while rows := self._connection.execute(
            "SELECT id, vector FROM vectors WHERE id > ? ORDER BY id LIMIT ?", (last, size)
        ).fetchall():
            last = rows[-1][0]
            yield [row[0] for row in rows], np.array([np.frombuffer(row[1], np.float32) for row in rows])


def vectors(first: int, end: int) -> tuple[list[str], Matrix]:
    """Records `first` to `end`; a record's vector depends on its number alone."""
    rows = np.array([np.random.default_rng(number).normal(size=WIDTH) for number in range(first, end)])
    unit = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return [f"{number:032x}" for number in range(first, end)], unit


def lost(index: VectorIndex, truth: Table) -> list[str]:
    """The records that are not found by their own vectors."""
    return [
        name
        for ids, rows in truth.vector_batches(500)
        for name, near in zip(ids, index._search(list(rows), 1), strict=True)
        if near[0][0] != name
    ]


def look(workspace: Path, answers: Connection) -> None:
    """In a child: open the index, look for everything, close it, and open it once more."""
    truth = Table(workspace / "truth.db")
    index, report = open_index(workspace / "crystals", "workspace", truth)
    missing, count = lost(index, truth), index.count()
    index.close()
    index, again = open_index(workspace / "crystals", "workspace", truth)
    index.close()
    answers.send((report, missing, count == truth.vector_count(), again.found))


def fill(workspace: Path, seed: int, answers: Connection) -> None:
    """In a child: open the index, tell what is lost, then write batches to the truth and the index for ever."""
    chance = random.Random(seed)
    truth = Table(workspace / "truth.db")
    truth.keep(NEARLY)
    answers.send("opening")
    index, report = open_index(workspace / "crystals", "workspace", truth)
    answers.send((report, lost(index, truth), index.count() == truth.vector_count()))
    number = truth.vector_count()
    while True:
        ids, rows = vectors(number, number + chance.randint(20, 150))
        truth.add(ids, rows)
        index.upsert(ids, rows)
        number += len(ids)
        time.sleep(chance.choice([0.0, 0.0, 0.05]))


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Children that need not import ChromaDB again: they are forked from a process that only did that."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["chromadb", "numpy", "state.stores.vectors.chroma"])
    return context


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory, processes: ForkServerContext) -> Path:
    """Workspaces with an index each, closed properly: `small`, `large`, and `other` with other records."""
    root = tmp_path_factory.mktemp("workspaces")
    for name, first, records in (("small", 0, SMALL), ("large", 0, LARGE), ("other", 5000, LARGE)):
        (root / name).mkdir()
        truth = Table(root / name / "truth.db")
        truth.add(*vectors(first, first + records))
        truth.close()
        report, *_ = looked_at(root / name, processes)
        assert report.found is Found.NOTHING
    return root


class Died(Exception):  # noqa: N818
    """The child ended without an answer."""


def looked_at(workspace: Path, processes: ForkServerContext) -> tuple[IndexReport, list[str], bool, Found]:
    answers, child = processes.Pipe(duplex=False)
    process = processes.Process(target=look, args=(workspace, child))
    process.start()
    child.close()
    try:
        assert answers.poll(PATIENCE_SECONDS), "the opening hangs"
        answer: tuple[IndexReport, list[str], bool, Found] = answers.recv()
    except EOFError:
        process.join()
        raise Died(f"the opening ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    return answer


def seal(crystals: Path) -> None:
    home = IndexFolder(crystals)
    build = home.build()
    assert build
    home.seal(build)


FILES = ("chroma.sqlite3", "data_level0.bin", "header.bin", "length.bin", "link_lists.bin")


def file(crystals: Path, name: str) -> Path:
    (path,) = crystals.glob(f"index-*/**/{name}")
    return path


def halve(path: Path, _other: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def empty(path: Path, _other: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path, _other: Path) -> None:
    path.unlink()


def zero(path: Path, _other: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def zero_the_end(path: Path, _other: Path) -> None:
    """What a loss of power leaves of a file whose last blocks were not written."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3] + bytes(len(content) - len(content) // 3))


def flip(path: Path, _other: Path) -> None:
    """One bit in every 97th byte, the header's included."""
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), 97):
        content[place] ^= 0x10
    path.write_bytes(bytes(content))


def swap(path: Path, other: Path) -> None:
    shutil.copyfile(other, path)


DAMAGES = (halve, empty, remove, zero, zero_the_end, flip, swap)


def graph_removed(crystals: Path, _other: Path) -> None:
    shutil.rmtree(file(crystals, "header.bin").parent)


def build_removed(crystals: Path, _other: Path) -> None:
    shutil.rmtree(next(crystals.glob("index-*")))


def everything_removed(crystals: Path, _other: Path) -> None:
    shutil.rmtree(crystals)


def build_of_another_workspace(crystals: Path, other: Path) -> None:
    shutil.rmtree(next(crystals.glob("index-*")))
    build = next(other.glob("index-*"))
    shutil.copytree(build, crystals / build.name)


def two_builds(crystals: Path, other: Path) -> None:
    build = next(other.glob("index-*"))
    shutil.copytree(build, crystals / build.name)


def a_file_for_a_build(crystals: Path, _other: Path) -> None:
    build = next(crystals.glob("index-*"))
    shutil.rmtree(build)
    build.write_bytes(b"not a folder")


def no_collection(crystals: Path, _other: Path) -> None:
    with sqlite3.connect(file(crystals, "chroma.sqlite3")) as connection:
        connection.execute("UPDATE collections SET name = 'elsewhere'")
    connection.close()


def a_log_without_its_end(crystals: Path, _other: Path) -> None:
    with sqlite3.connect(file(crystals, "chroma.sqlite3")) as connection:
        connection.execute("DELETE FROM embeddings_queue")
        connection.execute("DELETE FROM embeddings WHERE id % 2")
    connection.close()


def an_older_graph(crystals: Path, other: Path) -> None:
    """The database of now and all files of the graph of another time."""
    graph, foreign = file(crystals, "header.bin").parent, file(other, "header.bin").parent
    shutil.rmtree(graph)
    shutil.copytree(foreign, graph)


def a_lying_seal(crystals: Path, _other: Path) -> None:
    (crystals / "clean.json").write_text('{"build": 1, "files": ["none"]}')


def a_torn_seal(crystals: Path, _other: Path) -> None:
    halve(crystals / "clean.json", crystals)
    flip(file(crystals, "data_level0.bin"), crystals)


WHOLE = (
    graph_removed,
    build_removed,
    everything_removed,
    build_of_another_workspace,
    two_builds,
    a_file_for_a_build,
    no_collection,
    a_log_without_its_end,
    an_older_graph,
    a_lying_seal,
    a_torn_seal,
)


# Each file in four ways or three, each way at two files or three.
PAIRS = [(name, damage) for i, name in enumerate(FILES) for j, damage in enumerate(DAMAGES) if (i + j) % 2 == 0]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1].__name__}")
def test_a_damaged_file_costs_nothing_but_time(
    pair: tuple[str, Damage], workspaces: Path, tmp_path: Path, processes: ForkServerContext
) -> None:
    crystals = copied(workspaces / "small", tmp_path)
    pair[1](file(crystals, pair[0]), file(workspaces / "other" / "crystals", pair[0]))
    recovers(crystals.parent, processes)


@pytest.mark.parametrize("damage", WHOLE)
def test_a_damaged_folder_costs_nothing_but_time(
    damage: Damage, workspaces: Path, tmp_path: Path, processes: ForkServerContext
) -> None:
    crystals = copied(workspaces / "small", tmp_path)
    damage(crystals, workspaces / "other" / "crystals")
    recovers(crystals.parent, processes)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("chroma.sqlite3", zero_the_end),
        ("data_level0.bin", flip),
        ("data_level0.bin", zero_the_end),
        ("header.bin", halve),
        ("index_metadata.pickle", empty),
        ("link_lists.bin", zero),
    ],
)
def test_files_that_a_disk_has_lost_behind_their_seal_kill_a_process_at_most_once(
    name: str, damage: Damage, workspaces: Path, tmp_path: Path, processes: ForkServerContext
) -> None:
    crystals = copied(workspaces / "large", tmp_path)
    damage(file(crystals, name), crystals)
    seal(crystals)
    with suppress(Died):
        looked_at(crystals.parent, processes)
    report, missing, complete, _ = looked_at(crystals.parent, processes)
    assert missing == [], report
    assert complete, report


def test_an_index_that_lost_half_of_its_names_behind_its_seal_is_built_again(
    workspaces: Path, tmp_path: Path, processes: ForkServerContext
) -> None:
    crystals = copied(workspaces / "large", tmp_path)
    a_log_without_its_end(crystals, crystals)
    seal(crystals)
    recovers(crystals.parent, processes)


def copied(workspace: Path, to: Path) -> Path:
    """The crystals of a copy that is sealed as the original was."""
    crystals = Path(shutil.copytree(workspace, to / "copy")) / "crystals"
    seal(crystals)
    return crystals


def recovers(workspace: Path, processes: ForkServerContext) -> None:
    report, missing, complete, again = looked_at(workspace, processes)
    assert missing == [], report
    assert complete, report
    assert report.found is not Found.WHOLE
    assert again is Found.WHOLE


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_kill_while_the_index_is_filled_loses_nothing(
    seed: int, tmp_path: Path, processes: ForkServerContext
) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    truth = Table(tmp_path / "truth.db")
    truth.add(*vectors(0, NEARLY))
    found = []
    for kill in range(KILLS):
        answers, child = processes.Pipe(duplex=False)
        process = processes.Process(target=fill, args=(tmp_path, seed * 1000 + kill, child))
        process.start()
        child.close()
        try:
            assert answers.recv() == "opening"
            if kill % 6 == 5:
                time.sleep(chance.uniform(0.0, 1.0))  # in the midst of looking, completing or building
                continue
            report, missing, complete = answers.recv()
            found.append(report.found.value)
            assert missing == [], report
            assert complete, report
            if kill % 3:
                wait_until_written(file(tmp_path / "crystals", "data_level0.bin"))
                time.sleep(chance.uniform(0.0, 0.01))  # in the midst of writing the graph
            else:
                time.sleep(chance.uniform(0.02, 0.3))
        finally:
            process.kill()
            process.join()
            assert process.exitcode == -signal.SIGKILL
    report, missing, complete, again = looked_at(tmp_path, processes)
    print(f"found {[*found, report.found.value]}, records {report.records}")
    assert missing == [], report
    assert complete, report
    assert again is Found.WHOLE


def wait_until_written(path: Path) -> None:
    before, deadline = path.stat().st_mtime_ns, time.monotonic() + 3.0
    while path.stat().st_mtime_ns == before and time.monotonic() < deadline:
        time.sleep(0.0005)
