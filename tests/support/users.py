"""Actions as another user of this machine, which only root can take."""

import os
import pwd
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

NOBODY = pwd.getpwnam("nobody").pw_uid
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user: run the tests as root")


def as_user(user: int, act: Callable[[], object]) -> str:
    """Run `act` in a process of this user; return its result as text, or the class of its error."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(user)
            said = str(act())
        except BaseException as error:  # noqa: BLE001 - told to the parent
            said = type(error).__name__
        os.write(told, said.encode())
        os._exit(0)
    os.close(told)
    os.waitpid(child, 0)
    with os.fdopen(heard) as pipe:
        return pipe.read()


@contextmanager
def living_as(user: int, act: Callable[[], object]) -> Iterator[None]:
    """Run `act` in a process of this user, killed at the end of the block."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setuid(user)
            act()
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
