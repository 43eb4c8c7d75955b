"""Backups that are taken while everybody writes, importers that are killed, and disks that run full."""

import hashlib
import random
import re
import resource
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.upkeep import export_archive
from daemon.config.settings import Config
from daemon.upkeep.import_ import import_archive
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import open_exclusive
from daemon.workspace.vector_index import Embedding
from state.scratch import Note
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.vectors.embedder import Unavailable
from tests.journeys.test_full_disk import limited
from tests.support import archives, forked, lived
from tests.support.keeping import copied, one_line
from tests.support.long_variants import variants
from tests.support.running import Caller, Ended
from tests.support.serving import THINGS, Home


@pytest.mark.full
@pytest.mark.parametrize("backups", variants(1, 60))
def test_a_backup_while_everybody_writes_restores_clean(home: Home, backups: int) -> None:
    home.configure(dream={"interval_minutes": 1 / 60, "min_chunks": 3})
    workspace, ending = home.workspace("first"), threading.Event()
    tried, acknowledged = set[str](), list[str]()

    def write(number: int) -> None:
        for turn in count():
            if ending.wait(random.Random(f"{number} {turn}").uniform(0.3, 1.5)):
                return
            marked = f"x{(turn * 8 + number) * 7919}q"
            text = f"Writer {number} repaired the {THINGS[turn % 12]} of house {turn}, marked {marked}"
            tried.add(text)
            if number % 2:
                with workspace.scratch.open("a", encoding="utf-8") as log:
                    log.write(f"- {text}\n")
            else:
                home.client.call(workspace.name, working_memory_note, working_memory_note.bind(note=text))
            acknowledged.append(text)

    with home.serving(XDG_CACHE_HOME=str(home.folder / "no-model")) as daemon, ThreadPoolExecutor(8) as pool:
        writing, taken = [pool.submit(write, number) for number in range(8)], 0
        try:
            while taken < backups or not daemon.events("dream_committed"):
                before, target = [*acknowledged], home.folder / f"backup {taken}.db"
                done = home.client.call(workspace.name, export_archive, export_archive.bind())
                Path(done.path).rename(target)
                there = open_workspace(Path(import_archive(target, home.folder / f"restored {taken}").workspace))
                assert_clean(there, before, tried)
                shutil.rmtree(there.root)
                target.unlink()
                taken += 1
        finally:
            ending.set()
        for one in writing:
            one.result()
        assert list(workspace.state.glob(".export*")) == []


def assert_clean(there: Workspace, before: list[str], tried: set[str]) -> None:
    """Each note that was acknowledged before is there once, no other one twice or in part, and nothing is odd."""
    places = lived.places(there)
    assert [text for text in before if places[text] != 1] == []
    assert [text for text, times in places.items() if times != 1 or text not in tried] == []
    none = Embedding.given(Unavailable("not needed here"))
    with open_exclusive(there, Config(), "test", embedding=none) as store:
        assert store.notices == []
        assert store.memory.recover() == 0
        assert store.connection.execute("PRAGMA integrity_check").fetchall()[0][0] == "ok"
        versions = [store.memory.text(one.number) for one in store.lineage.versions(1_000)]
    if versions:
        assert there.document.read_text(encoding="utf-8") in versions
        lived.assert_valid(there)


@pytest.mark.full
def test_an_export_through_the_daemon_and_an_import_into_its_keeping(home: Home, tmp_path: Path) -> None:
    workspace = home.workspace("first")
    NoteInbox(workspace).append(Note("lighthouses are the theme", datetime.now(UTC)))
    with home.serving() as daemon:
        ended = home.dreamd("export", workspace.root, "-o", home.folder / "x.db", "--json")
        assert ended.status == 0, ended
        piped = forked.run(["export", workspace.root, "-o", "-"], environment=home.environment())
        assert piped.returncode == 0, piped.stderr
        (home.folder / "piped.db").write_bytes(piped.stdout)
        # The index is no part of what is kept, and may be brought up to date in between.
        written, told = (archives.members(home.folder / name) for name in ("x.db", "piped.db"))
        index = dict.fromkeys(("index_state", "to_index"), b"")
        assert {**told, **index} == {**written, **index}
        assert hashlib.sha256((home.folder / "x.db").read_bytes()).hexdigest() == ended.json["sha256"]
        done = home.dreamd("import", home.folder / "x.db", home.folder / "there", "--json")
        assert done.json["daemon"] is True
        there = open_workspace(home.folder / "there", home.environment())
        daemon.until(lambda: daemon.kept(there))
        assert "lighthouses are the theme" in daemon.found(there, "lighthouses")
        assert list(workspace.state.glob(".export*")) == []


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin")
    return archives.exported(archives.lived(folder / "here"), folder / "honest.db")


def test_a_memory_goes_on_at_another_users(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With MEMORY.md, notes, history and search."""
    dreamd, here, there = Caller(capsys), archive.parent / "here", tmp_path / "there"
    asked = ("history", "search granite", "search 東京", "session show s")
    before = [dreamd(*words.split(), "-w", here) for words in asked]
    pending = lived.pending(open_workspace(here))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert dreamd("import", archive, there, "--no-daemon").status == 0
    after = [dreamd(*words.split(), "-w", there) for words in asked]
    assert [_timeless(ended) for ended in after] == [_timeless(ended) for ended in before]
    workspace = open_workspace(there)
    assert workspace.state.is_relative_to(tmp_path / "data")
    assert sorted(lived.pending(workspace)) == sorted(pending)
    assert _TIMES.sub("", lived.document(workspace)) == _TIMES.sub(
        "", (here / "MEMORY.md").read_text(encoding="utf-8")
    )


_TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?|\d+ (s|min|h|d) (old|ago)|@[0-9a-f]+")


def _timeless(ended: Ended) -> tuple[int, str, str]:
    return ended.status, _TIMES.sub("", ended.out), ended.err


def test_a_limit_on_the_size_of_files_leaves_nothing_either(archive: Path, tmp_path: Path) -> None:
    """What is not known before: the disk fills while the members are written."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    (tmp_path / "alone").mkdir()
    one_line(limited(250, "import", archive, tmp_path / "alone" / "there", "--no-daemon"), 1)
    assert list((tmp_path / "alone").iterdir()) == []
    here = copied(archive.parent / "here", tmp_path / "here")
    limited(
        10_000, "history", "-w", here
    )  # who only looks may leave files beside state.db, which whoever writes takes
    before = lived.everything(here)
    one_line(limited(100, "export", here, "-o", tmp_path / "x.db"), 1)
    assert lived.everything(here) == before
    assert not (tmp_path / "x.db").exists()
