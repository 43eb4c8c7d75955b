"""Generations: any of them comes up as it was put, on any machine, over whatever an older one has left there."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from state.errors import UnreachableError
from state.stores.generations import local_copy
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from tests.support.generation_folders import NOW, PREFIX, contents, everything, files, grow, make_folder, write_rows

if TYPE_CHECKING:
    from state.fleet.generation import Manifest


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "here")


def test_a_generation_comes_up_elsewhere_as_it_was_put(objects: Objects, here: Path, tmp_path: Path) -> None:
    (here / "transcripts").mkdir()
    (here / "transcripts" / "one.jsonl").write_bytes(os.urandom(100_000))
    (here / "empty").touch()
    generations = Generations(objects, PREFIX)
    key, put = generations.put(here, None, 1, 5, NOW)
    assert key.startswith(f"{PREFIX}/generations/000000000001-5-")
    manifest = Generations(objects, PREFIX).manifest(key)
    assert manifest == put
    there = tmp_path / "there"
    Generations(objects, PREFIX).bring_up(there, manifest)
    assert contents(there) == contents(here)
    for name in ("MEMORY.md", "memory/scratch.md", ".dreamd/inbox.md"):
        assert (there / name).stat().st_mtime_ns == (here / name).stat().st_mtime_ns
    assert {path.stat().st_mode & 0o777 for path in there.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in [there, *there.rglob("*")] if path.is_dir()} == {0o700}


def test_what_is_this_machines_alone_is_in_no_generation(objects: Objects, here: Path, tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    for name in ("originals.jsonl", "lock", "fence", ".originals.jsonl.1-a.dreamd-tmp", "index/vectors.db"):
        (here / ".dreamd" / name).write_text(secret)
    outside = tmp_path / "outside"
    outside.write_text(secret)
    (here / "link").symlink_to(outside)
    (here / "linked").symlink_to(tmp_path)
    _, manifest = Generations(objects, PREFIX).put(here, None, 1, 1, NOW)
    assert not any(secret.encode() in content for content in everything(objects).values())
    assert {file.name for file in manifest.files} == {
        "MEMORY.md",
        "memory/scratch.md",
        ".dreamd/state.db",
        ".dreamd/checkpoints/dreams.db",
        ".dreamd/inbox.md",
        *(f".dreamd/history/00000{number}.json" for number in (1, 2, 3)),
    }


def test_after_a_small_change_little_is_written(objects: Objects, here: Path) -> None:
    grow(here, 4)
    generations = Generations(objects, PREFIX)
    _, first = generations.put(here, None, 1, 1, NOW)
    before = everything(objects)
    write_rows(here, ["one more"])
    (here / "MEMORY.md").write_text("# Memory\n\n- coffee\n")
    _, second = generations.put(here, first, 2, 1, NOW)
    packs = {
        key: len(content) for key, content in everything(objects).items() if key not in before and "packs" in key
    }
    assert len(packs) == 1
    assert sum(packs.values()) < 150_000
    assert {pack.key for pack in second.packs} > {pack.key for pack in first.packs}


def test_files_that_have_not_changed_are_not_read_again(folder_store: Objects, here: Path) -> None:
    unchanged = (here / ".dreamd" / "history" / "000001.json", here / ".dreamd" / "state.db")
    for path in unchanged:
        os.utime(path, ns=(10**18, 10**18))
    generations = Generations(folder_store, PREFIX)
    _, first = generations.put(here, None, 1, 1, NOW)
    (here / "MEMORY.md").write_text("# Memory\n\n- coffee\n")
    for path in unchanged:  # who reads them again sees it
        content = path.read_bytes()
        path.write_bytes(b"X" * len(content))
        os.utime(path, ns=(10**18, 10**18))
    _, second = generations.put(here, first, 2, 1, NOW)
    changed = {one.name for one, other in zip(first.files, second.files, strict=True) if one != other}
    assert changed == {"MEMORY.md"}


def test_a_copy_that_is_right_already_asks_the_store_for_nothing(
    folder_store: Objects, here: Path, tmp_path: Path
) -> None:
    generations = Generations(folder_store, PREFIX)
    _, manifest = generations.put(here, None, 1, 1, NOW)
    generations.bring_up(tmp_path / "there", manifest)
    shutil.rmtree(tmp_path / "store")
    generations.bring_up(tmp_path / "there", manifest)
    local_copy.opened(tmp_path / "there")
    with pytest.raises(UnreachableError):
        generations.bring_up(tmp_path / "there", manifest)


def test_of_the_next_generation_only_what_changed_is_fetched(
    folder_store: Objects, here: Path, tmp_path: Path
) -> None:
    generations, there = Generations(folder_store, PREFIX), tmp_path / "there"
    _, first = generations.put(here, None, 1, 1, NOW)
    generations.bring_up(there, first)
    (here / "MEMORY.md").write_text("# Memory\n\n- coffee\n")
    (there / ".dreamd" / "index" / "vectors.db").write_text("made from state.db")
    (there / ".dreamd" / "lock").write_text("held")
    before = {path: path.stat().st_ino for path in there.rglob("*")}
    _, second = generations.put(here, first, 2, 1, NOW)
    generations.bring_up(there, second)
    changed = {str(path.relative_to(there)) for path, inode in before.items() if path.stat().st_ino != inode}
    assert changed == {"MEMORY.md", ".dreamd/generation.json"}
    write_rows(here, ["one more"])
    _, third = generations.put(here, second, 3, 1, NOW)
    generations.bring_up(there, third)
    # Compared with state.db by whoever opens it.
    assert (there / ".dreamd" / "index" / "vectors.db").read_text() == "made from state.db"
    assert (there / ".dreamd" / "lock").read_text() == "held"
    assert contents(there) == contents(here)


def test_a_copy_that_was_written_is_made_right(folder_store: Objects, here: Path, tmp_path: Path) -> None:
    generations, there = Generations(folder_store, PREFIX), tmp_path / "there"
    _, manifest = generations.put(here, None, 1, 1, NOW)
    generations.bring_up(there, manifest)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "scratch.md").write_text("not mine")
    local_copy.opened(there)
    write_rows(there, ["never committed"])
    (there / "MEMORY.md").unlink()
    (there / "MEMORY.md").mkdir()
    (there / "MEMORY.md" / "x").write_text("x")
    shutil.rmtree(there / "memory")
    (there / "memory").symlink_to(outside)
    (there / ".dreamd" / "originals.jsonl").write_text("secret")
    (there / ".dreamd" / "state.db-wal").write_bytes(b"a log of another database")
    generations.bring_up(there, manifest)
    assert contents(there) == contents(here)
    assert files(there) == {*contents(here), ".dreamd/generation.json"}
    assert (outside / "scratch.md").read_text() == "not mine"


def test_an_owner_goes_on_with_its_own_copy(folder_store: Objects, here: Path, tmp_path: Path) -> None:
    generations = Generations(folder_store, PREFIX)
    _, first = generations.put(here, None, 1, 1, NOW)
    local_copy.closed(here, first)
    shutil.rmtree(tmp_path / "store")
    generations.bring_up(here, first)  # everything is here
    with (here / "memory" / "scratch.md").open("a") as log:
        log.write("- behind the record\n")
    with pytest.raises(UnreachableError):
        generations.bring_up(here, first)


def test_a_copy_of_before_the_machine_started_is_not_believed(
    folder_store: Objects, here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, first = Generations(folder_store, PREFIX).put(here, None, 1, 1, NOW)
    local_copy.closed(here, first)
    assert local_copy.held(here) is not None
    (tmp_path / "boot_id").write_text("another start\n")
    for other in (tmp_path / "boot_id", tmp_path / "none"):
        monkeypatch.setattr(local_copy, "_BOOT", other)
        assert local_copy.held(here) is None


def test_after_forgetting_no_object_holds_the_text(objects: Objects, here: Path, tmp_path: Path) -> None:
    text = "the forgotten word " * 400
    (here / "MEMORY.md").write_text(text)
    generations = Generations(objects, PREFIX)
    _, first = generations.put(here, None, 1, 1, NOW)
    generations.put(here, first, 2, 1, NOW)  # never committed
    (here / "MEMORY.md").write_text("- tea\n")
    _, second = generations.put(here, first, 2, 2, NOW, whole=True)
    assert any(b"forgotten" in content for content in everything(objects).values())
    generations.sweep([second], 2)
    left = everything(objects)
    assert not any(b"forgotten" in content for content in left.values())
    assert len(left) == 1 + len(second.packs)
    generations.bring_up(tmp_path / "there", second)
    assert contents(tmp_path / "there") == contents(here)


def test_a_sweep_by_an_owner_of_before_leaves_what_a_later_one_wrote(
    objects: Objects, here: Path, tmp_path: Path
) -> None:
    old, new = Generations(objects, PREFIX), Generations(objects, PREFIX)
    _, first = old.put(here, None, 1, 1, NOW)
    write_rows(here, ["by the later owner"])
    key, second = new.put(here, first, 2, 2, NOW)
    old.sweep([first], 1)
    new.bring_up(tmp_path / "there", new.manifest(key))
    assert contents(tmp_path / "there") == contents(here)
    assert second.number == 2


def test_the_same_put_again_is_one(objects: Objects, here: Path) -> None:
    assert Generations(objects, PREFIX).put(here, None, 1, 1, NOW) == Generations(objects, PREFIX).put(
        here, None, 1, 1, NOW
    )
    assert len(Generations(objects, PREFIX).keys()) == 1


def test_erasing_leaves_other_workspaces_alone(objects: Objects, here: Path) -> None:
    Generations(objects, PREFIX).put(here, None, 1, 1, NOW)
    Generations(objects, f"{PREFIX}1").put(here, None, 1, 1, NOW)
    assert Generations(objects, PREFIX).erase() == 2
    assert everything(objects) == {}
    assert len(everything(objects, f"{PREFIX}1")) == 2


def test_packs_that_are_hardly_needed_are_written_anew(folder_store: Objects, here: Path, tmp_path: Path) -> None:
    generations = Generations(folder_store, PREFIX)
    last: Manifest | None = None
    for number in range(1, 90):
        (here / "MEMORY.md").write_bytes(os.urandom(40_000))
        _, last = generations.put(here, last, number, 1, NOW)
        generations.sweep([last], 1)
    assert last is not None
    assert len(last.packs) < 10
    assert sum(map(len, everything(folder_store).values())) < 500_000
    generations.bring_up(tmp_path / "there", last)
    assert contents(tmp_path / "there") == contents(here)
