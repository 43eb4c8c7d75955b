"""How a daemon begins, and what a manager hears of it over a real datagram socket."""

import asyncio
import errno
import os
import resource
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from daemon.config.settings import Config, HttpSection
from daemon.process.run import _open_listeners, guarded
from daemon.process.sd_notify import Notifier
from tests.support.folders import PLACE


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """What systemd listens on. The name is short: a socket's may have 107 bytes."""
    folder = Path(tempfile.mkdtemp(dir=PLACE))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(folder / "notify"))
        listening.settimeout(10)
        yield listening
    shutil.rmtree(folder)


def told(manager: socket.socket) -> list[str]:
    return manager.recv(65_536).decode().split("\n")


def notifier(manager: socket.socket, **more: str) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": manager.getsockname(), **more})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\v", "\x85", "\u2028", "\0"])
def test_a_status_of_any_text_is_one_line_and_one_variable(manager: socket.socket, end: str) -> None:
    assert notifier(manager).tell(STATUS=f"a name{end}MAINPID=1 東京 \udcff" + "x" * 10_000)
    (line,) = told(manager)
    assert line.startswith("STATUS=a name MAINPID=1 東京 ?x")
    assert len(line) < 1_100


def test_an_abstract_socket() -> None:
    name = f"dreamd-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(10)
        assert Notifier({"NOTIFY_SOCKET": f"@{name}"}).tell(WATCHDOG=1)
        assert told(listening) == ["WATCHDOG=1"]


@pytest.mark.parametrize("address", [None, "", "@", "/", "vsock:2:1", "relative"])
def test_without_a_socket_nothing_happens(address: str | None) -> None:
    one = Notifier({"WATCHDOG_USEC": "1000000"} | ({"NOTIFY_SOCKET": address} if address is not None else {}))
    assert (one.is_heard, one.ping_seconds, one.tell(WATCHDOG=1)) == (False, None, False)


def test_a_manager_that_does_not_read_or_has_gone_stops_nothing(manager: socket.socket) -> None:
    one, heard = notifier(manager), 0
    while one.tell(WATCHDOG=1):
        heard += 1
    assert heard > 0
    Path(manager.getsockname()).unlink()
    assert not one.tell(STATUS="still here")


@pytest.mark.parametrize(
    ("limit", "process", "seconds"),
    [
        ("60000000", "mine", 30.0),
        ("60000000", "", 30.0),
        *[(limit, "", None) for limit in ("", "0", "soon", "²", "-5")],
        ("60000000", "1", None),
    ],
)
def test_the_watchdog_is_pinged_twice_within_the_limit_of_this_process(
    manager: socket.socket, limit: str, process: str, seconds: float | None
) -> None:
    assert (
        notifier(
            manager, WATCHDOG_USEC=limit, WATCHDOG_PID=str(os.getpid()) if process == "mine" else process
        ).ping_seconds
        == seconds
    )


def test_a_full_table_of_descriptors_keeps_nobody_from_being_told(manager: socket.socket) -> None:
    one, taken = notifier(manager), list[int]()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        assert one.tell(WATCHDOG=1)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert told(manager) == ["WATCHDOG=1"]


def test_a_task_that_fails_ends_nothing() -> None:
    async def fails() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def all_goes_on() -> tuple[bool, bool]:
        return await guarded("tell", fails()), await guarded("tell", asyncio.sleep(0))

    assert asyncio.run(all_goes_on()) == (False, True)


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
    assert [entrance.path for entrance in found] == [folder / "s"]
    assert shut is not None
    assert (
        shut.what == f"port {port} of 127.0.0.1 is taken by another program; the daemon listens at its socket alone"
    )
    assert "http.port" in shut.advice
