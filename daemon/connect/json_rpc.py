"""JSON-RPC over a process's stdin and stdout: how agents speak with servers, and some with programs like this one."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 30.0


@contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float = SECONDS
) -> Iterator[subprocess.Popen[bytes]]:
    """The process; killed at the end, and after so many seconds. Raises OSError when it does not start."""
    with subprocess.Popen(  # noqa: S603 - what an agent runs, or the agent itself
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
        env=dict(environment),
    ) as process:  # fmt: skip
        late = threading.Timer(seconds, process.kill)
        late.start()
        try:
            yield process
        finally:
            late.cancel()
            process.kill()


def asked(process: subprocess.Popen[bytes], *messages: Mapping[str, object]) -> dict[str, Any]:
    """The result of the last message, which has a number. Raises ValueError when there is none."""
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
