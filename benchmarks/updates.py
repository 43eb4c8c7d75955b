"""Facts that change: whether the search gives the new value first, and MEMORY.md asserts the old one no more.

    python -m benchmarks.updates [--data FILE] [--people 50] [--seed 1] [--show]

Letta's core_memory_update (Apache-2.0): ten facts of people as notes, a dream without a model, then the fact that
contradicts one of them, and another dream. Then the row's question is asked. The data is not part of this project: it
is read from --data, else DREAMD_LETTA, else ../shared/data/letta-update-dev.jsonl beside the repository.
"""

import argparse
import json
import os
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.workspace.searching import searched_in
from state.stores.crystals.search import search

if TYPE_CHECKING:
    from daemon.workspace.vector_index import Embedding

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "letta-update-dev.jsonl"


@dataclass(frozen=True, slots=True)
class Change:
    """Ten facts, the new one, which of the ten it replaces, and which others it touches."""

    question: str
    facts: tuple[str, ...]
    new: str
    old: str
    touched: frozenset[str]


def read(path: Path) -> list[Change]:
    """Return the rows of the data file."""
    changes = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        extra = row["agent_args"]["extra"]
        touched = [extra["facts"][at] for at in extra["supporting_fact_indices"]]
        facts = tuple(dict.fromkeys(extra["facts"]))
        changes.append(Change(row["input"], facts, extra["contradicting_fact"], touched[0], frozenset(touched)))
    return changes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one change."""

    first: str  # new, old, neither: which of the two the search gives first
    old_stands: bool
    new_stands: bool
    gone: tuple[str, ...]  # unrelated facts that do not stand in MEMORY.md any more


def live(change: Change, folder: Path, embedding: "Embedding") -> Outcome:
    """Dream twice in a new workspace, and search."""
    from daemon.config.settings import Config
    from daemon.dream.run import Mode, dream_now
    from daemon.workspace.stores import open_exclusive, utc_now
    from state.dream import Reason
    from state.scratch import Note
    from state.stores.disk.workspace import contained, init_workspace

    workspace = init_workspace(contained(folder))
    with open_exclusive(workspace, Config(), "a benchmark", embedding=embedding) as store:
        for fact in change.facts:
            store.notes.inbox.append(Note(text=fact, at=utc_now() - timedelta(days=1)))
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        before = workspace.document.read_text(encoding="utf-8")
        store.notes.inbox.append(Note(text=change.new, at=utc_now()))
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        after = workspace.document.read_text(encoding="utf-8")
        hits = [hit.crystal.text for hit in search(searched_in(store), change.question, utc_now(), limit=10).hits]
    shown = [text for text in hits if text in (change.old, change.new)]
    first = "neither" if not shown else "new" if shown[0] == change.new else "old"
    unrelated = [fact for fact in change.facts if fact not in change.touched]
    gone = tuple(fact for fact in unrelated if fact in before and fact not in after)
    return Outcome(first, change.old in after, change.new in after, gone)


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DREAMD_LETTA") or BESIDE))
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    arguments = parser.parse_args()
    if not arguments.data.is_file():
        raise SystemExit(f"{arguments.data} is not there; name the data file with --data or DREAMD_LETTA")
    from daemon.workspace.vector_index import Embedding

    changes = random.Random(arguments.seed).sample(read(arguments.data), arguments.people)
    home = Path(tempfile.mkdtemp(prefix="dreamd-updates-"))
    os.environ["XDG_STATE_HOME"] = str(home / "state")
    outcomes = []
    embedding = Embedding()
    try:
        for number, change in enumerate(changes):
            outcomes.append(live(change, home / str(number), embedding))
            outcome = outcomes[-1]
            if arguments.show and (outcome.first == "old" or outcome.old_stands or outcome.gone):
                print(f"{outcome.first}, old {'stands' if outcome.old_stands else 'is gone'}: {change.old}")
                print(f"   new: {change.new}", *(f"\n   gone: {fact}" for fact in outcome.gone))
            shutil.rmtree(home / str(number))
    finally:
        shutil.rmtree(home)
    count = len(outcomes)
    order = Counter(outcome.first for outcome in outcomes)
    print(f"new value above the old one in search  {order['new'] / count:.1%} (neither found: {order['neither']})")
    print(f"old value stands in MEMORY.md          {sum(o.old_stands for o in outcomes) / count:.1%}")
    print(f"new value stands in MEMORY.md          {sum(o.new_stands for o in outcomes) / count:.1%}")
    print(f"unrelated facts that left MEMORY.md    {sum(len(o.gone) for o in outcomes)} of {count * 9}")


if __name__ == "__main__":
    main()
