"""A process that is killed before a chosen step: a file change through `System`, or an SQL statement."""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Mapping
from typing import Any

from state.stores.disk.syscalls import System

_CALLS = ("write", "pwrite", "rename", "rename_new", "exchange", "link", "unlink", "mkdir")


EVERY_STATEMENT = ("",)
_NO_HOOKS: Mapping[int, Callable[[], object]] = {}


def killed(
    work: Callable[[], object],
    kill_at: int = -1,
    hooks: Mapping[int, Callable[[], object]] = _NO_HOOKS,
    steps: tuple[str, ...] = ("BEGIN", "COMMIT", "VACUUM"),
) -> int | None:
    """Run `work` in a process that is killed before step `kill_at`.

    A step is a file change, or a statement that begins with one of `steps`. Return the number of steps, or None if it
    was killed. A hook is called before its step.
    """
    reading, writing = os.pipe()
    if not (child := os.fork()):
        status = 1
        try:
            os.close(reading)
            count = _counted(kill_at, hooks, steps)
            work()
            os.write(writing, str(count()).encode())
            status = 0
        except BaseException:  # noqa: BLE001 - nothing of this process may go on in pytest
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return int(said) if status == 0 else None


def _counted(kill_at: int, hooks: Mapping[int, Callable[[], object]], steps: tuple[str, ...]) -> Callable[[], int]:
    """Count all steps of this process from now on; return a function for their number."""
    done, is_inside = 0, False

    def step() -> None:
        nonlocal done, is_inside
        if is_inside:  # actions of a hook are not steps
            return
        is_inside = True
        if done in hooks:
            hooks[done]()
        is_inside = False
        if done == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted_call(*given: Any) -> Any:
            step()
            return call(*given)

        return counted_call

    connect = sqlite3.connect

    def traced(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        connection.set_trace_callback(lambda statement: step() if statement.startswith(steps) else None)
        return connection

    for name in _CALLS:
        setattr(System, name, counting(getattr(System, name)))
    sqlite3.connect = traced  # type: ignore[assignment]
    return lambda: done
