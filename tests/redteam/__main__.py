"""The standing red team: everything that strangers have thrown at dreamd, within a bounded time.

    python -m tests.redteam [--seed N] [--minutes M] [--corpora FOLDER]

The seed is printed first. Corpora of another author (`secrets_*.jsonl`, `harmless_*.jsonl`) may be named; whatever is
left of the time the fuzzers share.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from state.secrets.redaction import redact
from tests.redteam.corpus import CORPORA, Entry, entries, is_left

_LEAST_FUZZED_SECONDS = 30.0


def secrets(folder: Path, seed: int) -> bool:
    """Print what is caught and what is changed for nothing; whether both are as `docs/guarantees.md` says."""
    held, harmless = _entries(folder, "secrets", seed), _entries(folder, "harmless", seed)
    caught = sum(not is_left(entry, redact(entry.text).text) for entry in held)
    changed = sum(redact(entry.text).text != entry.text for entry in harmless)
    print(f"secrets: {caught:,} of {len(held):,} texts without them; {changed} of {len(harmless):,} harmless changed")
    return caught >= 0.97 * len(held) and changed < 0.005 * len(harmless)


def _entries(folder: Path, name: str, seed: int) -> list[Entry]:
    return [entry for path in sorted(folder.glob(f"{name}_*.jsonl")) for entry in entries(path, seed)]


def _run(module: str, *words: str, seconds: float, **environment: str) -> bool:
    """A part in a process of its own, which is ended when its time is over; whether it found nothing."""
    command = [sys.executable, "-m", module, *words]
    print("$", " ".join(["python", *command[1:]]), flush=True)
    try:
        run = subprocess.run(command, env={**os.environ, **environment}, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"not done after {seconds:.0f} seconds")
        return False
    return run.returncode == 0


def _tests(*words: str, minutes: float) -> bool:
    return _run("pytest", "-m", "", "-n", "2", *words, seconds=60 * minutes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every part; 1 when any of them found something."""
    parser = argparse.ArgumentParser(description="Throw at dreamd what strangers have thrown at it.")
    parser.add_argument("--seed", type=int, default=None, help="to draw and try the same again")
    parser.add_argument("--minutes", type=float, default=20.0, help="at most about so long")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="a folder of corpora of another author")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    until = time.monotonic() + 60 * options.minutes
    third = options.minutes / 3
    parts: dict[str, Callable[[], bool]] = {
        "secrets": lambda: secrets(options.corpora, seed),
        "hostile workspaces": lambda: _tests(
            "tests/redteam", "--deselect=tests/redteam/test_redteam.py", minutes=third
        ),
        "slow shapes": lambda: _tests("tests/detectors", f"--hypothesis-seed={seed}", minutes=third),
    }
    ended = {name: part() for name, part in parts.items()}
    for name in ("http_fuzz", "parser_fuzz"):
        left = max(_LEAST_FUZZED_SECONDS, (until - time.monotonic()) / (2 if name == "http_fuzz" else 1))
        ended[name] = _run(
            f"tests.redteam.{name}", "--seed", str(seed), "--seconds", f"{left:.0f}", seconds=3 * left + 120
        )
    for name, passed in ended.items():
        print(f"{'held' if passed else 'FELL':6}{name}")
    print(f"seed {seed}")
    return 0 if all(ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
