"""A workspace for commands, transcripts of them, and a daemon that answers the same to everything."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace
from tests.support.running import Caller
from tests.support.transcript import Transcript

Listening = Callable[[bytes], Path]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return init_workspace(tmp_path / "here").root


@pytest.fixture
def told(dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch) -> Transcript:
    """Has a transcript run in the workspace."""
    return Transcript(dreamd, here, monkeypatch)


def answer(body: str, headers: str = "", status: str = "200 OK", length: int | None = None) -> bytes:
    content = body.encode()
    size = len(content) if length is None else length
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {size}\r\n\r\n".encode() + content


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    """A daemon that answers so to everything."""
    path = tmp_path / "s"
    monkeypatch.setenv("DREAMD_SOCKET", str(path))
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def serve(said: bytes) -> Path:
        server.bind(str(path))
        server.listen()

        def run() -> None:
            connection, _ = server.accept()
            server.close()  # whoever asks again finds nobody
            with connection:
                asked = b""
                while b"\r\n\r\n" not in asked or not asked.endswith(b"}"):
                    asked += connection.recv(65_536)
                (tmp_path / "asked").write_bytes(asked)
                connection.sendall(said)

        threading.Thread(target=run, daemon=True).start()
        return tmp_path / "asked"

    yield serve
    server.close()
