"""Truth over time: every benchmark of facts that change, each where its data is.

    python -m benchmarks.truth [--life FILE …]

`updates` (Letta), `beam_updates` (BEAM), and `dreamd eval` on the built-in life and on those that are named.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.beam_updates import BESIDE

DATA = {"updates": "letta-update-dev.jsonl", "beam_updates": "beam-dev-updates.json"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--life", type=Path, nargs="*", default=[], metavar="FILE")
    arguments = parser.parse_args()
    lives = [[], *(["--life", str(path)] for path in arguments.life)]
    commands = [["daemon", "eval", *life] for life in lives]
    for name, file in DATA.items():
        if (BESIDE / file).is_file():
            commands.append([f"benchmarks.{name}"])
        else:
            print(f"{name} is left out: {BESIDE / file} is not there")
    for words in commands:
        print(f"\n-- {' '.join(words)}", flush=True)
        subprocess.run([sys.executable, "-m", *words], check=True)


if __name__ == "__main__":
    main()
