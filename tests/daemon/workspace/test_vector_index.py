"""The vector index of a workspace in the daemon: whatever becomes of its files, it is built again by itself."""

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from zlib import crc32

import chromadb
import numpy as np
import pytest
from numpy.typing import NDArray

from daemon.api.operations.search import recall, search
from daemon.config.settings import Config
from daemon.workspace.searching import embed_waiting
from daemon.workspace.stores import open_exclusive, open_owned, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state.crystals.crystal import Crystal, Origin
from state.errors import FencedError
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.vectors import index_state, put_index_state
from state.stores.database.moments import to_text
from state.stores.database.opening import open_database
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.generations.generations import Generations
from state.stores.generations.objects import FolderObjects
from state.stores.vectors.chroma import COLLECTION
from tests.support.generation_folders import put
from tests.support.in_memory import BagOfWords

WIDTH = 16

COUNT = 1_200


class Drawn(BagOfWords):
    """Gives each text a vector of its own."""

    def _direction(self, text: str) -> NDArray[np.float32]:
        drawn = np.random.default_rng(crc32(text.encode())).standard_normal(self.width)
        return np.asarray(drawn / np.linalg.norm(drawn), dtype=np.float32)


EMBEDDER = Drawn(width=WIDTH)

CONTEXT = multiprocessing.get_context("spawn")


@contextmanager
def opened(workspace: Workspace) -> Iterator[Crystals]:
    with closing(open_database(workspace.database)) as connection:
        yield Crystals(connection)


def fill(crystals: Crystals, first: int, end: int) -> None:
    """Crystals with vectors that differ from each other."""
    notes = [Crystal(f"House {number} was repaired", Origin.SCRATCH, utc_now()) for number in range(first, end)]
    crystals.learn(notes)
    crystals.vectors.embed_pending(EMBEDDER, len(notes))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = init_workspace(contained(tmp_path / "agent"))
    with opened(found) as crystals:
        fill(crystals, 0, 300)
    return found


def held(index: Index, crystals: Crystals) -> int:
    """How many records ChromaDB holds once it was told; and each of a sample is found by its own vector."""
    index.tell(crystals)
    found = index.wait()
    assert found is not None
    index.tell(crystals)
    keys, vectors = crystals.vectors.read(random.Random(3).sample(range(1, crystals.newest() + 1), 20))
    assert vectors is not None
    for key, vector in zip(keys, vectors, strict=True):
        assert next(iter(crystals.vectors.nearest.to(vector, 5, index=found))) == key
        assert not found.failed
    return found.count()


@pytest.mark.full
def test_it_holds_each_crystal_and_is_opened_as_it_was_left(workspace: Workspace) -> None:
    failures = list[Exception]()
    with opened(workspace) as crystals:
        first = Index(workspace, lambda: None, background=True, failed=failures.append)
        first.prepare(crystals)
        assert first.ready(crystals) is None  # it is opened meanwhile
        assert held(first, crystals) == 300
        build = index_state(crystals.connection)
        assert build.stamp
        assert [one for one in workspace.index.rglob("*") if one.stat().st_mode & 0o077] == []
        fill(crystals, 300, 400)
        assert held(first, crystals) == 400
        first.rest()
        assert first.ready(crystals) is None  # it is opened again
        assert held(first, crystals) == 400
        first.close()
        fill(crystals, 400, 450)
        second = Index(workspace, lambda: None, background=True, failed=failures.append)
        assert held(second, crystals) == 450
        assert index_state(crystals.connection).build == build.build
        crystals.vectors.use_model("another")
        assert second.ready(crystals) is None
        second.wait()
        second.close()
        assert index_state(crystals.connection).build != build.build
    assert failures == []


