"""Asking agents: by a command, or by JSON-RPC over a process's stdin and stdout as they ask servers."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 30.0
# Some agents start every server that they know before they answer.
_MOST_SECONDS = 120.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command and return what it said, without colours. Raise OSError, subprocess.TimeoutExpired."""
    ran = subprocess.run(  # noqa: S603 - the agent itself
        command, capture_output=True, text=True, errors="replace", timeout=_MOST_SECONDS, check=False, cwd=folder,
        env=dict(environment), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    ran.stdout, ran.stderr = _COLOURS.sub("", ran.stdout), _COLOURS.sub("", ran.stderr)
    return ran


@contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, killed at the end or when it is too slow. Raise OSError when it does not start."""
    with subprocess.Popen(  # noqa: S603 - what an agent runs, or the agent itself
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
        env=dict(environment),
    ) as process:  # fmt: skip
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        try:
            yield process
        finally:
            late.cancel()
            process.kill()


def ask(process: subprocess.Popen[bytes], *messages: Mapping[str, object]) -> dict[str, Any]:
    """Send the messages and return the result of the last one, which has an id. Raise ValueError without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        reply = json.loads(line)
        if reply.get("id") == messages[-1]["id"]:
            if "result" not in reply:
                raise ValueError(str(reply.get("error", {}).get("message", reply)))
            result: dict[str, Any] = reply["result"]
            return result
    raise ValueError("it ended, or was too slow")
