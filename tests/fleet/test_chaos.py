"""A short storm over a fleet within the ordinary tests. `make chaos-fleet` is longer, with a new seed each time.

DREAMD_CHAOS_SEED is another seed ("" for a new one); it is shown when something was found. What the seed draws is the
same each time, the moments in which processes meet are not.
"""

import os
import secrets

import pytest

from tests.fleet.running import Plan, report, run

_SEED = int(os.environ.get("DREAMD_CHAOS_SEED", "2026") or secrets.randbelow(10**6))


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_storm_loses_nothing_and_doubles_nothing() -> None:
    ran = run(Plan(_SEED, 30.0, "s3", workspaces=200, every=1.5))

    assert ran.findings == [], report(ran)
    assert ran.seen.notes == ran.notes > 0
    assert len(ran.dealt) >= 8, report(ran)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_rolling_restart_under_traffic_loses_nothing_and_doubles_nothing() -> None:
    ran = run(Plan(_SEED, 20.0, "folder", workspaces=60, every=0, rolling=True))

    assert ran.findings == [], report(ran)
    assert ran.seen.notes == ran.notes > 0