def test_chromadbs_own_client_finds_every_crystal_as_it_is_and_nothing_else(workspace: Workspace) -> None:
    with opened(workspace) as crystals, closing(Index(workspace, lambda: None, background=True)) as index:
        index.tell(crystals)
        index.wait()
        ids = [one.id for one in crystals.by_keys(range(1, 301)).values()]
        crystals.remove(ids[:3])
        fill(crystals, 300, 310)
        earlier = Crystal("House 9 was repaired", Origin.SCRATCH, utc_now() - timedelta(days=9), context="Mon")
        crystals.learn([earlier])
        crystals.connection.execute("UPDATE crystals SET speaker = 'Mira', text = 'House' WHERE key = 20")
        crystals.vectors.embed_pending(EMBEDDER)
        index.tell(crystals)
        assert crystals.vectors.waiting() == (0, 0)
        known = {one.id: one for one in crystals.by_keys(range(400)).values()}
        _, vectors = crystals.vectors.read(crystals.keys(known).values())
    assert vectors is not None
    (build,) = workspace.index.iterdir()
    client = chromadb.PersistentClient(path=build)
    told = client.get_collection(COLLECTION).get(include=["documents", "metadatas", "embeddings"])
    assert dict(zip(told["ids"], told["documents"] or (), strict=True)) == {
        id_: one.text for id_, one in known.items()
    }
    assert dict(zip(told["ids"], told["metadatas"] or (), strict=True)) == {
        id_: {
            "origin": one.origin.value,
            "kind": one.kind.value,
            "speaker": one.speaker,
            "session": one.session,
            "created_at": to_text(one.created_at),
        }
        for id_, one in known.items()
    }
    order = {id_: place for place, id_ in enumerate(known)}
    assert np.allclose(np.asarray(told["embeddings"]), vectors[[order[id_] for id_ in told["ids"]]], atol=1e-6)


def test_what_a_search_has_embedded_is_told(tmp_path: Path) -> None:
    workspace = init_workspace(contained(tmp_path / "agent"))
    with (
        closing(Index(workspace, lambda: None, Embedding.given(EMBEDDER), background=True)) as index,
        closing(open_owned(index, Config())) as store,
    ):
        store.crystals.learn(Crystal(f"House {n} was repaired", Origin.SCRATCH, utc_now()) for n in range(60))
        recall(store, "House 7", agent=None)
        assert embed_waiting(store) == 0  # as a dream does next
        found = index.wait()
        assert found is not None
        assert found.count() == 60
        store.crystals.learn([Crystal("House 60 was sold", Origin.SCRATCH, utc_now())])
        recall(store, "House 60", agent=None)
        assert found.count() == 61


def test_one_that_is_not_the_daemons_opens_none(workspace: Workspace) -> None:
    with opened(workspace) as crystals, closing(Index(workspace, lambda: None)) as index:
        index.prepare(crystals)
        index.tell(crystals)
        assert index.wait() is None
        assert [path.name for path in workspace.index.iterdir() if path.is_dir()] == []


@pytest.mark.full
def test_an_index_that_is_being_built_is_given_up_before_its_folder_is(workspace: Workspace) -> None:
    failures = list[Exception]()
    with opened(workspace) as crystals:
        fill(crystals, 300, 3_000)
        first = Index(workspace, lambda: None, background=True, failed=failures.append)
        assert first.ready(crystals) is None
        builder = first._builder
        assert builder is not None
        first.close()
        assert not builder.is_alive()  # whoever has the lock next is alone in the folder
        with closing(Index(workspace, lambda: None, background=True, failed=failures.append)) as second:
            assert held(second, crystals) == 3_000
    assert failures == []


@pytest.mark.full
def test_who_owns_the_workspace_no_longer_writes_nothing_and_leaves_the_mark_alone(workspace: Workspace) -> None:
    is_fenced = False

    def check() -> None:
        if is_fenced:
            raise FencedError("it is another's", "stop")

    with opened(workspace) as crystals, closing(Index(workspace, check, background=True)) as old:
        held(old, crystals)
        before = index_state(crystals.connection)
        fill(crystals, 300, 310)
        is_fenced = True
        with pytest.raises(FencedError):
            old.tell(crystals)
        assert index_state(crystals.connection) == before
        assert crystals.vectors.waiting() == (0, 10)


