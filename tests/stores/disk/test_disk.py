"""Changes are durable or did not happen, and nothing is written outside of a workspace's folders."""

import errno
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from state.errors import StorageError, UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, images

OLD = b"old\n" * 500
NEW = b"new\n" * 700


def no_such_call(_: System, one: Path, other: Path, /) -> None:
    raise OSError(errno.ENOSYS, "no such call")


class NoHardLinks(System):
    link = no_such_call


def old(folder: Path) -> Path:
    """A folder with one file."""
    folder.mkdir()
    (folder / "a").write_bytes(OLD)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_gets_the_mode_and_an_existing_one_keeps_its_own(tmp_path: Path) -> None:
    disk, path = Disk(tmp_path), tmp_path / "a"
    disk.write_atomic(path, OLD, mode=0o644)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o640)
    disk.write_atomic(path, NEW, mode=0o600)
    disk.exchange(path, OLD, mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("write", [Disk.write_atomic, Disk.exchange])
def test_a_file_is_old_or_new_at_any_loss_of_power(write: Callable[..., object]) -> None:
    seen = set()

    def scenario(system: FaultySystem) -> None:
        done = False
        with suppress(PowerCut, StorageError):
            write(Disk(system.root, system), system.root / "a", NEW)
            done = True
        for image in images(system):
            found = (image / "a").read_bytes()
            assert found in (OLD, NEW)
            assert found == NEW or not done
            seen.add(found)

    assert every_fault(tuple(Fault), old, scenario) > 4 * 5
    assert seen == {OLD, NEW}


def test_write_new_works_without_hard_links(tmp_path: Path) -> None:
    disk = Disk(tmp_path, NoHardLinks())
    disk.write_new(tmp_path / "1.json", OLD)
    with pytest.raises(FileExistsError):
        disk.write_new(tmp_path / "1.json", NEW)
    assert (tmp_path / "1.json").read_bytes() == OLD
    assert names(tmp_path) == ["1.json"]


@pytest.mark.usefixtures("platform")
def test_a_save_between_reading_and_the_exchange_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "MEMORY.md"
    path.write_bytes(OLD)

    class HumanSaves(System):
        def exchange(self, one: Path, other: Path) -> None:
            path.with_name("tmp").write_bytes(b"edited by hand")
            path.with_name("tmp").rename(path)
            super().exchange(one, other)

    assert Disk(tmp_path, HumanSaves()).exchange(path, NEW) == b"edited by hand"


@pytest.mark.parametrize("saved_at", ["link", "rename"])
def test_without_an_exchange_a_save_between_its_steps_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved_at: str
) -> None:
    monkeypatch.setenv("_DREAMD_PORTABLE", "1")
    path, aside = tmp_path / "MEMORY.md", tmp_path / ".MEMORY.md.displaced"
    path.write_bytes(OLD)
    saves = [b"edited by hand", b"and again"]

    class HumanSaves(System):
        def link(self, source: Path, target: Path, /) -> None:
            self._save("link", target)
            super().link(source, target)

        def rename(self, source: Path, target: Path) -> None:
            self._save("rename", target)
            super().rename(source, target)

        def _save(self, step: str, target: Path) -> None:
            if step == saved_at and target != path and aside.exists() and saves:
                path.with_name("tmp").write_bytes(saves.pop(0))
                path.with_name("tmp").rename(path)

    disk = Disk(tmp_path, HumanSaves())
    assert disk.exchange(path, NEW) == (b"and again" if saved_at == "rename" else b"edited by hand")
    assert path.read_bytes() == NEW
    disk.settle(path)
    assert names(tmp_path) == ["MEMORY.md"]


@pytest.mark.usefixtures("platform")
def test_a_save_is_never_lost_whenever_the_power_goes_during_an_exchange() -> None:
    def scenario(system: FaultySystem) -> None:
        disk, path = Disk(system.root, system), system.root / "a"
        try:
            disk.exchange(path, NEW)
            disk.settle(path)
        except (PowerCut, StorageError):
            # Whatever happened: the old bytes are in place, or beside the new ones.
            for image in images(system):
                after = Disk(image)
                if "unlink .a.displaced" not in system.calls:
                    assert OLD in (after.read_bytes(image / "a"), after.displaced(image / "a"))

    assert every_fault(tuple(Fault), old, scenario) > 4 * 6


@pytest.mark.parametrize("move", [Disk.rename, Disk.rename_new])
@pytest.mark.parametrize("folder", [".", "folder"])
def test_a_file_that_was_moved_is_there_after_a_loss_of_power(
    tmp_path: Path, move: Callable[[Disk, Path, Path], None], folder: str
) -> None:
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "a").write_bytes(OLD)
    system = FaultySystem(root)
    move(Disk(root, system), root / "a", root / folder / "b")
    for image in images(system):
        assert (image / folder / "b").read_bytes() == OLD
        assert not (image / "a").exists()


class TwoFileSystems(System):
    """Each folder is a file system of its own."""

    def rename(self, source: Path, target: Path) -> None:
        self._within(source, target)
        super().rename(source, target)

    def link(self, source: Path, target: Path, /) -> None:
        self._within(source, target)
        super().link(source, target)

    def _within(self, source: Path, target: Path) -> None:
        if source.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))


