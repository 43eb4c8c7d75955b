"""The sockets: whose they are, who else may have them, what is left of them."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.http.sockets import open_port, open_socket
from state.errors import BusyError, ConfigError, StorageError
from tests.daemon.http.running import TOKEN
from tests.support.folders import PLACE


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short path."""
    path = Path(tempfile.mkdtemp(prefix="dreamd-http-", dir=PLACE))
    yield path
    shutil.rmtree(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def leave_stale(path: Path) -> None:
    """A socket file whose process is gone."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()


def test_the_socket_is_its_owner_s_alone(folder: Path) -> None:
    path = folder / "new" / "dreamd" / "dreamd.sock"
    before = os.umask(0)
    try:
        entrance = open_socket(path)
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)
    assert entrance.address == str(path)
    entrance.close()
    (lock,) = path.parent.iterdir()
    assert mode(lock) == 0o600


def test_the_socket_is_never_open_to_others_for_a_moment(folder: Path) -> None:
    path, seen, ended = folder / "s", set[int](), threading.Event()

    def watch() -> None:
        while not ended.is_set():
            try:
                seen.add(mode(path))
            except FileNotFoundError:
                continue

    watcher = threading.Thread(target=watch)
    before = os.umask(0)
    watcher.start()
    try:
        opened = 0
        while opened < 300 or not seen:  # the watcher may not have had a turn yet
            open_socket(path).close()
            opened += 1
    finally:
        os.umask(before)
        ended.set()
        watcher.join()
    assert seen == {0o600}


def test_what_a_dead_daemon_left_is_taken_over(folder: Path) -> None:
    path = folder / "s"
    leave_stale(path)
    entrance = open_socket(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    entrance.close()


def test_what_a_killed_daemon_left_is_taken_over(folder: Path) -> None:
    path = folder / "s"
    code = "import os, sys; from pathlib import Path; from daemon.http.sockets import open_socket\n"
    code += "entrance = open_socket(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    killed = subprocess.run(
        [sys.executable, "-c", code, path], cwd=Path(__file__).parents[3], check=False, timeout=300
    )
    assert killed.returncode == -9
    assert path.is_socket()
    open_socket(path).close()


def test_a_second_daemon_is_refused(folder: Path) -> None:
    path = folder / "s"
    first = open_socket(path)
    with pytest.raises(BusyError, match="DREAMD_SOCKET"):
        open_socket(path)
    assert path.is_socket()
    first.close()
    open_socket(path).close()


def test_of_many_that_start_together_one_listens(folder: Path) -> None:
    path = folder / "s"
    leave_stale(path)
    start, opened, refused = threading.Barrier(8), list[object](), list[BusyError]()

    def begin() -> None:
        start.wait()
        try:
            opened.append(open_socket(path))
        except BusyError as error:
            refused.append(error)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), len(refused)) == (1, 7)
    (entrance,) = opened
    entrance.close()  # type: ignore[attr-defined]


def test_a_second_daemon_is_refused_even_where_the_socket_is_gone(folder: Path) -> None:
    path = folder / "s"
    first = open_socket(path)
    path.unlink()
    with pytest.raises(BusyError):
        open_socket(path)
    first.close()
    open_socket(path).close()
    assert not path.exists()


def test_closing_twice_and_without_a_folder_harms_nothing(folder: Path) -> None:
    entrance = open_socket(folder / "gone" / "s")
    shutil.rmtree(folder / "gone")
    entrance.close()
    entrance.close()


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("/nowhere")])
def test_what_is_no_socket_is_left_alone(folder: Path, make: object) -> None:
    path = folder / "s"
    make(path)  # type: ignore[operator]
    with pytest.raises(StorageError, match="move it away"):
        open_socket(path)
    assert os.path.lexists(path)


def test_a_folder_of_everybody_s_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(StorageError, match="chmod 700"):
        open_socket(folder / "s")


def test_a_path_that_is_too_long_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="DREAMD_SOCKET"):
        open_socket(folder / ("s" * 120))


def test_a_port_is_listened_at() -> None:
    entrance = open_port("127.0.0.1", 0, TOKEN)
    port = entrance.socket.getsockname()[1]
    assert entrance.address == f"http://127.0.0.1:{port}"
    with socket.create_connection(("127.0.0.1", port)):
        pass
    with pytest.raises(BusyError, match=rf"port {port} of 127.0.0.1 is taken .*http\.port"):
        open_port("127.0.0.1", port, TOKEN)
    entrance.close()
    open_port("127.0.0.1", port, TOKEN).close()


@pytest.mark.parametrize("host", ["192.0.2.1", "not a name", "\ud800", "a" * 300])
def test_an_address_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"http\.host"):
        open_port(host, 0, TOKEN)


def test_a_port_without_a_token_is_not_opened() -> None:
    with pytest.raises(ValueError, match="token"):
        open_port("127.0.0.1", 0, "")
