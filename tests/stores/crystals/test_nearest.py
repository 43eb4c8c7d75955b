"""What the vector file answers is what state.db answers, whatever was written, forgotten, cut off or copied back."""

import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from state.crystals.crystal import Kind
from state.stores.crystals import nearest
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.disk.disk import Disk
from state.stores.vectors.vector_file import NAME, VectorFile
from tests.stores.crystals.test_search import _note
from tests.support.faults import Bytes, Fault, FaultySystem, Names, PowerCut
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


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "FILED_FROM", 1)
    monkeypatch.setattr(nearest, "_BATCH", 3)
    monkeypatch.setattr(nearest, "_TRIED", (2, 4))


@contextmanager
def opened(folder: Path, disk: Disk | None = None) -> Iterator[Crystals]:
    """The crystals of a database in the folder, with their vector file."""
    (folder / "crystals").mkdir(exist_ok=True)
    with closing(open_database(folder / "state.db")) as connection:
        crystals = Crystals(connection)
        file = VectorFile(folder / "crystals" / NAME, disk)
        crystals.vectors.nearest.file = file
        with closing(file):
            yield crystals


def write_file(crystals: Crystals) -> None:
    while crystals.vectors.nearest.write_file(lambda: None):
        pass


def fill(crystals: Crystals, count: int = 8) -> None:
    crystals.upsert(_note(f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} {number}") for number in range(count))
    crystals.vectors.embed_pending(EMBEDDER, FEW)
    write_file(crystals)


def agrees(crystals: Crystals) -> None:
    """Through the file the same is found as in state.db, with every filter, and of each row that does not wait."""
    asked = EMBEDDER.embed(["canary cluster", "ferry noon drained"])
    near = crystals.vectors.nearest
    for condition, values in FILTERS:
        for k in (1, 3, FEW):
            for told, exact in zip(
                near.to(asked, k, condition, values), near.compared(asked, k, condition, values), strict=True
            ):
                assert sorted(told.values()) == pytest.approx(sorted(exact.values()), abs=1e-5)
                assert k < FEW or told.keys() == exact.keys()


def filed(crystals: Crystals) -> dict[int, bytes]:
    """The vectors in the file, by row, when nothing waits for it."""
    assert crystals.connection.execute("SELECT 1 FROM to_file").fetchone() is None
    assert crystals.vectors.nearest.is_filed()
    assert crystals.vectors.nearest.file is not None
    content = crystals.vectors.nearest.file.path.read_bytes()[4_096:]
    rows = np.frombuffer(content, dtype="<f4").reshape(-1, WIDTH)
    return {key: row.tobytes() for key, row in enumerate(rows) if row.any()}


def stored(crystals: Crystals) -> dict[int, bytes]:
    return {int(key): vector for key, vector in crystals.connection.execute("SELECT crystal, vector FROM vectors")}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)),
        st.tuples(st.just("embed"), st.integers(1, 5)),
        st.tuples(st.just("file"), st.integers(0, 2)),
        st.tuples(st.just("cut off"), st.integers(0, 12)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("model"), st.sampled_from(("bag-of-words", "another"))),
        st.tuples(st.just("lose"), st.just(0)),
        st.tuples(st.just("open again"), st.just(0)),
    ),
    max_size=25,
)


