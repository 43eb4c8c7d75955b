"""What a manager hears over a real datagram socket."""

import asyncio
import errno
import os
import resource
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.process.run import guarded
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
    return Notifier.from_environment({"NOTIFY_SOCKET": manager.getsockname(), **more})


def test_ready_status_stopping_and_watchdog_reach_the_manager(manager: socket.socket) -> None:
    one = notifier(manager)
    assert one.ready("3 workspaces")
    assert one.status("dreaming in /home/ada/agent")
    assert one.watchdog()
    assert one.stopping()
    assert [told(manager) for _ in range(4)] == [
        ["READY=1", "STATUS=3 workspaces"],
        ["STATUS=dreaming in /home/ada/agent"],
        ["WATCHDOG=1"],
        ["STOPPING=1"],
    ]


def test_a_reload_carries_the_monotonic_time(manager: socket.socket) -> None:
    before = time.monotonic_ns() // 1000
    assert notifier(manager).reloading()
    first, second = told(manager)
    assert first == "RELOADING=1"
    name, _, microseconds = second.partition("=")
    assert name == "MONOTONIC_USEC"
    assert before <= int(microseconds) <= time.monotonic_ns() // 1000


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\v", "\x85", "\u2028", "\0"])
def test_a_status_cannot_say_a_second_variable(manager: socket.socket, end: str) -> None:
    assert notifier(manager).status(f"a name{end}MAINPID=1")
    assert told(manager) == ["STATUS=a name MAINPID=1"]


def test_a_status_of_any_text_is_sent(manager: socket.socket) -> None:
    assert notifier(manager).status("Köln 東京 \udcff" + "x" * 10_000)
    (line,) = told(manager)
    assert line.startswith("STATUS=Köln 東京 ?x")
    assert len(line) < 1_100


def test_an_abstract_socket() -> None:
    name = f"dreamd-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(10)
        assert Notifier.from_environment({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert told(listening) == ["READY=1"]


@pytest.mark.parametrize("address", ["", "@", "/", "vsock:2:1", "relative"])
def test_without_a_socket_nothing_happens(address: str) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": address}):
        one = Notifier.from_environment({**environment, "WATCHDOG_USEC": "1000000"})
        assert one == Notifier(None, None)
        assert not one.ready("x")
        assert not one.watchdog()


def test_a_socket_that_vanished_stops_nothing(manager: socket.socket) -> None:
    one = notifier(manager)
    assert one.ready()
    Path(manager.getsockname()).unlink()
    assert not one.ready()
    assert not one.status("still here")


def test_a_manager_that_does_not_read_stops_nothing(manager: socket.socket) -> None:
    one = notifier(manager)
    heard = 0
    while one.watchdog():
        heard += 1
    assert heard > 0


def test_the_watchdog_is_pinged_twice_within_its_limit(manager: socket.socket) -> None:
    one = notifier(manager, WATCHDOG_USEC="60000000", WATCHDOG_PID=str(os.getpid()))
    assert (one.watchdog_seconds, one.ping_seconds) == (60.0, 30.0)
    assert notifier(manager, WATCHDOG_USEC="60000000").ping_seconds == 30.0


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "²"},
        {"WATCHDOG_USEC": "-5"},
        {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"},
    ],
)
def test_no_watchdog_for_this_process(manager: socket.socket, variables: dict[str, str]) -> None:
    assert notifier(manager, **variables).watchdog_seconds is None
    assert notifier(manager, **variables).ping_seconds is None


def test_a_full_table_of_descriptors_keeps_nobody_from_being_told(manager: socket.socket) -> None:
    one, taken = notifier(manager), list[int]()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        assert one.watchdog()
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert told(manager) == ["WATCHDOG=1"]


def test_a_helper_that_fails_ends_nothing() -> None:
    async def fails() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def all_goes_on() -> tuple[bool, bool]:
        return await guarded("tell", fails()), await guarded("tell", asyncio.sleep(0))

    assert asyncio.run(all_goes_on()) == (False, True)
