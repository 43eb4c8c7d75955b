"""A short chaos within `make test-rest`: every ordeal once. `make chaos` is longer, with a new seed each time.

DREAMD_CHAOS_SEED is another seed ("" for a new one); it is shown when something was lost, with the command that
repeats the run. What the seed draws is the same each time, the moments in which processes meet are not.
"""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.running import ORDEALS, WORDS_ALONE, plant, run
from tests.support.long_variants import variants
from tests.support.running import ROOT

SEED = int(os.environ.get("DREAMD_CHAOS_SEED", "1") or secrets.randbelow(10**8))
OFTEN = {"mixture": (60, 600), "served": (3, 120), "writers": (24, 120)}
CASES = [pytest.param(kind, OFTEN.get(kind, (1, 1))[0], id=kind) for kind in ORDEALS]
CASES += [
    pytest.param(kind, *row.values, id=f"{kind}-long", marks=row.marks)
    for kind, wanted in OFTEN.items()
    for row in variants(*wanted)[1:]
]


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("chaos"))


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("kind", "wanted"), CASES)
def test_an_ordeal_loses_and_doubles_nothing(
    origin: Path, monkeypatch: pytest.MonkeyPatch, kind: str, wanted: int
) -> None:
    """Run this ordeal until so much was killed or failed; what is to be killed may end before, on a busy machine."""
    for name, value in WORDS_ALONE.items():
        monkeypatch.setenv(name, value)
    broken = 0
    for number in range(4 * wanted):
        ran = run(SEED, number, kind, origin)
        assert not ran.lost, ran.told(SEED)
        assert ran.tally.lives > 0  # somebody was there to be hurt
        broken += ran.tally.kills + ran.tally.faults
        if broken >= wanted:
            return
    raise AssertionError(f"{broken} kills and faults of {wanted}")


@pytest.mark.full
def test_the_command_tells_what_was_tried() -> None:
    words = [sys.executable, "-m", "tests.chaos", "--runs", "1", "--only", "nodes", "--seed", "1"]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, check=False, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "\nnodes          1 runs " in ran.stdout
    assert ran.stdout.endswith("seed 1: 1 runs, 0 in which something was lost\n")
