"""Generations: any of them comes up as it was put, on any machine, over whatever an older one has left there."""

import os
import shutil
from pathlib import Path

import pytest

from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.generations.placing import clear
from tests.support.generation_folders import PREFIX, contents, everything, files, grow, make_folder, put, write_rows


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "here")


def test_a_generation_comes_up_elsewhere_as_it_was_put(objects: Objects, here: Path, tmp_path: Path) -> None:
    (here / "transcripts").mkdir()
    (here / "transcripts" / "one.jsonl").write_bytes(os.urandom(100_000))
    (here / "empty").touch()
    made = put(Generations(objects, PREFIX), here, None, 1)
    assert made.key.startswith(f"{PREFIX}/generations/000000000001-")
    manifest = Generations(objects, PREFIX).manifest(made.key)
    assert manifest == made
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
    manifest = put(Generations(objects, PREFIX), here, None, 1)
    assert not any(secret in content for content in everything(objects).values())
    assert {file.name for file in manifest.files} == {
        "MEMORY.md",
        "memory/scratch.md",
        ".dreamd/state.db",
        ".dreamd/checkpoints/dreams.db",
        ".dreamd/inbox.md",
        *(f".dreamd/history/00000{number}.json" for number in (1, 2, 3)),
    }


def test_a_small_change_is_one_small_object(objects: Objects, here: Path, tmp_path: Path) -> None:
    grow(here, 4)
    generations = Generations(objects, PREFIX)
    first = put(generations, here, None, 1)
    before = everything(objects)
    write_rows(here, ["one more"])
    (here / "MEMORY.md").write_text("# Memory\n\n- coffee\n")
    second = put(generations, here, first, 2)
    assert everything(objects).keys() - before == {second.key}
    assert second.parts[-1].size < 10_000
    assert second.parts[:-1] == first.parts
    # Whoever has brought it up goes on from there.
    other = Generations(objects, PREFIX)
    other.bring_up(tmp_path / "there", second)
    assert contents(tmp_path / "there") == contents(here)
    write_rows(tmp_path / "there", ["by the next owner"])
    third = put(other, tmp_path / "there", second, 3)
    assert third.parts[:-1] == second.parts
    other.bring_up(here, third)
    assert contents(tmp_path / "there") == contents(here)


def test_files_that_have_not_changed_are_not_read_again(folder_store: Objects, here: Path) -> None:
    unchanged = (here / ".dreamd" / "history" / "000001.json", here / ".dreamd" / "state.db")
    for path in unchanged:
        os.utime(path, ns=(10**18, 10**18))
    generations = Generations(folder_store, PREFIX)
    first = put(generations, here, None, 1)
    (here / "MEMORY.md").write_text("# Memory\n\n- coffee\n")
    for path in unchanged:  # who reads them again sees it
        content = path.read_bytes()
        path.write_bytes(b"X" * len(content))
        os.utime(path, ns=(10**18, 10**18))
    second = put(generations, here, first, 2)
    changed = {one.name for one, other in zip(first.files, second.files, strict=True) if one != other}
    assert changed == {"MEMORY.md"}


def test_whatever_lies_in_the_folder_goes_but_for_locks_and_vectors(
    folder_store: Objects, here: Path, tmp_path: Path
) -> None:
    generations, there = Generations(folder_store, PREFIX), tmp_path / "there"
    manifest = put(generations, here, None, 1)
    generations.bring_up(there, manifest)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "scratch.md").write_text("not mine")
    write_rows(there, ["never committed"])
    (there / "MEMORY.md").unlink()
    (there / "MEMORY.md").mkdir()
    (there / "MEMORY.md" / "x").write_text("x")
    shutil.rmtree(there / "memory")
    (there / "memory").symlink_to(outside)
    (there / ".dreamd" / "originals.jsonl").write_text("secret")
    (there / ".dreamd" / "state.db-wal").write_bytes(b"a log of another database")
    (there / ".dreamd" / "index" / "chroma-1").mkdir()
    (there / ".dreamd" / "index" / "chroma-1" / "chroma.sqlite3").write_text("a text")
    for name in ("lock", "index/vectors.db"):
        (there / ".dreamd" / name).write_text("stays")
    generations.bring_up(there, manifest)
    assert contents(there) == contents(here)
    assert files(there) == {*contents(here), ".dreamd/lock", ".dreamd/index/vectors.db"}
    assert (outside / "scratch.md").read_text() == "not mine"
    clear(there)
    assert files(there) == {".dreamd/lock", ".dreamd/index/vectors.db"}


def test_after_forgetting_no_object_holds_the_text(objects: Objects, here: Path, tmp_path: Path) -> None:
    (here / "MEMORY.md").write_text("the forgotten word " * 400)
    generations = Generations(objects, PREFIX)
    first = put(generations, here, None, 1)
    put(generations, here, first, 2)  # never committed
    (here / "MEMORY.md").write_text("- tea\n")
    second = put(generations, here, first, 2, whole=True)
    assert any("forgotten" in content for content in everything(objects).values())
    generations.sweep([second], 2)
    left = everything(objects)
    assert not any("forgotten" in content for content in left.values())
    assert left.keys() == {part.key for part in second.parts}
    generations.bring_up(tmp_path / "there", second)
    assert contents(tmp_path / "there") == contents(here)


def test_a_sweep_by_an_owner_of_before_leaves_what_a_later_one_wrote(
    objects: Objects, here: Path, tmp_path: Path
) -> None:
    old, new = Generations(objects, PREFIX), Generations(objects, PREFIX)
    first = put(old, here, None, 1)
    write_rows(here, ["by the later owner"])
    key = put(new, here, first, 2).key
    old.sweep([first], 1)
    new.bring_up(tmp_path / "there", Generations(objects, PREFIX).manifest(key))
    assert contents(tmp_path / "there") == contents(here)


def test_the_same_put_again_is_one_and_erasing_it_leaves_other_workspaces_alone(objects: Objects, here: Path) -> None:
    for prefix in (PREFIX, PREFIX, f"{PREFIX}1"):
        put(Generations(objects, prefix), here, None, 1)
    assert len(Generations(objects, PREFIX).keys()) == 1
    assert Generations(objects, PREFIX).erase() == 1
    assert everything(objects) == {}
    assert len(everything(objects, f"{PREFIX}1")) == 1


def test_the_store_holds_little_more_than_the_workspace(folder_store: Objects, here: Path, tmp_path: Path) -> None:
    generations, last = Generations(folder_store, PREFIX), None
    for number in range(1, 90):
        (here / "MEMORY.md").write_bytes(os.urandom(40_000))
        last = put(generations, here, last, number)
        generations.sweep([last], number)
    assert last is not None
    assert len(last.parts) < 10
    assert sum(one.size for one in folder_store.list(PREFIX)) < 200_000
    generations.bring_up(tmp_path / "there", last)
    assert contents(tmp_path / "there") == contents(here)
    for number in range(90, 130):  # however small the changes are
        write_rows(here, ["one more"])
        last = put(generations, here, last, number)
    assert len(last.parts) <= 20
