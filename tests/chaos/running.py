"""Every ordeal by its name; runs of them, one after the other or several at once, and what came of them."""

import argparse
import multiprocessing
import os
import random
import secrets
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from daemon.workspace.adoption import init_workspace
from tests.chaos import crowds, disks, mixture, moments, owners, spoilt
from tests.chaos.invariants import check
from tests.chaos.trial import WORDS_ONLY, LostError, Tally, Trial, prepared
from tests.support import forked
from tests.support.folders import PLACE
from tests.support.planted import LINES

# One after the other: the quick and the slow ones in turn.
ORDEALS: dict[str, Callable[[Trial], None]] = {
    "nodes": moments.at_nodes,
    "mixture": mixture.mixture,
    "served": owners.served,
    "full": disks.full,
    "models": moments.models,
    "mcp": crowds.over_mcp,
    "read-only": disks.read_only,
    "spoilt": spoilt.spoilt,
    "writers": crowds.writers,
    "two": owners.two,
}
# What comes in turn: each once, and the one of everything as often as all others together.
TURNS = (*ORDEALS, "served", *["mixture"] * 12)
FACTS = LINES[:40]
DEFAULT_RUNS = 1_000
_NOBODYS = {"XDG_CONFIG_HOME": "/nonexistent", "XDG_RUNTIME_DIR": "/nonexistent"}
# What is searched in a run is searched by words, and nothing is of who runs it.
WORDS_ALONE = {**_NOBODYS, **WORDS_ONLY}


@dataclass(frozen=True, slots=True)
class Ran:
    """One run. `lost` says what; empty: nothing. `folder` is kept then."""

    kind: str
    number: int
    tally: Tally
    diary: tuple[str, ...] = ()
    lost: str = ""
    folder: str = ""

    def told(self, seed: int) -> str:
        """What happened, and how it is repeated."""
        again = f"again: python -m tests.chaos --seed {seed} --run {self.number} --only {self.kind}"
        return "\n".join(
            [f"{self.lost}, kept in {self.folder}" if self.lost else "nothing was lost", *self.diary, again]
        )


def run(seed: int, number: int, kind: str, origin: Path) -> Ran:
    """One run, in a folder of its own whose path is short: a socket's must be."""
    rng = random.Random(f"{seed} {number} {kind}")
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=PLACE))
    trial, lost = prepared(origin, folder, rng, FACTS), ""
    try:
        ORDEALS[kind](trial)
        check(trial)
        shutil.rmtree(folder)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown with the diary of the run
        how = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        lost = f"{type(error).__name__}: {how}"
    return Ran(kind, number, trial.tally, tuple(trial.diary), lost, str(folder))


def plant(folder: Path) -> Path:
    """The workspace that every run begins with: two versions, forty facts, some of them behind pointers."""
    workspace = init_workspace(folder / "agent")
    for part, window in ((FACTS[:20], "200000"), (FACTS[20:], "8000")):
        with workspace.scratch.open("a", encoding="utf-8") as log:
            log.writelines(f"- {line}\n" for line in part)
        workspace.scratch.chmod(0o600)
        environment = {**os.environ, **_NOBODYS, "DREAMD_DREAM__CONTEXT_WINDOW": window}
        ended = forked.run(["dream", workspace.root], environment=environment)
        if ended.returncode:
            raise LostError(ended.stderr.decode())
    return workspace.root


def _begin() -> None:
    forked.die_with_parent()
    os.environ.update(WORDS_ALONE)


def runs(seed: int, numbers: Iterable[int], kinds: Sequence[str], jobs: int, deadline: float) -> Iterator[Ran]:
    """So many at a time, as they end."""
    spawning = multiprocessing.get_context("spawn")
    with forked.server(), tempfile.TemporaryDirectory(prefix="chaos-origin-", dir=PLACE) as home:
        origin, going, waiting = plant(Path(home)), set[Future[Ran]](), iter(numbers)
        with ProcessPoolExecutor(jobs, mp_context=spawning, initializer=_begin) as pool:
            while True:
                while len(going) < jobs and time.monotonic() < deadline:
                    if (number := next(waiting, None)) is None:
                        break
                    going.add(pool.submit(run, seed, number, kinds[number % len(kinds)], origin))
                if not going:
                    return
                done, going = wait(going, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them, and print each that lost something; 0 when nothing was lost, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Break dreamd on purpose.")
    parser.add_argument("--seed", type=int, default=None, help="of all chance (else a new one, which is printed)")
    parser.add_argument("--minutes", type=float, default=None, help="begin no run after so long")
    parser.add_argument("--runs", type=int, default=None, help=f"so many ({DEFAULT_RUNS}; with --minutes: no limit)")
    parser.add_argument("--only", choices=sorted(ORDEALS), action="append", help="these ordeals alone")
    parser.add_argument("--run", type=int, default=None, help="the one run of this number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at once")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(10**8)
    most = options.runs or (10**9 if options.minutes else DEFAULT_RUNS)
    numbers = [options.run] if options.run is not None else range(most)
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    print(f"seed {seed}; one run again: python -m tests.chaos --seed {seed} --run K --only KIND", flush=True)
    ran: list[Ran] = []
    for one in runs(seed, numbers, options.only or TURNS, max(1, options.jobs), deadline):
        ran.append(one)
        if one.lost or options.run is not None:
            print(f"{'LOST in' if one.lost else ''} run {one.number} ({one.kind}): {one.told(seed)}\n", flush=True)
    for kind in dict.fromkeys(one.kind for one in ran):
        mine = [one for one in ran if one.kind == kind]
        kills, faults = (sum(getattr(one.tally, name) for one in mine) for name in ("kills", "faults"))
        lost = sum(bool(one.lost) for one in mine)
        print(f"{kind:<10} {len(mine):>5} runs {kills:>7,} kills {faults:>7,} faults {lost:>4} lost")
    lost = sum(bool(one.lost) for one in ran)
    print(f"seed {seed}: {len(ran)} runs, {lost} in which something was lost")
    return 1 if lost or not ran else 0
