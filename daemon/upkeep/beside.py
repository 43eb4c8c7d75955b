"""Beside: calls functions that load litellm in a process that ends, since its memory would stay in a daemon.

this process ── function, arguments ──> dreamd config --given N
             <── result, or error ────
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from threading import Thread
from typing import Any

from daemon.config.beside import start_beside
from daemon.models import command
from state.errors import DreamdError

_END_SECONDS = 1.0


@contextmanager
def beside(seconds: float) -> Iterator[Callable[..., Any]]:
    """Open a context with a process, and yield what calls a module's function with these arguments there.

    A call raises the DreamdError of the function; EOFError or OSError if the process ends, or takes longer than this.
    """
    ours, theirs = Pipe()
    with ours:
        with theirs:
            process = start_beside(["config", "--given", str(theirs.fileno())], (theirs.fileno(),))

        def call(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - what the function returns
            ours.send((function, arguments))
            if not ours.poll(seconds):
                raise EOFError("it took too long")
            result = ours.recv()
            if isinstance(result, DreamdError):
                raise result
            return result

        try:
            yield call
        finally:
            ours.close()  # it ends by itself
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()


def answer_calls(fd: int) -> None:
    """Call what the parent sends over this inherited descriptor; end with its end of it."""
    wire = Connection(fd)
    with suppress(EOFError, OSError):
        while True:
            Thread(target=_answer, args=(wire, *wire.recv()), daemon=True).start()
    command.end_all()
    os._exit(0)


def _answer(wire: Connection, function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        result = function(*arguments)
    except DreamdError as error:
        result = error
    except Exception:  # noqa: BLE001 - a defect, which the parent sees by its end
        os._exit(1)
    wire.send(result)
