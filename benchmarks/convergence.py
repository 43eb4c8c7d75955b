"""Convergence: how many lines a fact has in MEMORY.md after it was said in ten ways over a hundred dreams.

    python -m benchmarks.convergence [--seed N]

Fifty facts, ten paraphrases of each by hand (tests/daemon/dream/paraphrases.txt), five notes a dream, no model.
"""

import argparse
import random
import tempfile
from collections import defaultdict
from pathlib import Path

from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.workspace.stores import open_exclusive, utc_now
from state.document.document import parse
from state.dream import Reason
from state.scratch import Note
from state.stores.disk.workspace import contained, init_workspace

PARAPHRASES = Path(__file__).parents[1] / "tests/daemon/dream/paraphrases.txt"
NOTES_PER_DREAM = 5


def facts() -> list[list[str]]:
    """The facts, each in its wordings."""
    return [block.splitlines() for block in PARAPHRASES.read_text(encoding="utf-8").strip().split("\n\n")]


def lines_by_fact(seed: int, folder: Path) -> dict[int, list[str]]:
    """The lines of each fact that stand in MEMORY.md at the end; no fact is said twice before all were said once."""
    chance = random.Random(seed)
    shuffled = [chance.sample(wordings, len(wordings)) for wordings in facts()]
    rounds = [chance.sample(said, len(said)) for said in zip(*shuffled, strict=True)]
    notes = [text for said in rounds for text in said]
    workspace = init_workspace(contained(folder))
    with open_exclusive(workspace, Config(), "benchmark") as store:
        for at in range(0, len(notes), NOTES_PER_DREAM):
            for text in notes[at : at + NOTES_PER_DREAM]:
                store.notes.inbox.append(Note(text, utc_now()))
            dream_now(store, Reason.MANUAL, Mode.AUTO)
    number = {text: at for at, wordings in enumerate(facts()) for text in wordings}
    found: dict[int, list[str]] = defaultdict(list)
    for _, block in parse(workspace.document.read_text(encoding="utf-8")).lines():
        if block.text in number:
            found[number[block.text]].append(block.text)
    return found


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=7)
    with tempfile.TemporaryDirectory() as folder:
        found = lines_by_fact(parser.parse_args().seed, Path(folder) / "memory")
    lines = sum(map(len, found.values()))
    print(f"{len(found)} of {len(facts())} facts stand, {lines} lines, {lines / max(1, len(found)):.2f} a fact")


if __name__ == "__main__":
    main()
