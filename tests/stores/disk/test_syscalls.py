import errno
from pathlib import Path

import pytest

from state.errors import NotFoundError, StorageError
from state.stores.disk.disk import Disk
from tests.support.faults import Fault, FaultySystem

NEW = b"new\n" * 700


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


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory").write_bytes(b"")
    disk = Disk(tmp_path)
    with pytest.raises(StorageError, match="a file stands where a folder should be"):
        disk.write_atomic(tmp_path / "memory" / "scratch.md", NEW)
    with pytest.raises(StorageError, match="a file stands where a folder should be"):
        disk.make_folder(tmp_path / "memory")


def test_a_folder_where_a_file_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for act in (Disk.read_bytes, lambda disk, path: disk.write_atomic(path, NEW)):
        with pytest.raises(StorageError, match="a folder stands where a file should be"):
            act(Disk(tmp_path), tmp_path / "a")


def test_a_missing_file_is_not_found_or_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        Disk(tmp_path).read_bytes(tmp_path / "a")
    assert Disk(tmp_path).read_optional(tmp_path / "a") is None
