"""One run: a fleet, its traffic, a storm, and the audit of what is left."""

import argparse
import random
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tests.fleet.audit import Seen, audit, watch
from tests.fleet.blows import Storm, drawn, judge
from tests.fleet.ledger import Ledger
from tests.fleet.machines import Ending, Fleet, Machine, StoreKind
from tests.fleet.traffic import Traffic
from tests.support import forked
from tests.support.folders import PLACE

_HOUR = 3_600.0
_REST_SECONDS = 400.0
_LATE_SECONDS = 90.0
_TOLD_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is. `every`: seconds between blows; 0: none."""

    seed: int
    seconds: float = 40.0
    store: StoreKind = "folder"
    workspaces: int = 500
    tenants: int = 5
    machines: int = 4
    agents: int = 24
    per_second: float = 25.0
    every: float = 2.0
    rolling: bool = False
    model_seconds: float = 2.0


@dataclass(slots=True)
class Ran:
    """What came of it."""

    plan: Plan
    seen: Seen
    notes: int
    findings: list[str]
    dealt: list[str]
    endings: list[Ending]
    answers: list[str]
    rest_seconds: float
    kept: str = ""


def run(plan: Plan, tell: Callable[[str], None] = lambda _: None) -> Ran:
    """One run. Nothing of it is left but, when something was found, the logs of the machines."""
    rng = random.Random(f"{plan.seed} fleet")
    apart = [rng.uniform(-3, 3) * _HOUR for _ in range(plan.machines)] if plan.every else [0.0]
    blows = drawn(rng, plan.seconds, plan.every) if plan.every else []
    with forked.server(), Fleet(plan.store, plan.machines, apart, model_seconds=plan.model_seconds) as fleet:
        watch(fleet.tables.database)
        fleet.settle(plan.workspaces, plan.tenants)
        fleet.start()
        tell("the fleet runs")
        ledger = Ledger(fleet.folder / "acknowledged")
        traffic = Traffic(
            ledger,
            fleet.known,
            fleet.machines,
            random.Random(rng.random()),
            agents=plan.agents,
            per_second=plan.per_second,
            seconds=plan.seconds,
            patience=_LATE_SECONDS,
        )
        storm = Storm(fleet, blows, ledger)
        traffic.start()
        storm.start()
        if plan.rolling:
            storm.endings += roll(fleet, ledger)
        storm.join()
        fleet.heal()
        tell(f"the storm is over: {ledger.notes} notes are acknowledged")
        if not traffic.join(_LATE_SECONDS + 60):
            ledger.found("agents are still waiting for an answer")
        rested = _rest(fleet, ledger, tell)
        tell(f"at rest after {rested:.0f} s")
        for ending in _end(fleet):
            storm.endings.append(judge(ending, ledger))
        seen = audit(fleet, ledger)
        ledger.close()
        answers = [f"{what}: {count}" for what, count in sorted(ledger.answers.items())]
        kept = _keep(fleet) if ledger.findings else ""
        return Ran(plan, seen, ledger.notes, ledger.findings, storm.dealt, storm.endings, answers, rested, kept)


def roll(fleet: Fleet, ledger: Ledger) -> list[Ending]:
    """Every process in turn is asked to end, and started again; the next one when it runs."""
    endings = []
    for machine in fleet.machines:
        endings.append(judge(machine.end(), ledger))
        machine.start()
        machine.wait_until_started()
    return endings


def _rest(fleet: Fleet, ledger: Ledger, tell: Callable[[str], None]) -> float:
    """Wait until every inbox is taken and no job waits or runs; how long that took."""
    began = told = time.monotonic()
    while (left := fleet.is_at_rest()) != (0, 0):
        waits = f"{left[0]} rows wait in inboxes, {left[1]} workspaces have jobs"
        if time.monotonic() - began > _REST_SECONDS:
            ledger.found(f"no rest: {waits}")
            break
        if time.monotonic() - told > _TOLD_SECONDS:
            told = time.monotonic()
            tell(waits)
        time.sleep(0.5)
    return time.monotonic() - began


def _end(fleet: Fleet) -> list[Ending]:
    """All are asked to end at once."""
    with ThreadPoolExecutor(len(fleet.machines)) as pool:
        return list(pool.map(Machine.end, fleet.machines))


def _keep(fleet: Fleet) -> str:
    """The logs of the machines, the ledger, and PostgreSQL's record of commits, in a folder for whoever looks."""
    folder = Path(PLACE) / f"dreamd-fleet-kept-{secrets.token_hex(3)}"
    folder.mkdir()
    for machine in fleet.machines:
        shutil.copy(machine.said, folder / machine.name)
    shutil.copy(fleet.folder / "acknowledged", folder)
    rows = fleet.tables.database.rows("SELECT * FROM watched ORDER BY workspace, seq")
    (folder / "watched").write_text("".join(f"{dict(row)}\n" for row in rows), encoding="utf-8")
    return str(folder)


def report(ran: Ran) -> str:
    """What befell the fleet, what was looked at, what was found."""
    seen, plan = ran.seen, ran.plan
    slowest = max((one.seconds for one in ran.endings), default=0.0)
    lines = [
        (
            f"seed {plan.seed}, {plan.seconds:.0f} s, store {plan.store}, {plan.workspaces} workspaces,"
            f" {plan.machines} machines"
        ),
        *(f"  {one}" for one in ran.dealt),
        (
            f"{len(ran.dealt)} blows; {ran.notes} notes acknowledged; {seen.notes} found, {seen.pending} pending;"
            f" {seen.workspaces} workspaces brought up; {seen.versions} versions; {seen.restores} acknowledged as"
            f" brought back; {seen.commits} commits by {seen.leases} leases; at rest after {ran.rest_seconds:.0f} s;"
            f" the slowest end {slowest:.1f} s"
        ),
        "answers: " + ", ".join(ran.answers),
    ]
    lines += [f"FOUND: {one}" for one in ran.findings[:40]]
    if len(ran.findings) > 40:
        lines.append(f"and {len(ran.findings) - 40} more")
    if ran.kept:
        lines.append(f"kept in {ran.kept}")
    return "\n".join([*lines, f"seed {plan.seed}: {len(ran.findings)} findings"])


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when nothing was found, else 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # nothing is left of a run that is stopped
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description="Break a fleet on purpose.")
    parser.add_argument("--minutes", type=float, default=0.0, help="run after run, none begun after so long")
    parser.add_argument("--seed", type=int, default=None, help="of all chance (else a new one, which is printed)")
    parser.add_argument("--store", choices=["folder", "s3"], default=None, help="else each in turn")
    for one in fields(Plan)[1:]:
        if one.name != "store":
            kind: dict[str, Any] = {"action": "store_true"} if one.default is False else {"type": type(one.default)}
            parser.add_argument(f"--{one.name.replace('_', '-')}", default=one.default, **kind)
    options = vars(parser.parse_args(arguments))
    minutes, seed, store = (options.pop(name) for name in ("minutes", "seed", "store"))
    seed = secrets.randbelow(10**6) if seed is None else seed
    deadline = time.monotonic() + 60 * minutes
    found = runs = 0
    while not runs or time.monotonic() < deadline:
        plan = Plan(seed + runs, store=store or ("folder", "s3")[runs % 2], **options)
        print(f"seed {plan.seed}, store {plan.store}", flush=True)
        ran = run(plan, lambda line: print(f"  {line}", flush=True))
        print(report(ran), flush=True)
        found += len(ran.findings)
        runs += 1
    print(f"{runs} runs, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
