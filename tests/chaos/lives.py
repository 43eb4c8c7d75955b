"""Processes of `dreamd`, each with the harm that befalls it.

What runs in them is `daemon.cli.main` with real arguments, in an environment of its own.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.chaos import harm as harming
from tests.chaos.harm import NONE, Blow, Harm
from tests.support.forked import Forked
from tests.support.running import ROOT

PATIENCE_SECONDS = 300.0


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
    process: Forked[bytes]
    said: Path

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """Whether it is stopped (SIGSTOP)."""
        return self.process.is_stopped

    def send(self, number: int) -> None:
        """A signal, if it still lives."""
        self.process.send_signal(number)

    def ended(self, seconds: float = PATIENCE_SECONDS) -> Life:
        """Its end, waited for; one that does not end is an error, whatever was done to it."""
        said = self.said.read_text
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            words = f"dreamd {' '.join(self.words)} ({self.harm}) does not end"
            raise AssertionError(f"{words}: {said(encoding='utf-8', errors='replace')[-1500:]}") from None
        return Life(self.words, self.harm, status, said(encoding="utf-8", errors="replace"))


@contextmanager
def living(
    *words: str | Path, said: Path, environment: Mapping[str, str], harm: Harm = NONE, piped: bool = False
) -> Iterator[Running]:
    """One life of `dreamd`, until the end of the block. `piped`: its stdin and stdout are those of `process`."""
    spoken = tuple(map(str, words))
    with said.open("ab") as out:
        process: Forked[bytes] = Forked(
            spoken,
            before=(f"{__name__}:suffer", [asdict(harm)]),
            bufsize=0,
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else out,
            stderr=out,
            cwd=ROOT,
            env=environment,
        )
    with process:
        try:
            yield Running(spoken, harm, process, said)
        finally:
            process.kill()


def suffer(fields: Mapping[str, Any]) -> None:
    """In the process that is to suffer: the harm of these fields."""
    blow = fields["blow"] and Blow(fields["blow"])
    harming.suffer(Harm(**{**fields, "blow": blow}))


def until(happened: Callable[[], object], otherwise: Callable[[], object] = lambda: "it did not happen") -> None:
    """Wait for something, not for ever."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.01)