@pytest.mark.full
@pytest.mark.parametrize("background", [True, False])
def test_a_drop_leaves_nothing_of_what_is_gone(workspace: Workspace, *, background: bool) -> None:
    """ChromaDB's own deletions would leave the text in its queue."""
    with opened(workspace) as crystals:
        daemons = Index(workspace, lambda: None, background=True)
        held(daemons, crystals)
        if not background:
            daemons.close()
        index = daemons if background else Index(workspace, lambda: None)
        (text,) = (one.text for one in crystals.by_keys([7]).values())
        inside = [path for path in workspace.index.rglob("*") if path.is_file()]
        assert any(text.encode() in path.read_bytes() for path in inside)
        crystals.remove([one.id for one in crystals.by_keys([7]).values()])
        index.drop(crystals)
        assert list(workspace.index.iterdir()) == []
        assert crystals.vectors.waiting() == (0, 299)  # the others are not embedded anew
        index.close()
        with closing(Index(workspace, lambda: None, background=True)) as again:
            assert held(again, crystals) == 299
        daemons.close()


def test_what_nobody_means_is_deleted(workspace: Workspace) -> None:
    with opened(workspace) as crystals:
        for name in ("chroma-left", "chroma-meant"):
            (workspace.index / name).mkdir()
        (workspace.index / "left.db").write_bytes(b"of nobody")
        put_index_state(crystals.connection, index_state(crystals.connection)._replace(build="chroma-meant"))
        Index(workspace, lambda: None).prepare(crystals)
        assert [path.name for path in workspace.index.iterdir()] == ["chroma-meant"]


def test_a_workspace_that_moves_takes_its_vectors_along(tmp_path: Path) -> None:
    here, there = Drawn(width=WIDTH), Drawn(width=WIDTH)
    workspace, generations = (
        init_workspace(contained(tmp_path / "here")),
        Generations(FolderObjects(tmp_path), "7/42"),
    )
    with open_exclusive(workspace, Config(), "test", embedding=Embedding.given(here)) as store:
        store.crystals.learn(Crystal(f"House {n} was repaired", Origin.SCRATCH, utc_now()) for n in range(30))
        assert embed_waiting(store) == 30
    put(generations, workspace.root, 1)
    generations.bring_up(tmp_path / "there", generations.version(1))
    with open_exclusive(contained(tmp_path / "there"), Config(), "test", embedding=Embedding.given(there)) as store:
        assert embed_waiting(store) == 0
        assert search(store, "House 7").arms == ("lexical", "dense")
    assert len(there.texts) == 1  # the question


# --- torn files
def open_and_tell(root: Path, answers: Connection) -> None:
    """Open the index as the daemon does and say how many it holds, and whether it was built anew."""
    workspace, failures = contained(root), list[Exception]()
    with opened(workspace) as crystals:
        before = index_state(crystals.connection).build
        with closing(Index(workspace, lambda: None, background=True, failed=failures.append)) as index:
            count = held(index, crystals)
        answers.send((count, before != index_state(crystals.connection).build, [str(one) for one in failures]))


