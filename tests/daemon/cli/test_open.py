"""`dreamd open`: what is opened is a link of a daemon, whoever answers at its socket."""

import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.api.client import Client, LostError
from daemon.cli.open import link
from tests.support.folders import PLACE


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A Unix socket of this user, at which no daemon answers."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-open-", dir=PLACE))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "dreamd.sock"))
        listening.listen()
        yield listening
    shutil.rmtree(folder)


def answered(listener: socket.socket, reply: object) -> str:
    """The link that the command takes out of this reply."""
    body = json.dumps(reply).encode()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            while b'{"workspace": ""}' not in connection.recv(65_536):
                pass
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        return link(Client(Path(listener.getsockname())), "")
    finally:
        answering.join()


@pytest.mark.parametrize("url", ["http://127.0.0.1:8787/login/A-z_0", "http://[::1]:8787/login/a"])
def test_a_link_of_a_daemon_is_opened(listener: socket.socket, url: str) -> None:
    assert answered(listener, {"url": url}) == url


@pytest.mark.parametrize(
    "reply",
    [
        [],
        {},
        {"url": None},
        {"url": "file:///etc/passwd"},
        {"url": "javascript:alert(1)"},
        {"url": "--new-window http://127.0.0.1:8787/login/a"},
        {"url": "http://evil.example/"},
        {"url": "http://a@evil.example/login/a"},
        {"url": "http://127.0.0.1:8787/login/a\x1b[31m"},
        {"url": "http://127.0.0.1:8787/login/a\n"},
    ],
)
def test_nothing_else_is(listener: socket.socket, reply: object) -> None:
    with pytest.raises(LostError):
        answered(listener, reply)
