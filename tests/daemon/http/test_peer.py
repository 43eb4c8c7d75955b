"""A client says nothing to a listener of another user, wherever that one got the socket's path."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import dreamd_client
import pytest

from daemon.api.client import Client, daemon
from daemon.api.operations.notes import working_memory_note
from daemon.api.peer import user_of_address
from daemon.workspace.adoption import init_workspace
from state.errors import StorageError
from tests.support.folders import PLACE
from tests.support.users import NOBODY, as_root, as_user, living_as

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\n{"status": "alive"}\n'


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process that listens at this path and keeps what it is told."""

    path: Path
    heard: Path


@contextmanager
def stranger(folder: Path, uid: int) -> Iterator[Stranger]:
    """One of this user, who owns the folder of the socket."""
    place = folder / "dreamd"
    place.mkdir()
    os.chown(place, uid, -1)
    one = Stranger(place / "dreamd.sock", place / "heard")
    ready, listens = os.pipe()
    with living_as(uid, lambda: listen(one, listens)):
        os.close(listens)
        assert os.read(ready, 1) == b"!"
        os.close(ready)
        yield one


def listen(here: Stranger, listens: int) -> None:
    """Answer everybody that all is well."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(here.path))
        listener.listen()
        here.path.chmod(0o777)
        os.write(listens, b"!")
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                with here.heard.open("ab") as file:
                    file.write(connection.recv(65_536))
                connection.sendall(ANSWER)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One with a short path that everybody may enter, in a place where everybody may make folders."""
    path = Path(tempfile.mkdtemp(prefix="dreamd-peer-", dir=PLACE))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def roots_folder() -> Iterator[Path]:
    """One where only root can make folders, like /run for the units of the machine."""
    path = Path(tempfile.mkdtemp(prefix="dreamd-peer-", dir="/run"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1"), (socket.AF_INET6, "::1")],
)
def test_linux_says_whose_program_comes_to_a_port(family: socket.AddressFamily, host: str) -> None:
    with socket.create_server(("::1" if host == "::1" else "127.0.0.1", 0), family=_listening(host)) as listener:
        server = listener.getsockname()[:2]
        with socket.socket(family) as client:
            client.connect((host, server[1]))
            connection, come = listener.accept()
            assert user_of_address(come[:2], server) == os.geteuid()
            assert user_of_address(server, come[:2]) == os.geteuid()
            assert user_of_address(("127.0.0.2", come[1]), server) is None
        with connection:
            assert user_of_address(come[:2], server) is None


def _listening(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if host == "::1" else socket.AF_INET


@as_root
@pytest.mark.parametrize("named", [True, False])
def test_another_user_who_listens_is_told_nothing(
    open_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: bool,  # noqa: FBT001
) -> None:
    root = init_workspace(tmp_path / "memory").root
    monkeypatch.delenv("DREAMD_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(open_folder))
    with stranger(open_folder, NOBODY) as here:
        if named:
            monkeypatch.setenv("DREAMD_SOCKET", str(here.path))
        client = Client(here.path, named)
        for ask in (
            lambda: client.get("/v1/status"),
            lambda: client.post("/v1/register", {"path": str(root)}),
            lambda: client.call("memory", working_memory_note, working_memory_note.bind(note="the heron fishes")),
            lambda: dreamd_client.Client(root).note("the heron fishes at dawn"),
        ):
            with pytest.raises(
                (StorageError, dreamd_client.DreamdError), match=f"user {NOBODY} listens there, not you"
            ) as refused:
                ask()
            assert str(here.path) in str(refused.value)
        assert not here.heard.exists() or here.heard.read_bytes() == b""


@as_root
def test_root_may_name_the_service_that_it_installed_for_another_account(
    roots_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stranger(roots_folder, NOBODY) as here:
        monkeypatch.setenv("DREAMD_SOCKET", str(here.path))
        client = daemon()
        assert client is not None
        assert client.get("/healthz") == {"status": "alive"}
        with pytest.raises(dreamd_client.NoDaemonError, match="there is no program"):  # it was asked
            dreamd_client.Client("/", program="/no/dreamd").status()
        with pytest.raises(StorageError, match="listens there"):  # only the variable says that it is meant
            Client(here.path).get("/healthz")


@as_root
def test_users_ask_root_and_nobody_else(open_folder: Path, roots_folder: Path) -> None:
    with stranger(open_folder, 0) as roots, stranger(roots_folder, NOBODY - 1) as others:
        assert as_user(NOBODY, lambda: Client(roots.path).get("/healthz")) == "{'status': 'alive'}"
        others.path.parent.chmod(0o755)
        assert as_user(NOBODY, lambda: Client(others.path, named=True).get("/healthz")) == "StorageError"