def looked_at(workspace: Workspace) -> tuple[int, bool]:
    """What a process says that opens it; the second, if the first is killed by what it opened."""
    for _ in range(2):
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=open_and_tell, args=(workspace.root, theirs))
        process.start()
        theirs.close()
        process.join(120)
        if process.exitcode == 0:
            count, is_new, failures = ours.recv()
            assert failures == []
            return count, is_new
        assert process.exitcode is not None
        assert process.exitcode < 0, "it was not killed, and failed"
    raise AssertionError("a torn index kills more than once")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace whose index has a graph on the disk, and was closed."""
    workspace = init_workspace(contained(tmp_path_factory.mktemp("kept") / "agent"))
    with opened(workspace) as crystals:
        fill(crystals, 0, COUNT)
    assert looked_at(workspace) == (COUNT, True)
    assert looked_at(workspace) == (COUNT, False)
    return workspace


def _build(workspace: Workspace) -> Path:
    (build,) = workspace.index.glob("chroma-*")
    return build


def _graph(workspace: Workspace) -> Path:
    return next(_build(workspace).rglob("data_level0.bin"))


def _gone(path: Path) -> None:
    path.unlink()


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _noise(path: Path) -> None:
    path.write_bytes(np.random.default_rng(3).bytes(path.stat().st_size))


def _half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _records_lost(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM embeddings WHERE id > 600")


FILES: tuple[Callable[[Workspace], Path], ...] = (
    lambda one: _build(one) / "chroma.sqlite3",
    _graph,
    lambda one: _graph(one).with_name("header.bin"),
    lambda one: _graph(one).with_name("link_lists.bin"),
)


@pytest.mark.full
@pytest.mark.parametrize("file", range(len(FILES)))
@pytest.mark.parametrize("spoil", [_gone, _emptied, _noise, _half, _fifo, _a_link])
def test_a_damaged_file_is_thrown_away_or_does_no_harm(
    kept: Workspace, tmp_path: Path, file: int, spoil: Callable[[Path], None]
) -> None:
    """Where ChromaDB opens it all the same, what it answers is compared with the vectors, by who searches."""
    workspace = contained(Path(shutil.copytree(kept.root, tmp_path / "copy")).resolve())
    spoil(FILES[file](workspace))
    try:
        assert looked_at(workspace)[0] == COUNT
    except AssertionError:
        # It was opened, and found wrong as it was asked: then it was dropped, and the next one builds it.
        assert looked_at(workspace) == (COUNT, True)


@pytest.mark.full
def test_a_build_that_is_gone_lost_records_or_was_not_closed_is_built_again(kept: Workspace, tmp_path: Path) -> None:
    def in_copy(name: str) -> Workspace:
        return contained(Path(shutil.copytree(kept.root, tmp_path / name)).resolve())

    gone = in_copy("gone")
    shutil.rmtree(_build(gone))
    assert looked_at(gone) == (COUNT, True)
    lost = in_copy("lost")
    _records_lost(_build(lost) / "chroma.sqlite3")
    assert looked_at(lost) == (COUNT, True)
    older = in_copy("older")
    older_database = older.database.read_bytes()
    with opened(older) as crystals:
        fill(crystals, COUNT, COUNT + 1)
    assert looked_at(older) == (COUNT + 1, False)
    with opened(older) as crystals:
        crystals.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    older.database.write_bytes(older_database)  # put back by hand
    assert looked_at(older) == (COUNT, True)
    unclean = in_copy("unclean")
    with opened(unclean) as crystals:
        put_index_state(crystals.connection, index_state(crystals.connection)._replace(stamp=""))
    assert looked_at(unclean) == (COUNT, True)
    others = init_workspace(contained(tmp_path / "others"))
    with opened(others) as crystals:
        fill(crystals, 5_000, 5_300)
    assert looked_at(others) == (300, True)
    shutil.rmtree(_build(others))
    with opened(others) as crystals:
        shutil.copytree(_build(kept), others.index / index_state(crystals.connection).build)
    assert looked_at(others) == (300, True)


def _live(root: Path, first: int) -> None:
    """A life of writing and telling, until it is killed."""
    workspace = contained(root)
    with opened(workspace) as crystals, closing(Index(workspace, lambda: None, background=True)) as index:
        held(index, crystals)
        (root / "is open").write_text("")
        for turn in range(10_000):
            fill(crystals, first + 20 * turn, first + 20 * turn + 20)
            index.tell(crystals)


@pytest.mark.full
@pytest.mark.parametrize("life", range(4))
def test_a_kill_while_the_index_is_filled_loses_nothing(kept: Workspace, tmp_path: Path, life: int) -> None:
    workspace = contained(Path(shutil.copytree(kept.root, tmp_path / "copy")).resolve())
    for number in range(3):
        mark = workspace.root / "is open"
        mark.unlink(missing_ok=True)
        process = CONTEXT.Process(target=_live, args=(workspace.root, 10_000 * (number + 1)))
        process.start()
        until = time.monotonic() + 60
        while not mark.exists() and process.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        assert process.is_alive()
        time.sleep(random.Random(10 * life + number).uniform(0.0, 0.5))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    with opened(workspace) as crystals:
        count = crystals.vectors.vector_count()
    assert looked_at(workspace)[0] == count