def _take(crystals: Crystals, step: str, value: str | int, root: Path, embedder: BagOfWords) -> None:
    near, number = crystals.vectors.nearest, int(value) if isinstance(value, int) else 0
    assert near.file is not None
    if step == "write":
        kind = Kind.GOAL if "noon" in str(value) else Kind.FACT
        crystals.upsert([_note(str(value), session="s" if "ferry" in str(value) else "", kind=kind)])
    elif step == "embed":
        crystals.vectors.embed_pending(embedder, number)
    elif step == "file":
        for _ in range(number):
            near.write_file(lambda: None)
    elif step == "cut off":
        good, system = near.file, FaultySystem(root / "crystals", number, Fault.TORN_CRASH)
        near.file = VectorFile(good.path, Disk(good.path.parent, system))
        with suppress(PowerCut):
            write_file(crystals)
        near.file.close()
        near.file = good
    elif step == "remove":
        ids = [row[0] for row in crystals.connection.execute("SELECT id FROM crystals ORDER BY key")]
        crystals.remove(ids[-1 - number :][:1])  # the latest ones: their rows are given again
    elif step == "lose":
        near.file.path.unlink(missing_ok=True)
    else:
        near.file.close()


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=steps)
@example(taken=[("write", "canary"), ("embed", 1), ("file", 1), ("lose", 0)])
@example(taken=[("write", "cluster"), ("embed", 1), ("write", "canary"), ("file", 1), ("lose", 0)])
def test_after_any_steps_the_file_answers_as_state_db_does(taken: list[tuple[str, str | int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as crystals:
        embedder = EMBEDDER
        for step, value in taken:
            if step == "model":
                embedder = BagOfWords(str(value), WIDTH)
                crystals.vectors.use_model(embedder.name)
            else:
                _take(crystals, step, value, Path(folder), embedder)
            agrees(crystals)
        crystals.vectors.embed_pending(embedder, FEW)
        write_file(crystals)
        agrees(crystals)
        if stored(crystals):
            assert filed(crystals) == stored(crystals)


@pytest.mark.parametrize("fault", [Fault.CRASH, Fault.TORN_CRASH])
@pytest.mark.parametrize("kept", list(Bytes))
def test_whatever_a_disk_kept_of_a_batch_that_was_cut_off_nothing_is_missed(
    tmp_path: Path, fault: Fault, kept: Bytes
) -> None:
    (start := tmp_path / "start").mkdir()
    with opened(start) as crystals:
        fill(crystals, 4)
        gone = _note(f"{WORDS[3]} {WORDS[0]} 3")
        crystals.remove([gone.id])
        crystals.upsert(_note(f"late ferry {number}") for number in range(5))
        crystals.vectors.embed_pending(EMBEDDER, FEW)
    for call in range(60):
        root = shutil.copytree(start, tmp_path / f"{fault.name}-{kept.name}-{call}")
        system = FaultySystem(root / "crystals", call, fault)
        with opened(root, Disk(root / "crystals", system)) as crystals, suppress(PowerCut):
            write_file(crystals)
        image = system.image(tmp_path / f"image-{call}", Names.SYNCED, kept)
        shutil.rmtree(root / "crystals")
        shutil.copytree(image, root / "crystals")
        with opened(root) as crystals:
            agrees(crystals)
            write_file(crystals)
            agrees(crystals)
            assert filed(crystals) == stored(crystals)
        if not system.met:
            return
    raise AssertionError("there is no end of calls")


def _live(folder: str, number: int) -> None:
    """Write, embed, file and remove until somebody kills this process."""
    nearest.FILED_FROM, nearest._BATCH = 1, 3
    with opened(Path(folder)) as crystals:
        while True:
            number += 1
            crystals.upsert([_note(f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} {number}")])
            crystals.vectors.embed_pending(EMBEDDER, 1)
            crystals.vectors.nearest.write_file(lambda: None)
            if number % 3 == 0:
                rows = crystals.connection.execute("SELECT id FROM crystals ORDER BY key DESC LIMIT 2").fetchall()
                crystals.remove([row[0] for row in rows])


def _embedded(crystals: Crystals) -> set[tuple[int, str]]:
    rows = crystals.connection.execute("SELECT key, id FROM crystals JOIN vectors ON crystal = key")
    return {(int(key), id_) for key, id_ in rows}


@pytest.mark.parametrize("life", range(3))
def test_a_process_that_is_killed_leaves_a_file_that_answers_as_state_db_does(tmp_path: Path, life: int) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
    process = multiprocessing.get_context("forkserver").Process(target=_live, args=(str(tmp_path), 100 * life))
    process.start()
    with opened(tmp_path) as crystals:
        reading = 0
        while reading < 5 + 3 * life or crystals.newest() < 8 + life:  # it is read meanwhile
            assert process.is_alive()
            before = _embedded(crystals)
            found = crystals.vectors.nearest.to(EMBEDDER.embed(["canary cluster"]), FEW)[0]
            assert {key for key, _ in before & _embedded(crystals)} <= found.keys()
            reading += 1
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        agrees(crystals)
        write_file(crystals)
        agrees(crystals)
        assert filed(crystals) == stored(crystals)


def test_a_reader_in_another_place_sees_what_is_filed_meanwhile(tmp_path: Path) -> None:
    with opened(tmp_path) as owner, opened(tmp_path) as reader:
        fill(owner)
        assert reader.vectors.nearest.is_filed()
        agrees(reader)
        owner.upsert(_note(f"late harbour {number}") for number in range(9))
        owner.vectors.embed_pending(EMBEDDER, FEW)
        agrees(reader)
        write_file(owner)
        agrees(reader)
        owner.remove([_note("late harbour 3").id])
        agrees(reader)
        write_file(owner)
        agrees(reader)
        assert filed(reader) == stored(owner)


def test_the_vector_of_what_is_removed_leaves_the_file(tmp_path: Path) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
        file = tmp_path / "crystals" / NAME
        vector = crystals.vectors.of([_note("canary canary 0").id]).popitem()[1].tobytes()
        assert vector in file.read_bytes()
        crystals.remove([_note("canary canary 0").id])
        write_file(crystals)
        assert vector not in file.read_bytes()


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(9_000))


def _half_a_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def _without_its_end(path: Path) -> None:
    os.truncate(path, 4_096 + 3 * WIDTH * 4)


def _of_another_width(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[16:20] = (1 << 20).to_bytes(4, "little")
    path.write_bytes(content)


def _a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "harm", [Path.unlink, _garbage, _half_a_header, _without_its_end, _of_another_width, _a_link, _a_fifo]
)
@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_that_is_harmed_is_passed_over_and_made_anew(
    tmp_path: Path, harm: Callable[[Path], None], *, is_open: bool
) -> None:
    with opened(tmp_path) as crystals:
        fill(crystals)
        if is_open and harm in (_garbage, _half_a_header, _without_its_end):
            agrees(crystals)
        file = crystals.vectors.nearest.file
        assert file is not None
        if not is_open:
            file.close()
        harm(file.path)
        if not is_open or harm in (_half_a_header, _without_its_end):
            assert not crystals.vectors.nearest.is_filed()
        crystals.upsert([_note("late quartz")])
        crystals.vectors.embed_pending(EMBEDDER, FEW)
        write_file(crystals)
        file.close()
        write_file(crystals)
        agrees(crystals)
        assert filed(crystals) == stored(crystals)


@pytest.mark.parametrize("copied", ["state.db", f"crystals/{NAME}"])
def test_what_was_copied_back_from_an_earlier_time_is_noticed(tmp_path: Path, copied: str) -> None:
    root = tmp_path / "w"
    root.mkdir()
    with opened(root) as crystals:
        fill(crystals)
    shutil.copy(root / copied, tmp_path / "earlier")
    with opened(root) as crystals:
        crystals.remove([_note(f"{WORDS[number]} canary {number}").id for number in range(4, 8)])
        crystals.upsert(_note(f"late ferry {number}") for number in range(12))
        crystals.vectors.embed_pending(EMBEDDER, FEW)
        write_file(crystals)
    shutil.copy(tmp_path / "earlier", root / copied)
    with opened(root) as crystals:
        assert not crystals.vectors.nearest.is_filed()
        agrees(crystals)
        write_file(crystals)
        assert filed(crystals) == stored(crystals)


def test_without_a_file_a_large_store_compares_the_latest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "COMPARED", 3)
    with opened(tmp_path) as crystals:
        crystals.vectors.nearest.file = None
        fill(crystals)
        index = ListIndex()
        near, asked = crystals.vectors.nearest, EMBEDDER.embed(["canary"])
        assert set(near.to(asked, FEW)[0]) == {6, 7, 8}
        assert set(near.to(asked, FEW, "crystals.kind <> ?", ["goal"])[0]) <= set(range(1, 9))
        assert len(near.to(asked, FEW, "crystals.kind <> ?", ["goal"])[0]) == 3
        crystals.vectors.index_pending(index, 4)
        assert set(near.to(asked, FEW, index=index)[0]) == {1, 2, 3, 4, 6, 7, 8}


def test_rows_far_apart_are_not_filed(tmp_path: Path) -> None:
    with opened(tmp_path) as crystals:
        crystals.upsert([_note("canary")])
        crystals.connection.execute("PRAGMA foreign_keys = OFF")
        crystals.connection.execute("UPDATE crystals SET key = 1 << 40")
        crystals.connection.execute("UPDATE to_embed SET crystal = 1 << 40")
        crystals.vectors.embed_pending(EMBEDDER, FEW)
        write_file(crystals)
        assert not crystals.vectors.nearest.is_filed()
        agrees(crystals)
        assert not any((tmp_path / "crystals").iterdir())