@pytest.mark.parametrize("move", [Disk.rename, Disk.rename_new])
def test_a_file_goes_to_another_file_system(tmp_path: Path, move: Callable[[Disk, Path, Path], None]) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "a").write_bytes(OLD)
    move(Disk(tmp_path, TwoFileSystems()), tmp_path / "a", tmp_path / "away" / "b")
    assert (tmp_path / "away" / "b").read_bytes() == OLD
    assert names(tmp_path) == ["away"]
    assert names(tmp_path / "away") == ["b"]


def test_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "a").write_bytes(OLD)
    (root / "a").symlink_to(outside / "a")
    (root / "folder").symlink_to(outside)
    disk = Disk(root)
    for path in (root / "a", root / "folder" / "a", root / ".." / "outside" / "a"):
        for act in (disk.read_bytes, disk.displaced, disk.settle):
            with pytest.raises(StorageError, match="outside"):
                act(path)
        for write in (disk.write_atomic, disk.write_new, disk.exchange):
            with pytest.raises(StorageError, match="outside"):
                write(path, NEW)
        with pytest.raises(StorageError, match="outside"):
            disk.append_locked(path, b"x\n", b"")
    assert (outside / "a").read_bytes() == OLD
    assert names(outside) == ["a"]


def test_an_append_that_fails_leaves_no_part_of_its_entry() -> None:
    def scenario(system: FaultySystem) -> None:
        log = system.root / "a"
        try:
            Disk(system.root, system).append_locked(log, b"second, which is long\n", b"head\n")
        except StorageError:
            assert log.read_bytes().split() == OLD.split()
        else:
            assert log.read_bytes() == OLD + b"second, which is long\n"

    assert every_fault((Fault.ERROR,), old, scenario) > 3


@pytest.mark.parametrize(
    ("before", "after"), [(b"", b"head\n"), (b"a\n", b"a\n"), (b"a", b"a\n"), (b"a\n\n", b"a\n\n"), (b"\n", b"\n")]
)
def test_an_appended_entry_begins_on_a_line_of_its_own(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "log").write_bytes(before)
    Disk(tmp_path).append_locked(tmp_path / "log", b"entry\n", b"head\n")
    assert (tmp_path / "log").read_bytes() == after + b"entry\n"


def test_blanking_a_torn_entry_spares_what_another_wrote_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"head\n")

    class Full(System):
        def write(self, fd: int, block: bytes) -> int:
            if path.stat().st_size > len(b"head\n"):
                raise OSError(errno.ENOSPC, "full")
            done = super().write(fd, block[:4])
            with path.open("ab") as other:
                other.write(b"by another\n")
            return done

    with pytest.raises(StorageError, match="free some space"):
        Disk(tmp_path, Full()).append_locked(path, b"torn entry\n", b"head\n")
    assert path.read_bytes() == b"head\n   \nby another\n"


def test_a_writer_that_waited_while_the_file_was_renamed_writes_into_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"")

    class RenamedMeanwhile(System):
        def open(self, file: Path, flags: int, mode: int = 0o600) -> int:
            fd = super().open(file, flags, mode)
            if file == path and not (tmp_path / "taken").exists():
                path.rename(tmp_path / "taken")
            return fd

    Disk(tmp_path, RenamedMeanwhile()).append_locked(path, b"one\n", b"head\n")
    assert path.read_bytes() == b"head\none\n"
    assert (tmp_path / "taken").read_bytes() == b""


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "chmod"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "disk reports an error"),
        (errno.ENAMETOOLONG, "dreamd doctor"),
    ],
)
def test_an_error_of_the_disk_says_in_one_line_what_to_do(tmp_path: Path, code: int, advice: str) -> None:
    for fail_at in (0, 1, 3):
        disk = Disk(tmp_path, FaultySystem(tmp_path, fail_at, Fault.ERROR_ONWARDS, code))
        with pytest.raises(StorageError, match=advice) as caught:
            disk.write_atomic(tmp_path / "a", NEW)
        assert str(tmp_path / "a") in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "data").mkdir()
    return Workspace(tmp_path / "new" / "agent", tmp_path / "data" / "id")


def test_a_new_workspace_has_its_folders_and_nobody_else_may_look(workspace: Workspace) -> None:
    assert init_workspace(workspace) == workspace
    assert workspace.scratch.parent.is_dir()
    for folder in (workspace.state, workspace.index, workspace.checkpoints):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_memory_that_is_kept_elsewhere_by_a_link_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    workspace.root.mkdir(parents=True)
    (workspace.root / "memory").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="outside"):
        init_workspace(workspace)


def test_nothing_but_the_state_is_written_outside_of_the_folder(workspace: Workspace, tmp_path: Path) -> None:
    disk = init_workspace(workspace).disk()
    disk.write_atomic(workspace.state / "file", b"x")
    disk.rename(workspace.state / "file", workspace.root / "file")
    with pytest.raises(StorageError, match="outside"):
        disk.write_atomic(tmp_path / "file", b"x")
    (workspace.state / "out").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="outside"):
        disk.write_atomic(workspace.state / "out" / "file", b"x")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "memory/../../x", "out/x", "a\0b"])
def test_no_name_leads_out_of_the_workspace(tmp_path: Path, name: str) -> None:
    workspace = init_workspace(contained(tmp_path / "agent"))
    (workspace.root / "out").symlink_to(tmp_path)
    with pytest.raises(UsageError):
        workspace.inside(name)
