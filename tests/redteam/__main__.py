"""Run the red team from the command line."""

import argparse
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
    """Print what is caught and what is changed for nothing; return whether both are within bounds."""
    held, harmless = _entries(folder, "secrets", seed), _entries(folder, "harmless", seed)
    caught = sum(not is_left(entry, redact(entry.text).text) for entry in held)
    changed = sum(redact(entry.text).text != entry.text for entry in harmless)
    print(f"secrets: {caught:,} of {len(held):,} texts without them; {changed} of {len(harmless):,} harmless changed")
    return caught >= 0.97 * len(held) and changed < 0.005 * len(harmless)


def _entries(folder: Path, name: str, seed: int) -> list[Entry]:
    return [entry for path in sorted(folder.glob(f"{name}_*.jsonl")) for entry in entries(path, seed)]


def _run(*words: str, seconds: float) -> bool:
    """A part in a process of its own, which is ended when its time is over; whether it found nothing."""
    print("$ python -m", *words, flush=True)
    try:
        return subprocess.run([sys.executable, "-m", *words], check=False, timeout=seconds).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"not done after {seconds:.0f} seconds")
        return False


def _fuzz(name: str, seconds: float, seed: int) -> bool:
    """A fuzzer, in this process; whether it found nothing."""
    if name == "http":
        from tests.redteam.http_fuzz import fuzz
    else:
        from tests.redteam.parser_fuzz import fuzz
    found = fuzz(seconds, seed)
    print(found or "nothing was found")
    return not found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every part, or one; 1 when any of them found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.redteam", description="Throw at dreamd what strangers do.")
    parser.add_argument("--seed", type=int, default=None, help="to draw and try the same again")
    parser.add_argument("--minutes", type=float, default=20.0, help="at most about so long")
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="a folder of corpora of another author")
    parser.add_argument(
        "--only", choices=["secrets", "workspaces", "shapes", "http", "parsers"], help="this part alone"
    )
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    if options.only in ("http", "parsers"):
        return 0 if _fuzz(options.only, 60 * options.minutes, seed) else 1
    until, third = time.monotonic() + 60 * options.minutes, 20 * options.minutes
    tests = ("pytest", "-m", "", "-n", "2")
    folders = (*tests, "tests/redteam", "--deselect=tests/redteam/test_redteam.py")
    parts: dict[str, Callable[[], bool]] = {
        "secrets": lambda: secrets(options.corpora, seed),
        "workspaces": lambda: _run(*folders, seconds=third),
        "shapes": lambda: _run(*tests, "tests/state/detectors", f"--hypothesis-seed={seed}", seconds=third),
    }
    ended = {name: part() for name, part in parts.items() if options.only in (None, name)}
    for name, share in (("http", 2), ("parsers", 1)) if options.only is None else ():
        left = max(_LEAST_FUZZED_SECONDS, (until - time.monotonic()) / share)
        words = ("--only", name, "--seed", str(seed), "--minutes", f"{left / 60:.3f}")
        ended[name] = _run("tests.redteam", *words, seconds=3 * left + 120)
    for name, passed in ended.items():
        print(f"{'held' if passed else 'FELL':6}{name}")
    print(f"seed {seed}")
    return 0 if all(ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
