import errno
from pathlib import Path

import pytest

from state.errors import StorageError
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
