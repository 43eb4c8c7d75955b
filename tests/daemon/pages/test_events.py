"""The stream of a page: an event for a change and none for nothing, and no word of a memory in it."""

import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue

import pytest

from daemon.pages.window import MOST_STREAMS
from tests.daemon.http.running import Running
from tests.daemon.pages.browser import Browser, windowed

_PATIENCE_SECONDS = 60
# More than two looks.
_QUIET_SECONDS = 0.6
_FIRST = re.compile(rb"retry: 1000\nid: ([0-9a-f]{16})\n\n")
_EVENT = re.compile(rb"event: changed\nid: ([0-9a-f]{16})\ndata: 1\n\n")


class Stream:
    """A stream that is listened to: its answer, and its messages one by one."""

    def __init__(self, browser: Browser, path: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", browser.server.port, timeout=_PATIENCE_SECONDS)
        every = {**browser.sent, "Accept": "text/event-stream", "Cookie": browser.cookie, **headers}
        self._connection.request("GET", path, headers=every)
        assert self._connection.sock is not None
        self._socket = self._connection.sock
        self.answer = self._connection.getresponse()
        self._said: Queue[bytes] = Queue()
        self._ear = threading.Thread(target=self._listen)
        self._ear.start()

    def message(self) -> bytes:
        """The next one; nothing at the end of the stream."""
        return self._said.get(timeout=_PATIENCE_SECONDS)

    def id_of(self, kind: "re.Pattern[bytes]") -> str:
        """The id of the next message, which is of this kind."""
        said = self.message()
        found = kind.fullmatch(said)
        assert found, said
        return found[1].decode()

    def is_quiet(self) -> bool:
        """Whether nothing is said for a while, not even the end."""
        try:
            self._said.get(timeout=_QUIET_SECONDS)
        except Empty:
            return True
        return False

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._ear.join()
        self.answer.close()
        self._connection.close()

    def _listen(self) -> None:
        said = b""
        with suppress(OSError, http.client.HTTPException):
            while line := self.answer.readline():
                said += line
                if line == b"\n":
                    self._said.put(said)
                    said = b""
        self._said.put(said)


@contextmanager
def listening(browser: Browser, path: str, seen: str = "") -> Iterator[Stream]:
    stream = Stream(browser, path, {"Last-Event-ID": seen} if seen else {})
    try:
        yield stream
    finally:
        stream.close()


def change(server: Running, name: str, text: str = "- It is known\n") -> None:
    """A person's, in an editor that swaps the file in."""
    path = server.house.roots[name] / "MEMORY.md"
    new = path.with_suffix(".new")
    new.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
    new.replace(path)


@pytest.fixture
def name(served: Running, tmp_path: Path) -> str:
    """A new workspace with a MEMORY.md, and no other one."""
    served.house.roots.clear()
    name = served.house.make(tmp_path / "memory")
    (served.house.roots[name] / "MEMORY.md").write_text("# Mine\n", encoding="utf-8")
    return name


@pytest.mark.parametrize("first", ["/", "/w/{}/today"])
def test_a_page_is_told_what_changed_before_it_listened(
    served: Running, browser: Browser, name: str, first: str
) -> None:
    found = re.search(r'hx-sse:connect="([^"]+)"', browser.get(first.format(name)).body.decode())
    assert found
    change(served, name)
    with listening(browser, found[1]) as stream:
        assert stream.answer.headers["Content-Type"].startswith("text/event-stream")
        assert stream.answer.headers["Cache-Control"] == "no-store"
        assert stream.id_of(_FIRST) == found[1].partition("=")[2]
        seen = stream.id_of(_EVENT)
    with listening(browser, found[1], seen) as stream:  # what the browser has heard counts then
        assert stream.id_of(_FIRST) == seen
        assert stream.is_quiet()


def test_a_change_of_one_workspace_is_none_of_another(
    served: Running, browser: Browser, name: str, tmp_path: Path
) -> None:
    other = served.house.make(tmp_path / "other")
    with listening(browser, f"/w/{other}/events") as alone, listening(browser, "/events") as every:
        alone.id_of(_FIRST), every.id_of(_FIRST)
        change(served, name)
        every.id_of(_EVENT)
        assert alone.is_quiet()


def test_no_word_of_a_memory_is_in_a_stream(served: Running, browser: Browser, name: str) -> None:
    with listening(browser, f"/w/{name}/events") as stream:
        said = stream.message()
        for text in ("- bandoneon\n", "data: bandoneon\n\nevent: bandoneon\n", "\r\n\r\nid: bandoneon\r\n"):
            change(served, name, text)
            said += stream.message()
    assert _FIRST.match(said)
    assert len(_EVENT.findall(said)) == 3
    assert b"bandoneon" not in said
    assert b"memory" not in said


def test_of_many_that_ask_at_once_no_more_are_let_in_than_may_listen(served: Running, browser: Browser) -> None:
    with ExitStack() as others:
        every = [others.enter_context(listening(browser, "/events")) for _ in range(MOST_STREAMS + 9)]
        statuses = [one.answer.status for one in every]
        assert (statuses.count(200), statuses.count(503)) == (MOST_STREAMS, 9)
        assert b"listening already" in every[statuses.index(503)].message()
    status, deadline = 503, time.monotonic() + _PATIENCE_SECONDS
    while status == 503 and time.monotonic() < deadline:  # until the daemon has seen that they went
        with listening(browser, "/events") as stream:
            status = stream.answer.status
    assert status == 200
    assert ((looked := browser.head("/events")).status, looked.body) == (200, b"")  # to look is not to listen


def test_a_stream_ends_with_its_workspace_its_session_and_the_daemon(
    served: Running, browser: Browser, name: str, tmp_path: Path
) -> None:
    with listening(browser, "/w/nobody/events") as stream:
        assert stream.answer.status == 404
    with listening(browser, f"/w/{name}/events") as stream:
        stream.id_of(_FIRST)
        served.house.unregister(name)
        assert stream.message() == b""
    with listening(browser, "/events") as stream:
        stream.id_of(_FIRST)
        assert browser.act("/logout", {}).status == 200
        assert stream.message() == b""
    with windowed(tmp_path) as other, listening(other, "/events") as stream:
        stream.id_of(_FIRST)
        other.server.tell_to_stop()
        assert stream.message() == b""
        assert other.server.ended()
