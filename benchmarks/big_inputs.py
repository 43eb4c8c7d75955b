"""Peak memory and time with inputs that are far too big: a scratch log, a transcript, one endless line.

    python -m benchmarks.big_inputs [--lines 1000000] [--transcript-mb 1024] [--dream-lines 2000]

Each command is a process of its own; its peak is what the kernel says of it when it has ended (getrusage, ru_maxrss).
The inputs are made below the folder for temporary files, and removed.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from benchmarks.serving import environment
from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace

_PIECE = 1 << 20
_WORDS = "kettle bicycle garden window piano ladder carpet lamp fence clock stove door".split()


def measured(*words: str | Path) -> tuple[float, float, int]:
    """Run a command; return its peak of memory (MiB), seconds and exit status."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "daemon", *map(str, words)]
    silent = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, silent, 1), (os.POSIX_SPAWN_DUP2, silent, 2)]
    pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
    os.close(silent)
    _, status, usage = os.wait4(pid, 0)
    return usage.ru_maxrss / 1024, time.perf_counter() - began, os.waitstatus_to_exitcode(status)


def scratch(path: Path, lines: int) -> None:
    """Write a log of so many notes."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            thing = _WORDS[number % len(_WORDS)]
            file.write(f"- [2026-03-01T10:00:00Z] (importance: 0.5) Ada repaired {thing} {number} of the house\n")


def conversation(file: BinaryIO, size: int) -> None:
    """Write a session of Claude Code of so many bytes, most of it what tools gave back, as in real ones."""
    number = 0
    output = "x = 1  # a line of a listing that nobody remembers\n" * 20_000
    while file.tell() < size:
        number += 1
        said = f"Ada repaired {_WORDS[number % len(_WORDS)]} {number} of the house"
        for content in (said, [{"type": "tool_result", "tool_use_id": f"t{number}", "content": output}]):
            message = {"role": "user", "content": content}
            record = {"type": "user", "sessionId": "s", "timestamp": "2026-03-01T10:00:00Z", "message": message}
            file.write(json.dumps(record).encode() + b"\n")


def one_line(file: BinaryIO, size: int) -> None:
    """Write a single line without an end."""
    file.write(b'{"type": "user", "message": "')
    piece = b"a" * _PIECE
    while file.tell() < size:
        file.write(piece)


def prose(file: BinaryIO, size: int) -> None:
    """Write a log of a program: lines, and no blank one between them."""
    number = 0
    while file.tell() < size:
        number += 1
        file.write(f"2026-03-01 10:00:00 INFO worker {number % 7} did step {number}\n".encode() * 40 + b"\n")


def in_workspace(folder: Path, does: Callable[[Workspace], None]) -> None:
    """Do something in a new workspace, which is removed afterwards."""
    workspace = init_workspace(folder / "w")
    try:
        does(workspace)
    finally:
        shutil.rmtree(workspace.root)


def row(name: str, *words: str | Path) -> None:
    peak, seconds, status = measured(*words)
    print(f"{name:44} {peak:8.0f} MiB {seconds:8.1f} s   exit {status}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--lines", type=int, default=1_000_000, help="of scratch.md, for status, bootstrap and note")
    parser.add_argument("--dream-lines", type=int, default=2_000, help="of scratch.md, for a dream")
    parser.add_argument("--transcript-mb", type=int, default=1024)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dreamd-big-"))
    os.environ.update(environment(folder))

    def log(workspace: Workspace) -> None:
        scratch(workspace.scratch, given.lines)
        for command in ("status", "bootstrap"):
            row(f"{command}, {given.lines:,} lines of scratch", command, workspace.root)
        row(f"note, {given.lines:,} lines of scratch", "note", "-w", workspace.root, "One more")

    def dream(workspace: Workspace) -> None:
        scratch(workspace.scratch, given.dream_lines)
        row(f"dream, {given.dream_lines:,} lines of scratch", "dream", workspace.root)

    def transcript(name: str, write: Callable[[BinaryIO, int], None], size: int) -> Callable[[Workspace], None]:
        def does(workspace: Workspace) -> None:
            path = workspace.root / name
            with path.open("wb") as file:
                write(file, size)
            row(f"ingest, {name} of {size >> 20:,} MiB", "ingest", "-w", workspace.root, path)

        return does

    try:
        row("nothing (the program itself)", "--version")
        in_workspace(folder, log)
        in_workspace(folder, dream)
        for megabytes in sorted({min(16, given.transcript_mb), given.transcript_mb}):
            in_workspace(folder, transcript("session.jsonl", conversation, megabytes << 20))
            in_workspace(folder, transcript("one-line.jsonl", one_line, megabytes << 20))
        in_workspace(folder, transcript("log.md", prose, 2 << 20))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
