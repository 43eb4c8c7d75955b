"""Commands of dreamd in processes of their own that start in milliseconds: a server imports once and forks.

`python -m tests.redteam.forking` reads one request a line on stdin (words, stdin, environment, seconds) and answers
with one line: exit status, output, the growth of memory in KiB, and whether it had to be killed. Each command is a
real process with its own limits, and whatever it runs, breaks or eats is its own.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.support.running import ROOT

SECONDS = 12.0
_HEAVY = (
    "daemon.cli.bootstrap daemon.cli.diff daemon.cli.doctor daemon.cli.dream daemon.cli.export daemon.cli.feel"
    " daemon.cli.forget daemon.cli.history daemon.cli.init daemon.cli.ingest daemon.cli.mcp daemon.cli.mood"
    " daemon.cli.note daemon.cli.restore daemon.cli.review daemon.cli.search daemon.cli.session daemon.cli.status"
    " daemon.cli.why daemon.workspace.stores daemon.dream.run daemon.upkeep.repair.run"
    " daemon.upkeep.takeover daemon.mcp.stdio"
    " daemon.dream.checkpoints daemon.api.operations graphs.dream state.stores.vectors.chroma chromadb"
    " langgraph.checkpoint.sqlite daemon.models.litellm_model re2 state.secrets.redaction openai httpx tiktoken"
).split()


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended. `killed`: it did not end within its time. `kib`: by how much its memory grew."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str
    kib: int
    killed: bool


class Commands:
    """The server's client."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __call__(
        self, *words: str | Path, environment: Mapping[str, str], stdin: str = "", seconds: float = SECONDS
    ) -> Done:
        said = [str(word) for word in words]
        request = {"words": said, "stdin": stdin, "environment": dict(environment), "seconds": seconds}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return Done(tuple(said), **answer)


@contextmanager
def commands() -> Iterator[Commands]:
    """The server, until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.redteam.forking"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "NO_PROXY": "127.0.0.1"},
        text=True,
    )
    try:
        yield Commands(process)
    finally:
        process.kill()
        process.communicate()


def _serve() -> None:
    for name in _HEAVY:
        import_module(name)
    from daemon.models.litellm_import import load_litellm

    litellm = load_litellm()
    with suppress(Exception):  # nobody answers there; what the first call loads is loaded
        messages = [{"role": "user", "content": "?"}]
        litellm.completion("openai/gpt-4o-mini", messages, api_base="http://127.0.0.1:9", api_key="k", timeout=2)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_forked(json.loads(line))) + "\n")
        sys.stdout.flush()


def _forked(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(request["stdin"].encode("utf-8", "surrogateescape"))
        stdin.seek(0)
        child = os.fork()
        if child == 0:
            _become(request, stdin.fileno(), out.fileno(), err.fileno())
        status, grown, killed = _waited(child, time.monotonic() + request["seconds"])
        out.seek(0)
        err.seek(0)
        return {
            "status": status,
            "out": out.read().decode("utf-8", "backslashreplace"),
            "err": err.read().decode("utf-8", "backslashreplace"),
            "kib": grown,
            "killed": killed,
        }


def _waited(child: int, deadline: float) -> tuple[int, int, bool]:
    killed = False
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss - _resident(), killed
        if time.monotonic() > deadline and not killed:
            os.killpg(child, signal.SIGKILL)
            killed = True
        time.sleep(0.002)


def _become(request: dict[str, Any], stdin: int, out: int, err: int) -> None:
    """The command, in the child; does not return."""
    os.setsid()
    for number, fd in enumerate((stdin, out, err)):
        os.dup2(fd, number)
    # Should it escape its watcher, it cannot eat the machine.
    for limit, most in ((resource.RLIMIT_FSIZE, 1 << 30), (resource.RLIMIT_DATA, 4 << 30), (resource.RLIMIT_CPU, 60)):
        resource.setrlimit(limit, (most, most))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["environment"]["HOME"])
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    status = 70
    try:
        from daemon.cli import main

        status = main(request["words"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _resident() -> int:
    """Of this process, in KiB: what the child began with."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024


if __name__ == "__main__":
    _serve()
