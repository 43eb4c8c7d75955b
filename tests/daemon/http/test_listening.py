"""The sockets: whose they are, who else may have them, what is left of them."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.http.sockets import Listener, open_port, open_socket
from state.errors import BusyError, ConfigError, DreamdError, StorageError
from tests.daemon.http.running import TOKEN
from tests.support.folders import PLACE


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short path, made while nothing is masked."""
    path = Path(tempfile.mkdtemp(prefix="dreamd-http-", dir=PLACE))
    before = os.umask(0)
    yield path
    assert os.umask(before) == 0
    shutil.rmtree(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_socket_is_its_owner_s_alone(folder: Path) -> None:
    path = folder / "new" / "dreamd" / "dreamd.sock"
    entrance = open_socket(path)
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
    watcher.start()
    try:
        opened = 0
        while opened < 300 or not seen:  # the watcher may not have had a turn yet
            open_socket(path).close()
            opened += 1
    finally:
        ended.set()
        watcher.join()
    assert seen == {0o600}


def test_what_a_killed_daemon_left_is_taken_over(folder: Path) -> None:
    path = folder / "s"
    code = "import os, sys; from pathlib import Path; from daemon.http.sockets import open_socket\n"
    code += "entrance = open_socket(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    root = Path(__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", code, path], cwd=root, check=False, timeout=300)
    assert killed.returncode == -9
    assert path.is_socket()
    entrance = open_socket(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    entrance.close()


def test_of_many_that_start_together_one_listens(folder: Path) -> None:
    start, opened, refused = threading.Barrier(8), list[Listener](), list[BusyError]()

    def begin() -> None:
        start.wait()
        try:
            opened.append(open_socket(folder / "s"))
        except BusyError as error:
            refused.append(error)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), len(refused)) == (1, 7)
    (folder / "s").unlink()  # whoever does that lets no second one in
    with pytest.raises(BusyError, match="DREAMD_SOCKET"):
        open_socket(folder / "s")
    opened[0].close()
    open_socket(folder / "s").close()


def test_closing_twice_and_without_a_folder_harms_nothing(folder: Path) -> None:
    entrance = open_socket(folder / "gone" / "s")
    shutil.rmtree(folder / "gone")
    entrance.close()
    entrance.close()


@pytest.mark.parametrize(
    ("make", "name", "error", "said"),
    [
        (Path.touch, "s", StorageError, "move it away"),
        (Path.mkdir, "s", StorageError, "move it away"),
        (lambda path: path.symlink_to("/nowhere"), "s", StorageError, "move it away"),
        (lambda path: path.parent.chmod(0o777), "s", StorageError, "chmod 700"),
        (lambda _: None, "s" * 120, ConfigError, "DREAMD_SOCKET"),
    ],
)
def test_what_cannot_be_a_socket_is_left_alone(
    folder: Path, make: Callable[[Path], None], name: str, error: type[DreamdError], said: str
) -> None:
    make(folder / name)
    before = sorted(folder.iterdir())
    with pytest.raises(error, match=said):
        open_socket(folder / name)
    assert [one for one in sorted(folder.iterdir()) if one.suffix != ".lock"] == before


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
    with pytest.raises(ValueError, match="token"):
        open_port("127.0.0.1", 0, "")


@pytest.mark.parametrize("host", ["192.0.2.1", "not a name", "\ud800", "a" * 300])
def test_an_address_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"http\.host"):
        open_port(host, 0, TOKEN)
