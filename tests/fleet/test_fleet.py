"""A quiet fleet: nothing befalls it, and everything is where it must be."""

import pytest

from tests.fleet.machines import DRAIN_SECONDS
from tests.fleet.running import Plan, report, run


@pytest.mark.full
def test_what_a_quiet_fleet_acknowledged_is_there_once() -> None:
    ran = run(Plan(1, 4.0, workspaces=5, tenants=2, machines=2, agents=3, per_second=6.0, every=0, model_seconds=0))

    assert ran.findings == [], report(ran)
    assert ran.notes >= 5, report(ran)
    assert ran.seen.notes == ran.notes
    assert ran.seen.versions > 0
    assert max(one.seconds for one in ran.endings) < DRAIN_SECONDS
