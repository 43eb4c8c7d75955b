"""Calls `dreamd` for tests: in this process, or in a real one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from daemon.cli import main
from daemon.workspace.vector_index import cache_folder
from state.stores.disk.workspace import Workspace
from tests.support import forked

ROOT = Path(__file__).parents[2]
NOTES = (
    "Ada prefers tea over coffee in the morning",
    "The deployment runs on port 8443 behind nginx",
    "We decided to use SQLite for the ledger",
    "Deploy failed again because of the expired certificate",
    "Next goal: write the retrieval benchmark",
    "Grüße aus Köln, 東京で会いましょう 🍵",
)


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Caller:
    """Calls `dreamd` in this process and captures its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str | Path | int) -> Ended:
        self._capsys.readouterr()
        status = main([str(word) for word in words])
        captured = self._capsys.readouterr()
        return Ended(status, captured.out, captured.err)


def on_platform() -> dict[str, str]:
    """Return the variable by which the fixture `platform` has the processes of a test run as on macOS."""
    return {name: value for name, value in os.environ.items() if name == "_DREAMD_PORTABLE"}


def process(
    *words: str | Path,
    stdin: bytes = b"",
    before: tuple[str, Sequence[Any]] | None = None,
    folder: Path = ROOT,
    **environment: str,
) -> Ended:
    """Run `dreamd` as a real process with these and very few other variables; `before` as in `Forked`."""
    places = {"HOME": "/nonexistent", "XDG_RUNTIME_DIR": "/nonexistent", "PATH": "/usr/bin:/bin"}
    # All tests share one embedding model.
    own = {name: os.environ[name] for name in ("XDG_STATE_HOME", "XDG_DATA_HOME")}
    state = {**own, "XDG_CACHE_HOME": str(cache_folder(os.environ).parent)}
    ended = forked.run(
        words,
        stdin=stdin,
        environment={**places, **state, **on_platform(), **environment},
        before=before,
        folder=folder,
    )
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


# A program for `loaded`: runs the command with its arguments.
RUNNING = "from daemon.cli import main; assert main(sys.argv[1:]) == 0"


def loaded(program: str, *words: str) -> set[str]:
    """Return the modules that a new interpreter loads for this program."""
    script = f"import sys; before = set(sys.modules); {program}; print(*set(sys.modules) - before, file=sys.stderr)"
    command = [sys.executable, "-c", script, *words]
    ended = subprocess.run(command, capture_output=True, cwd=ROOT, check=True, text=True)
    return set(ended.stderr.splitlines()[-1].split())


def until_dreamt_apart(workspace: Workspace) -> None:
    """Wait until the dream that a hook started in a process of its own has ended."""
    words = [b"dream", b"--workspace", os.fsencode(workspace.root)]

    def is_dreaming(folder: Path) -> bool:
        with suppress(OSError):
            given = (folder / "cmdline").read_bytes().split(b"\0")
            return any(given[at : at + 3] == words for at in range(len(given)))
        return False

    deadline = time.monotonic() + 300
    while any(map(is_dreaming, Path("/proc").glob("[0-9]*"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
