"""A short chaos within the ordinary tests: every ordeal once. `make chaos` is longer, with a new seed each time.

DREAMD_CHAOS_SEED is another seed ("" for a new one); it is shown when something was lost, with the command that
repeats the run. What the seed draws is the same each time, the moments in which processes meet are not.
"""

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.ordeals import ORDEALS
from tests.chaos.running import again, plant, run, words_alone
from tests.support.running import ROOT


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("chaos"))


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ORDEALS)
def test_an_ordeal_loses_nothing(origin: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    seed = int(os.environ.get("DREAMD_CHAOS_SEED", "1") or secrets.randbelow(10**8))
    for name, value in words_alone().items():
        monkeypatch.setenv(name, value)
    for number in range(4):  # what is to be killed may have ended before, on a busy machine
        ran = run(seed, number, kind, origin)
        assert not ran.lost, "\n".join([ran.lost, again(seed, ran), *ran.diary])
        if ran.tally.kills + ran.tally.faults:
            break
    # It broke something, and somebody was there to be hurt.
    assert ran.tally.kills + ran.tally.faults > 0, ran
    assert ran.tally.lives > 0


@pytest.mark.full
def test_the_command_tells_what_was_tried() -> None:
    words = [sys.executable, "-m", "tests.chaos", "--runs", "1", "--only", "commands", "--seed", "1"]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, check=False, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = dict(re.findall(r"^(\S+) +(\d+) ", ran.stdout, re.MULTILINE))
    assert rows == {"commands": "1", "all": "1"}
    assert ran.stdout.endswith("seed 1: 1 runs, 0 in which something was lost\n")
