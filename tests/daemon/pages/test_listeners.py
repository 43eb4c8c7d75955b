"""The stream of events: so many listen and no more, each as long as its browser is logged in."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from daemon.http.logins import Logins
from daemon.pages.events import MOST_STREAMS
from daemon.pages.window import PageWindow
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import TOKEN, Running, running
from tests.daemon.pages.browser import Browser


@contextmanager
def asked(server: Running, browser: Browser) -> Iterator[socket.socket]:
    """A connection at which the stream was asked for, and nothing is read yet."""
    with server.connected_to_port() as connection:
        said = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {browser.cookie}\r\n\r\n"
        connection.sendall(said.encode())
        yield connection


def heard(connection: socket.socket, until: bytes) -> bytes:
    """What comes up to this, or to the end."""
    text = b""
    while until not in text and (block := connection.recv(65_536)):
        text += block
    return text


def test_of_many_that_ask_at_once_no_more_are_let_in_than_may_listen(tmp_path: Path) -> None:
    with running(OwnHouse(), window=PageWindow(Logins(tmp_path / "logins.json", TOKEN))) as server:
        browser = Browser(server)
        browser.log_in()
        with ExitStack() as stack:
            every = [stack.enter_context(asked(server, browser)) for _ in range(MOST_STREAMS + 20)]
            heads = [heard(one, b"\r\n\r\n").split(b" ")[1] for one in every]
        assert (heads.count(b"200"), heads.count(b"503")) == (MOST_STREAMS, 20)
        # Their places are free again, as soon as the daemon has seen that they went.
        while True:
            with asked(server, browser) as one:
                if heard(one, b"\r\n\r\n").split(b" ")[1] == b"200":
                    break


def test_a_stream_ends_when_its_browser_logs_out(served: Running, browser: Browser) -> None:
    with asked(served, browser) as listening:
        assert b"retry: 1000" in heard(listening, b"retry")
        assert browser.act("/logout", {}).status == 200
        assert heard(listening, b"0\r\n\r\n").endswith(b"0\r\n\r\n")


def test_to_look_at_the_stream_is_not_to_listen(browser: Browser) -> None:
    assert (answer := browser.head("/events")).status == 200
    assert answer.body == b""
