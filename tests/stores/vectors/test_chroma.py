"""The index answers like an exact search, follows the truth, and is built again only when it was left torn."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from state.errors import FencedError, StorageError
from state.stores.vectors.chroma import Found, IndexReport, VectorIndex, open_index, open_whole
from state.stores.vectors.sealed_folder import IndexFolder
from tests.support.long_variants import examples

Matrix = NDArray[np.float32]


class Arrays:
    """A truth in memory."""

    def __init__(self, vectors: dict[str, Matrix]) -> None:
        self.vectors = vectors

    def vector_count(self) -> int:
        return len(self.vectors)

    def vector_sample(self, n: int) -> list[tuple[str, Matrix]]:
        return list(self.vectors.items())[:: max(1, len(self.vectors) // n)][:n]

    def vector_batches(self, size: int) -> Iterator[tuple[list[str], Matrix]]:
        ids = list(self.vectors)
        for first in range(0, len(ids), size):
            yield ids[first : first + size], np.array([self.vectors[name] for name in ids[first : first + size]])


def vectors(first: int, end: int, seed: int = 1) -> dict[str, Matrix]:
    return {f"{number:032x}": vector(number, seed) for number in range(first, end)}


def vector(number: int, seed: int = 1) -> Matrix:
    values = np.random.default_rng([seed, number]).normal(size=384).astype(np.float32)
    return np.asarray(values / np.linalg.norm(values))


def opened_and_closed(folder: Path, truth: Arrays) -> IndexReport:
    """Open, look for every record by its own vector, close."""
    index, report = open_index(folder, "workspace", truth)
    with closing(index):
        assert index.count() == report.records == len(truth.vectors)
        lost = [name for name, own in truth.vectors.items() if index.nearest(own, 1)[0][0] != name]
    assert lost == []
    return report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "crystals"


@pytest.fixture
def index(folder: Path) -> Iterator[VectorIndex]:
    index, _ = open_index(folder, "workspace", Arrays(vectors(0, 300)))
    with closing(index):
        yield index


@pytest.mark.full
def test_a_first_opening_builds_the_index_from_the_truth(folder: Path) -> None:
    report = opened_and_closed(folder, Arrays(vectors(0, 1200)))
    assert report == IndexReport(Found.NOTHING, "", added=1200, removed=0, records=1200)


def test_nearest_is_what_comparing_with_every_vector_gives(index: VectorIndex) -> None:
    known = vectors(0, 300)
    for number in range(1000, 1010):
        scores = {name: float(own @ vector(number)) for name, own in known.items()}
        best = sorted(scores, key=lambda name: -scores[name])[:10]
        found = index.nearest(vector(number), 10)
        assert [name for name, _ in found] == best
        assert [cosine for _, cosine in found] == pytest.approx([scores[name] for name in best], abs=1e-5)


def test_more_neighbours_than_records_are_all_records_and_none_are_none(index: VectorIndex) -> None:
    assert len(index.nearest(vector(5), 1000)) == 300
    assert index.nearest(vector(5), 0) == []


def test_an_empty_truth_is_an_empty_index(folder: Path) -> None:
    for found in (Found.NOTHING, Found.WHOLE):
        index, report = open_index(folder, "workspace", Arrays({}))
        with closing(index):
            assert index.nearest(vector(1), 5) == []
        assert (report.found, report.records) == (found, 0)


def test_an_upsert_replaces_the_vector_and_of_an_id_given_twice_the_last_counts(index: VectorIndex) -> None:
    name = f"{7:032x}"
    index.upsert(["new", name, "new"], np.array([vector(1), vector(2, seed=9), vector(3, seed=9)]))
    assert index.count() == 301
    ((nearest, cosine),) = index.nearest(vector(2, seed=9), 1)
    assert (nearest, round(cosine, 4)) == (name, 1.0)
    assert index.nearest(vector(3, seed=9), 1)[0][0] == "new"
    assert index.nearest(vector(7), 1)[0][0] != name


def test_what_is_deleted_is_not_found_and_deleting_it_again_is_nothing(index: VectorIndex) -> None:
    for _ in range(2):
        index.delete([f"{7:032x}", f"{8:032x}", f"{7:032x}", "never there"])
        assert index.count() == 298
    assert index.nearest(vector(7), 1)[0][0] != f"{7:032x}"


@pytest.mark.full
def test_an_index_is_opened_as_it_was_left(folder: Path) -> None:
    truth = Arrays(vectors(0, 300))
    assert opened_and_closed(folder, truth).rebuilt
    for _ in range(2):
        report = opened_and_closed(folder, truth)
        assert report == IndexReport(Found.WHOLE, "", added=0, removed=0, records=300)
        assert not report.rebuilt


@pytest.mark.full
def test_between_two_calls_a_process_may_die(folder: Path) -> None:
    known = Arrays(vectors(0, 1100))
    index, _ = open_index(folder, "workspace", Arrays({}))
    for act in (
        lambda: index.upsert(list(known.vectors), np.array(list(known.vectors.values()))),
        lambda: index.nearest(vector(3), 5),
        lambda: index.delete([f"{number:032x}" for number in range(1000, 1100)]),
        index.ids,
    ):
        act()
        home = IndexFolder(folder)
        build = home.build()
        assert build
        assert home.sealed(build)
    index.close()  # the process would be gone; two clients in one must not share the files
    assert opened_and_closed(folder, Arrays(vectors(0, 1000))).found is Found.WHOLE


def test_files_that_were_not_sealed_are_not_opened(folder: Path) -> None:
    truth = Arrays(vectors(0, 50))
    opened_and_closed(folder, truth)
    (folder / "clean.json").unlink()
    (before,) = folder.glob("index-*")
    report = opened_and_closed(folder, truth)
    assert (report.found, report.rebuilt, report.added) == (Found.UNSEALED, True, 50)
    assert "ended while it wrote" in report.reason
    (after,) = folder.glob("index-*")
    assert after != before


def test_files_that_were_copied_are_not_opened(folder: Path, tmp_path: Path) -> None:
    truth = Arrays(vectors(0, 50))
    opened_and_closed(folder, truth)
    shutil.copytree(folder, tmp_path / "copy")
    assert opened_and_closed(tmp_path / "copy", truth).found is Found.UNSEALED


@pytest.mark.full
def test_an_index_behind_or_ahead_is_completed_and_not_built_again(folder: Path) -> None:
    opened_and_closed(folder, Arrays(vectors(0, 300)))
    report = opened_and_closed(folder, Arrays(vectors(20, 400)))
    assert report == IndexReport(Found.WHOLE, "", added=100, removed=20, records=380)


def test_an_index_far_behind_is_completed_only_by_who_has_the_time(folder: Path) -> None:
    opened_and_closed(folder, Arrays(vectors(0, 100)))
    truth = Arrays(vectors(0, 400))
    assert open_whole(folder, "workspace", truth, most=299) == (None, IndexReport(Found.BEHIND, "", 0, 0, 100))
    index, report = open_whole(folder, "workspace", truth, most=300)
    assert index is not None
    assert report == IndexReport(Found.WHOLE, "", added=300, removed=0, records=400)
    index.close()


def test_the_index_of_another_truth_is_no_index(folder: Path) -> None:
    opened_and_closed(folder, Arrays(vectors(0, 100)))
    report = opened_and_closed(folder, Arrays(vectors(200, 300)))
    assert (report.found, report.removed) == (Found.BROKEN, 0)
    assert "none of" in report.reason


def test_the_vectors_of_another_model_are_no_index(folder: Path) -> None:
    opened_and_closed(folder, Arrays(vectors(0, 100)))
    report = opened_and_closed(folder, Arrays(vectors(0, 100, seed=2)))
    assert (report.found, report.rebuilt) == (Found.BROKEN, True)
    assert "own vectors" in report.reason


def test_a_sealed_index_without_the_collection_is_built_again(folder: Path) -> None:
    opened_and_closed(folder, Arrays(vectors(0, 100)))
    index, report = open_index(folder, "elsewhere", Arrays(vectors(0, 100)))
    index.close()
    assert (report.found, report.records) == (Found.BROKEN, 100)


def test_many_records_with_one_vector_are_no_fault(folder: Path) -> None:
    truth = Arrays({f"{number:032x}": vector(1) for number in range(60)})
    for found in (Found.NOTHING, Found.WHOLE):
        index, report = open_index(folder, "workspace", truth)
        index.close()
        assert (report.found, report.records) == (found, 60)


def test_a_failure_is_told_and_has_the_index_built_again(folder: Path) -> None:
    index, _ = open_index(folder, "workspace", Arrays(vectors(0, 50)))
    with pytest.raises(StorageError, match="dimension"):
        index.nearest(np.ones(3, dtype=np.float32), 1)
    index.close()
    assert opened_and_closed(folder, Arrays(vectors(0, 50))).found is Found.UNSEALED


def test_who_owns_the_workspace_no_longer_writes_nothing_into_the_files_of_its_new_owner(folder: Path) -> None:
    truth, displaced = Arrays(vectors(0, 50)), False

    def check() -> None:
        if displaced:
            raise FencedError("taken over")

    old, _ = open_index(folder, "workspace", truth, check)
    displaced = True  # stopped between two writes: its files are sealed, and the new owner opens them
    new, report = open_index(folder, "workspace", truth)
    assert report.found is Found.WHOLE
    with pytest.raises(FencedError):
        old.upsert(["more"], vector(99)[None])
    with pytest.raises(FencedError):
        old.delete(["v1"])
    assert new.count() == 50
    assert new.fault(truth.vector_sample(50)) == ""
    for opened in (open_whole, open_index):
        with pytest.raises(FencedError):
            opened(folder, "workspace", truth, check)
    new.close()
    old.close()


def test_what_is_not_whole_is_not_built_by_who_only_opens_it(folder: Path) -> None:
    truth = Arrays(vectors(0, 50))
    assert open_whole(folder, "workspace", truth) == (None, IndexReport(Found.NOTHING, "", 0, 0, 0))
    opened_and_closed(folder, truth)
    index, report = open_whole(folder, "workspace", truth)
    assert index is not None
    assert report == IndexReport(Found.WHOLE, "", 0, 0, 50)
    index.close()
    (folder / "clean.json").unlink()
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    index, report = open_whole(folder, "workspace", truth)
    assert (index, report.found) == (None, Found.UNSEALED)
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        open_index(tmp_path / "file" / "crystals", "workspace", Arrays({}))


def test_an_env_file_where_the_process_runs_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.parent.joinpath(".env").write_text("CHROMA_API_IMPL=chromadb.api.fastapi.FastAPI\nIS_PERSISTENT=false\n")
    monkeypatch.chdir(folder.parent)
    opened_and_closed(folder, Arrays(vectors(0, 10)))
    assert list(folder.glob("index-*/chroma.sqlite3"))


def test_importing_the_module_loads_nothing_heavy() -> None:
    script = "import sys, state.stores.vectors.chroma; print({'numpy', 'chromadb', 'pydantic'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


numbers = st.lists(st.integers(0, 30), max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), numbers, st.integers(1, 3)),
        st.tuples(st.just("delete"), numbers, st.just(0)),
        st.tuples(st.just("reopen"), st.just([]), st.just(0)),
    ),
    max_size=12,
)


@pytest.mark.full
@examples(12, database=None)
@given(steps)
def test_after_any_steps_the_index_holds_what_a_dictionary_holds(steps: list[tuple[str, list[int], int]]) -> None:
    truth = Arrays({})
    with tempfile.TemporaryDirectory() as name:
        index, _ = open_index(Path(name), "workspace", truth)
        for step, numbers, seed in steps:
            changed = {f"{number:032x}": vector(number, seed) for number in numbers}
            if step == "upsert" and changed:
                truth.vectors.update(changed)
                index.upsert(list(changed), np.array(list(changed.values())))
            elif step == "delete":
                truth.vectors = {name: own for name, own in truth.vectors.items() if name not in changed}
                index.delete(list(changed))
            elif step == "reopen":
                index.close()
                index, report = open_index(Path(name), "workspace", truth)
                assert (report.found, report.added, report.removed) == (Found.WHOLE, 0, 0)
            assert index.count() == len(truth.vectors)
            for known, own in truth.vectors.items():
                assert index.nearest(own, 1)[0][0] == known
        index.close()
