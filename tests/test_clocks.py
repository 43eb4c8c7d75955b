"""A wrong clock of a process is wrong for all that asks it, and for nothing else."""

import json
import os
import pickle
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.clocks import CLOCK, Clock, follow
from tests.support.forked import ROOT, Forked

HOUR = 3600.0


def tell() -> None:
    """In a process of the test: what the time is, whenever a line comes."""
    for _ in sys.stdin:
        now = datetime.now(UTC)
        assert type(now) is datetime
        assert pickle.loads(pickle.dumps(now)) == now  # noqa: S301
        times = [now.timestamp(), datetime.now().timestamp(), time.time(), time.time_ns() / 1e9]
        times += [datetime.now(UTC).replace(tzinfo=None).replace(tzinfo=UTC).timestamp()]
        assert date.today() == datetime.now().date()  # noqa: DTZ011
        assert time.gmtime(0).tm_year == 1970
        times.append(datetime(*time.gmtime()[:6], tzinfo=UTC).timestamp())
        print(json.dumps([*times, time.monotonic()]), flush=True)


def asked(process: "subprocess.Popen[bytes]") -> tuple[list[float], float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    *times, monotonic = json.loads(process.stdout.readline())
    return times, monotonic


@pytest.mark.parametrize("kind", ["forked", "interpreter"])
def test_a_clock_is_wrong_and_jumps(kind: str, tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock", HOUR)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
    process: subprocess.Popen[bytes]
    if kind == "forked":
        process = Forked([str(clock.before[1][0])], before=(f"{__name__}:tell_wrong", clock.before[1]), **pipes)
    else:
        program = "import sys; sys.path.insert(0, '.'); from tests.test_clocks import tell; tell()"
        process = subprocess.Popen([sys.executable, "-c", program], env=os.environ | clock.environment, **pipes)
    with process:
        for seconds in (HOUR, -HOUR, 0.0):
            clock.set(seconds)
            before, began = time.time(), time.monotonic()
            times, monotonic = asked(process)
            took = timedelta(seconds=time.time() - before + 2).total_seconds()
            assert all(abs(one - before - seconds) <= took for one in times), (times, before)
            assert began <= monotonic <= time.monotonic()
        process.kill()


def tell_wrong(path: str) -> None:
    follow(path)
    tell()


def test_whoever_runs_the_tests_has_a_true_clock() -> None:
    assert CLOCK not in os.environ
    assert abs(datetime.now(UTC).timestamp() - time.clock_gettime(time.CLOCK_REALTIME)) < HOUR / 2
