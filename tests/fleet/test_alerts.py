"""Each alert of the rules file fires when what it is for happens to real processes, and none while all is well."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.daemon.fleet.running import OPERATOR, Door
from tests.fleet.machines import Fleet, Machine
from tests.support.running import ROOT
from tests.support.serving import until

RULES = ROOT / "deploy/fleet/alerts.yaml"
PROMTOOL = shutil.which("promtool")
ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
pytestmark = [
    pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here; Debian's package prometheus has it"),
    pytest.mark.full,
    pytest.mark.timeout(300),
]


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """Two processes that reach PostgreSQL and an object store through doors."""
    with Fleet("s3", 2, settings={"DREAMD_TOKEN": OPERATOR}) as fleet:
        fleet.settle(1, 1)
        fleet.start()
        yield fleet


def figures(fleet: Fleet) -> dict[str, str]:
    """What Prometheus gets of each process, by its name; nothing of a dead one."""
    return {one.name: scraped(one) for one in fleet.machines if one.lives}


def scraped(machine: Machine) -> str:
    answer = Door(machine.port).ask(OPERATOR, "GET", "/metrics")
    assert answer.status == 200
    return answer.body.decode()


def firing(figures: dict[str, str], folder: Path) -> set[str]:
    """Return the alerts that fire when all this stays so for ten minutes."""
    series = [
        {"series": _labelled(sample, f'instance="{instance}", job="dreamd-fleet"'), "values": f"{value}+0x10"}
        for instance, text in figures.items()
        for sample, _, value in (line.rpartition(" ") for line in text.splitlines())
        if sample.startswith("dreamd_fleet_")
    ]
    asked = {"expr": 'group by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "9m", "exp_samples": []}
    tests = [{"input_series": series, "interval": "1m", "promql_expr_test": [asked]}]
    file = folder / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([str(PROMTOOL), "test", "rules", file], capture_output=True, text=True, check=False)
    _, got, found = (done.stdout + done.stderr).partition("got: ")
    assert got or done.returncode == 0, done.stderr
    return set(re.findall(r'alertname="(\w+)"', found))


def _labelled(sample: str, labels: str) -> str:
    name, brace, own = sample.partition("{")
    return f"{name}{{{labels}, {own}" if brace else f"{name}{{{labels}}}"


def becomes(fleet: Fleet, figure: str) -> None:
    """Wait until each process says this of itself, or of the fleet."""
    until(lambda: all(f"{figure}\n" in text for text in figures(fleet).values()), lambda: figures(fleet))


def test_every_alert_fires_for_what_it_is_for_and_no_other_does(fleet: Fleet, tmp_path: Path) -> None:
    seen = set[str]()

    def fires(*alerts: str) -> None:
        assert firing(figures(fleet), tmp_path) == {*alerts}
        seen.update(alerts)

    becomes(fleet, "dreamd_fleet_processes_alive 2.0")
    fires()
    for machine in fleet.machines:
        assert machine.store is not None
        machine.store.refuse()
    becomes(fleet, "dreamd_fleet_store_up 0.0")
    becomes(fleet, 'dreamd_fleet_problems{kind="process"} 2.0')
    fires("DreamdFleetStoreUnavailable", "DreamdFleetProblem")
    fleet.heal()
    becomes(fleet, 'dreamd_fleet_problems{kind="process"} 0.0')
    becomes(fleet, "dreamd_fleet_store_up 1.0")
    fires()
    for machine in fleet.machines:
        machine.database.refuse()
    becomes(fleet, "dreamd_fleet_up 0.0")
    fires("DreamdFleetDatabaseUnreachable")
    fleet.heal()
    becomes(fleet, "dreamd_fleet_up 1.0")
    fleet.tables.leases.settle_failed(fleet.known[0].id, "the model said no")
    becomes(fleet, 'dreamd_fleet_problems{kind="failing"} 1.0')
    fires("DreamdFleetProblem")
    fleet.tables.leases.settle(fleet.known[0].id, None)
    for _ in range(3):
        fleet.machines[0].kill()
        fleet.machines[0].start()
        fleet.machines[0].wait_until_started()
    becomes(fleet, "dreamd_fleet_processes_died 3.0")
    becomes(fleet, 'dreamd_fleet_problems{kind="failing"} 0.0')
    fires("DreamdFleetProcessesDie")
    for machine in fleet.machines:
        machine.kill()
    fires("DreamdFleetDown")
    assert seen == {*ALERTS}
