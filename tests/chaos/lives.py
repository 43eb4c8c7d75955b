"""Processes of `dreamd`: forked from a server that has imported what is slow, each with the harm that befalls it.

What runs in them is `daemon.cli.main` with real arguments, in an environment of its own.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos import harm as harming
from tests.chaos.harm import NONE, Harm
from tests.crash import session_life  # before the preload below: it sets one of its own

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.chaos.preload", session_life.__name__])
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Life:
    """How a process ended: its exit status (-9: killed) and what it said on stdout and stderr."""

    words: tuple[str, ...]
    harm: Harm
    status: int
    said: str

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL

    def __str__(self) -> str:
        return f"dreamd {' '.join(self.words)} ({self.harm}) ended with {self.status}: {self.said[-1500:]}"


@dataclass(frozen=True, slots=True)
class Running:
    """A process that lives."""

    words: tuple[str, ...]
    harm: Harm
    process: Any
    said: Path

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    @property
    def lives(self) -> bool:
        return bool(self.process.is_alive())

    @property
    def is_stopped(self) -> bool:
        """Whether it is stopped (SIGSTOP)."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return False
        return stat.rpartition(") ")[2][0] == "T"

    def send(self, number: int) -> None:
        """A signal, if it still lives."""
        with suppress(ProcessLookupError):
            if self.lives:
                os.kill(self.pid, number)

    def ended(self, seconds: float = PATIENCE_SECONDS) -> Life:
        """Its end, waited for; one that does not end is an error, whatever was done to it."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            said = self.said.read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"dreamd {' '.join(self.words)} ({self.harm}) does not end: {said[-1500:]}")
        return Life(
            self.words,
            self.harm,
            self.process.exitcode,
            self.said.read_text(encoding="utf-8", errors="replace"),
        )


@contextmanager
def living(
    *words: str | Path,
    said: Path,
    environment: Mapping[str, str],
    harm: Harm = NONE,
    pipes: tuple[Path, Path] | None = None,
) -> Iterator[Running]:
    """One life of `dreamd`, until the end of the block. `pipes` are named pipes for its stdin and stdout."""
    said.touch()
    spoken = tuple(map(str, words))
    process = _FORKING.Process(target=_live, args=(list(spoken), dict(environment), harm, str(said), pipes))
    process.start()
    try:
        yield Running(spoken, harm, process, said)
    finally:
        process.kill()
        process.join()
        process.close()


def until(happened: Callable[[], object], otherwise: Callable[[], object] = lambda: "it did not happen") -> None:
    """Wait for something, not for ever."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.01)


def _live(
    words: list[str], environment: dict[str, str], harm: Harm, said: str, pipes: tuple[Path, Path] | None
) -> None:
    harming.die_with_parent()
    counted = environment.pop("CHAOS_COUNTED", None)
    for name in list(os.environ):
        if name not in _KEPT:
            del os.environ[name]
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    if pipes is not None:
        os.dup2(os.open(pipes[0], os.O_RDONLY), 0)
        os.dup2(os.open(pipes[1], os.O_WRONLY), 1)
        sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    harming.suffer(harm, Path(counted) if counted else None)
    from daemon.cli import main

    sys.exit(main(words))


# What was imported before the fork has read these already; the rest of the environment is of whoever runs chaos.
_KEPT = ("ORT_DISABLE_TELEMETRY", "ANONYMIZED_TELEMETRY", "PATH", "LITELLM_LOCAL_MODEL_COST_MAP", "HF_HUB_OFFLINE")
