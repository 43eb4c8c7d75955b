"""Runs, one after the other or several at once, and what came of them."""

import argparse
import multiprocessing
import os
import random
import secrets
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, fields
from pathlib import Path

from daemon.workspace.adoption import init_workspace
from tests.chaos.invariants import check
from tests.chaos.ordeals import ORDEALS, TURNS
from tests.chaos.trial import WORDS_ONLY, LostError, Tally, Trial, prepared
from tests.support import forked
from tests.support.folders import PLACE
from tests.support.planted import LINES

FACTS = LINES[:40]

DEFAULT_RUNS = 1_000
_TELL_EVERY = 50
_NOBODYS = {"XDG_CONFIG_HOME": "/nonexistent", "XDG_RUNTIME_DIR": "/nonexistent"}


@dataclass(frozen=True, slots=True)
class Ran:
    """One run. `lost` says what; empty: nothing. `folder` is kept then."""

    kind: str
    number: int
    tally: Tally
    seconds: float
    diary: tuple[str, ...] = ()
    lost: str = ""
    folder: str = ""


def kind_of(number: int, kinds: Sequence[str]) -> str:
    """Which ordeal the run of this number is: one after the other."""
    return kinds[number % len(kinds)]


def run(seed: int, number: int, kind: str, origin: Path) -> Ran:
    """One run, in a folder of its own whose path is short: a socket's must be."""
    began = time.monotonic()
    rng = random.Random(f"{seed} {number} {kind}")
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=PLACE))
    trial: Trial | None = None
    try:
        trial = prepared(origin, folder, rng, FACTS)
        ORDEALS[kind](trial)
        check(trial)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown with the diary of the run
        tally, diary = (trial.tally, tuple(trial.diary)) if trial else (Tally(), ())
        how = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        lost = f"{type(error).__name__}: {how}"
        (folder / "lost").write_text("\n".join([lost, *diary]), encoding="utf-8")
        return Ran(kind, number, tally, time.monotonic() - began, diary, lost, str(folder))
    shutil.rmtree(folder)
    return Ran(kind, number, trial.tally, time.monotonic() - began, tuple(trial.diary))


def plant(folder: Path) -> Path:
    """The workspace that every run begins with: two versions, forty facts, some of them behind pointers."""
    workspace = init_workspace(folder / "agent")
    scratch = workspace.scratch
    for part, window in ((FACTS[:20], "200000"), (FACTS[20:], "8000")):
        with scratch.open("a", encoding="utf-8") as log:
            log.writelines(f"- {line}\n" for line in part)
        scratch.chmod(0o600)
        environment = {**os.environ, **_NOBODYS, "DREAMD_DREAM__CONTEXT_WINDOW": window}
        ended = forked.run(["dream", workspace.root], environment=environment)
        if ended.returncode:
            raise LostError(ended.stderr.decode())
    return workspace.root


def words_alone() -> dict[str, str]:
    """The environment of a run: what is searched in it is searched by words, and nothing is of who runs it."""
    return {**_NOBODYS, **WORDS_ONLY}


def again(seed: int, one: Ran) -> str:
    """How a run is repeated."""
    return f"again: python -m tests.chaos --seed {seed} --run {one.number} --only {one.kind}"


def _begin() -> None:
    """In a worker."""
    forked.die_with_parent()
    os.environ.update(words_alone())


def runs(seed: int, numbers: Iterable[int], kinds: Sequence[str], jobs: int, deadline: float) -> Iterator[Ran]:
    """So many at a time, as they end."""
    spawning = multiprocessing.get_context("spawn")
    with forked.server(), tempfile.TemporaryDirectory(prefix="chaos-origin-", dir=PLACE) as home:
        origin = plant(Path(home))
        with ProcessPoolExecutor(jobs, mp_context=spawning, initializer=_begin) as pool:
            going: set[Future[Ran]] = set()
            waiting = iter(numbers)
            while True:
                while len(going) < jobs and time.monotonic() < deadline:
                    number = next(waiting, None)
                    if number is None:
                        break
                    going.add(pool.submit(run, seed, number, kind_of(number, kinds), origin))
                if not going:
                    return
                done, going = wait(going, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)


def table(ran: Sequence[Ran]) -> str:
    """What was tried, ordeal by ordeal, and what was lost."""
    names = [one.name for one in fields(Tally)]
    rows = [["ordeal", "runs", *(name if name != "acknowledged" else "notes" for name in names), "lost", "s/run"]]
    for kind in [*dict.fromkeys(one.kind for one in ran), "all"]:
        mine = [one for one in ran if kind in (one.kind, "all")]
        sums = Counter({name: sum(getattr(one.tally, name) for one in mine) for name in names})
        seconds = sum(one.seconds for one in mine) / max(1, len(mine))
        lost = sum(bool(one.lost) for one in mine)
        rows.append([kind, str(len(mine)), *(f"{sums[name]:,}" for name in names), str(lost), f"{seconds:.1f}"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            f"{cell:<{width}}" if not n else f"{cell:>{width}}"
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when nothing was lost, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Break dreamd on purpose.")
    parser.add_argument("--seed", type=int, default=None, help="of all chance (else a new one, which is printed)")
    parser.add_argument("--minutes", type=float, default=None, help="begin no run after so long")
    parser.add_argument("--runs", type=int, default=None, help=f"so many ({DEFAULT_RUNS}; with --minutes: no limit)")
    parser.add_argument("--only", choices=sorted(ORDEALS), action="append", help="these ordeals alone")
    parser.add_argument("--run", type=int, default=None, help="the one run of this number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at once")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(10**8)
    kinds = options.only or TURNS
    most = options.runs or (10**9 if options.minutes else DEFAULT_RUNS)
    numbers = [options.run] if options.run is not None else range(most)
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    print(f"seed {seed}; one run again: python -m tests.chaos --seed {seed} --run K --only KIND", flush=True)
    ran: list[Ran] = []
    for one in runs(seed, numbers, kinds, max(1, options.jobs), deadline):
        ran.append(one)
        diary = "".join(f"  {row}\n" for row in one.diary)
        if one.lost:
            print(
                f"\nLOST in run {one.number} ({one.kind}), kept in {one.folder}\n{one.lost}\nwhat happened:\n{diary}"
            )
            print(f"{again(seed, one)}\n", flush=True)
        elif options.run is not None:
            print(f"what happened:\n{diary}")
        if len(ran) % _TELL_EVERY == 0:
            kills, lost = sum(one.tally.kills for one in ran), sum(bool(one.lost) for one in ran)
            print(
                f"{len(ran)} runs, {kills:,} kills, {lost} in which something was lost", file=sys.stderr, flush=True
            )
    print(table(ran))
    lost = sum(bool(one.lost) for one in ran)
    print(f"seed {seed}: {len(ran)} runs, {lost} in which something was lost")
    return 1 if lost or not ran else 0
