"""Bad models in a row on one workspace with a hundred planted facts: what each kind did, and what was lost.

    python -m benchmarks.bad_models [--rounds 2] [--seed 1] [--folder FOLDER]

Every kind of tests/gallery answers so many dreams as there are rounds, in an order that is drawn anew each round,
through the real litellm from a server on 127.0.0.1. Before each dream one new fact is noted; a few facts the owner
wrote into the file, some of them pinned, so that no crystal has them. MEMORY.md is checked after each dream.

**Lost** is a fact that is neither a line of MEMORY.md, nor behind a pointer of it, nor among the first five results
of a search for its own words; looked at after each dream, so that the kind that lost it is named. **Gone** is a fact
that was a line of MEMORY.md before a dream of the kind, and is none after it: one undo brings it back. **Tokens** are
as the ledger counts them; the scripted model has no price. Last: false rejections over the corpus of honest updates
in tests/graphs.
"""

import argparse
import contextlib
import io
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state.stores.disk.workspace import Workspace
    from tests.support.gallery.living import Lived


@dataclass(slots=True)
class Row:
    """What one kind did in all of its dreams."""

    outcomes: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    tokens: int = 0
    applied: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    gone: int = 0

    def add(self, one: "Lived", lost: int, gone: int) -> None:
        """Count one dream."""
        self.outcomes[one.outcome] += 1
        self.calls += one.calls
        self.tokens += one.tokens
        self.applied += one.applied
        self.refused += one.refused
        self.lost += lost
        self.gone += gone

    def __str__(self) -> str:
        ends = " ".join(f"{self.outcomes[name] or '-':>4}" for name in ("committed", "rejected", "failed"))
        guards = ", ".join(f"{guard} {number}" for guard, number in self.refused.most_common())
        return f"{ends} {self.calls:>6} {self.tokens:>10,} {self.applied:>7} {self.lost:>4} {self.gone:>4}  {guards}"


def dreamt(workspace: "Workspace") -> int:
    """Dream once on the command line, silently; return its exit status."""
    from daemon.cli import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return main(["dream", str(workspace.root)])


@contextlib.contextmanager
def configured(folder: Path) -> Iterator[None]:
    """Use no configuration of whoever runs this, and no ceiling: a year of dreams is one day here."""
    os.environ["XDG_CONFIG_HOME"] = str(folder / "no-config")
    os.environ["OPENAI_API_KEY"] = "sk-of-a-benchmark"
    for name in [name for name in os.environ if name.startswith("DREAMD_")]:
        del os.environ[name]
    for name in ("TOKENS_PER_DAY", "TOKENS_PER_DREAM"):
        os.environ[f"DREAMD_LIMITS__{name}"] = "1000000000"
    yield


def run(folder: Path, rounds: int, seed: int) -> None:
    """Plant, dream, print."""
    from tests.support.gallery import KINDS, living, name_of
    from tests.support.planted import LINES, planted, whereabouts
    from tests.support.scripted_model import ScriptedModel

    rng = random.Random(seed)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        workspace = planted(folder / "agent")
    facts = [*LINES, *living.by_hand(workspace)]
    kept = len(facts)
    rows = {name: Row() for name in ("good", *map(name_of, KINDS))}
    lost, standing, began = set[str](), set[str](), time.perf_counter()
    turn = living.Turn(living.order(KINDS, rounds, rng))
    with ScriptedModel(turn) as server:
        os.environ |= {"DREAMD_MODEL__NAME": "openai/scripted", "DREAMD_MODEL__API_BASE": server.url}
        for one in living.live(workspace, turn, lambda: dreamt(workspace), facts, rng):
            places = whereabouts(workspace, facts)
            now_lost = {fact for fact, place in places.items() if not place}
            now_standing = {fact for fact, place in places.items() if place == "line"}
            rows[one.kind].add(one, len(now_lost - lost), len(standing - now_standing))
            lost, standing = now_lost, now_standing
    heads = f"{'kept':>4} {'rej.':>4} {'fail':>4} {'calls':>6} {'tokens':>10} {'applied':>7} {'lost':>4} {'gone':>4}"
    print(f"{'kind':28} {heads}  refused, by guard")
    for name, row in rows.items():
        print(f"{name:28} {row}")
    total = Row()
    for row in rows.values():
        for counter, more in ((total.outcomes, row.outcomes), (total.refused, row.refused)):
            counter.update(more)
        total.calls, total.tokens, total.applied = (
            total.calls + row.calls,
            total.tokens + row.tokens,
            total.applied + row.applied,
        )
        total.lost, total.gone = total.lost + row.lost, total.gone + row.gone
    print(f"{'all':28} {total}")
    found = Counter(whereabouts(workspace, facts).values())
    where = ", ".join(f"{found[name]} {how}" for name, how in WHERE.items())
    print(f"\n{len(KINDS)} kinds, {total.outcomes.total()} dreams, seed {seed}, {time.perf_counter() - began:.0f} s")
    print(f"{len(facts)} facts ({len(LINES)} planted, {kept - len(LINES)} by hand, the others noted): {where}")


WHERE = {
    "line": "in MEMORY.md",
    "pointer": "behind a pointer",
    "search": "found by search",
    "": "lost",
}


def false_rejections() -> None:
    """Print how many honest updates the checks refuse."""
    from graphs import talk
    from graphs.checks import OF_MODEL
    from tests.graphs.honest import HONEST

    operations = refused = 0
    for honest in HONEST:
        sheet = talk.begun(honest.snapshot)
        sheet.play(honest.operations, OF_MODEL, by_model=True)
        operations += len(honest.operations)
        for one in sheet.refused:
            refused += 1
            print(f"   refused: {one.guard}: {one.figures}")
    print(f"false rejections: {refused} of {operations} operations in {len(HONEST)} honest updates")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=2, help="dreams of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="a new folder to leave the workspace in")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dreamd-bad-models-") as scratch:
        folder = given.folder or Path(scratch)
        with configured(folder):
            run(folder, given.rounds, given.seed)
    false_rejections()


if __name__ == "__main__":
    main()
