"""A short chaos within the ordinary tests: every ordeal once. `make chaos` is longer, with a new seed each time.

DREAMD_CHAOS_SEED is another seed ("" for a new one); it is shown when something was lost, with the command that
repeats the run. What the seed draws is the same each time, the moments in which processes meet are not.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.chaos.ordeals import ORDEALS
from tests.support.running import ROOT


@pytest.mark.timeout(1200)
def test_a_short_chaos_loses_nothing() -> None:
    seed = os.environ.get("DREAMD_CHAOS_SEED", "1")
    words = [sys.executable, "-m", "tests.chaos", "--runs", str(len(ORDEALS)), *(["--seed", seed] if seed else [])]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, check=False, text=True)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # Every ordeal had its run, and broke something in it.
    rows = dict(re.findall(r"^(\S+) +(\d+) ", ran.stdout, re.MULTILINE))
    assert rows == {**dict.fromkeys(ORDEALS, "1"), "all": str(len(ORDEALS))}
    figures = re.search(r"^all +\d+ +([\d,]+) +([\d,]+) +([\d,]+) ", ran.stdout, re.MULTILINE)
    assert figures is not None
    kills, lives, faults = (int(figure.replace(",", "")) for figure in figures.groups())
    assert kills > 5
    assert lives > 50
    assert faults > 5
