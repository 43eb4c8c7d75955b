"""The server that forks the processes of the tests outlives those that ask it."""

import os
import socket
from pathlib import Path

import pytest

from tests.support.forked import FOLDER, run


@pytest.mark.parametrize(
    "said",
    [b"", b"\0\0", b"\0\0\1\0", b'\0\0\1\0{"words":'],
    ids=["nothing", "half a length", "no request", "half a request"],
)
def test_whoever_is_killed_while_asking_takes_nobody_along(said: bytes, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    assert run(["--version"], environment=environment).returncode == 0
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(Path(os.environ[FOLDER], "socket")))
        line.sendall(said)
    assert run(["--version"], environment=environment).returncode == 0
