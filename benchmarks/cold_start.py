"""How long an agent waits for `dreamd note` and `dreamd bootstrap`: real processes of the installed program.

    python -m benchmarks.cold_start [--runs 30]

The workspace has a MEMORY.md of 8,000 characters and 20 pending notes. Python without any of our code stands beside
them: on a busy machine it grows as they do, and processor time (CPU) grows less than wall time. The last column lists
the heavy packages that a command loads, which should be none.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from benchmarks.workload import Workload
from daemon.workspace.adoption import init_workspace
from state.stores.history.inbox import NoteInbox

HEAVY = ("litellm", "chromadb", "langgraph", "mcp", "numpy", "onnxruntime", "pydantic")
SEED = 11
PENDING = 20
CHARACTERS = 8_000


def program() -> Path:
    """Return the console script beside this Python."""
    script = Path(sys.executable).with_name("dreamd")
    if not script.exists():
        raise SystemExit(f"{script} is missing; run 'make install'")
    return script


def prepared(folder: Path) -> Path:
    """Make a workspace as an agent meets it."""
    workspace = init_workspace(folder)
    workload = Workload(SEED, width=1)
    for note in workload.notes(0, PENDING, datetime.now(UTC)):
        NoteInbox(workspace).append(note)
    text = "# Working Memory State\n\n## Active Context\n\n"
    number = 0
    while len(text) < CHARACTERS:
        text += f"- {workload.text('line', number)[0]}\n"
        number += 1
    workspace.document.write_text(text[:CHARACTERS])
    return workspace.root


def seconds(command: Sequence[str | Path], runs: int, environment: dict[str, str]) -> tuple[list[float], list[float]]:
    """Return wall and processor time of each run but the first, which fills the disk's cache."""
    wall, processor = [], []
    for _ in range(runs + 1):
        began, used = time.perf_counter(), _processor()
        subprocess.run(command, check=True, capture_output=True, env=environment)
        wall.append(time.perf_counter() - began)
        processor.append(_processor() - used)
    return wall[1:], processor[1:]


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def heavy(words: Sequence[str | Path], environment: dict[str, str]) -> list[str]:
    """Return which heavy packages a command imports."""
    command = [sys.executable, "-X", "importtime", program(), *words]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stderr
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in listed.splitlines()}
    return sorted(modules & set(HEAVY))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = prepared(Path(folder) / "workspace")
        environment = {**os.environ, "DREAMD_WORKSPACE": str(root), "XDG_CONFIG_HOME": folder}
        commands: dict[str, list[str | Path]] = {
            "dreamd note": ["note", "the certificate of the gateway was renewed"],
            "dreamd bootstrap": ["bootstrap"],
            "… --format hook": ["bootstrap", "--format", "hook"],
        }
        print(f"{'ms, ' + str(given.runs) + ' runs':20}{'median':>8}{'p95':>8}{'best':>8}{'CPU':>8}  heavy imports")
        rows: dict[str, list[str | Path]] = {"python -c pass": [sys.executable, "-c", "pass"]}
        rows |= {name: [program(), *words] for name, words in commands.items()}
        for name, command in rows.items():
            taken, used = ([1_000 * one for one in column] for column in seconds(command, given.runs, environment))
            found = ", ".join(heavy(commands[name], environment)) or "none" if name in commands else ""
            figures = (median(taken), quantiles(taken, n=20)[-1], min(taken), median(used))
            print(f"{name:20}" + "".join(f"{figure:8.0f}" for figure in figures) + f"  {found}")


if __name__ == "__main__":
    main()
