"""How a daemon begins: at the socket always, at the port when nobody else has it."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from daemon.config.settings import Config, HttpSection
from daemon.process.run import _open_listeners


def test_a_port_that_another_program_has_is_a_problem_and_no_end(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("s")
    monkeypatch.setenv("DREAMD_SOCKET", str(folder / "s"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        found, shut = _open_listeners(Config(http=HttpSection(port=port)))
    for entrance in found:
        entrance.close()
    assert [entrance.path for entrance in found] == [Path(folder / "s"), Path(folder / "s.mcp")]
    assert shut is not None
    assert (
        shut.what == f"port {port} of 127.0.0.1 is taken by another program; the daemon listens at its sockets alone"
    )
    assert "http.port" in shut.advice
