"""A process of a fleet goes by another clock than its machine's, and a slow answer is no wrong clock."""

import time
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from daemon.workspace import stores
from daemon.workspace.stores import follow_clock, utc_now

SECOND = timedelta(seconds=1)


@given(st.timedeltas(timedelta(days=-400), timedelta(days=400)), st.timedeltas(timedelta(0), timedelta(seconds=40)))
def test_the_clock_is_the_other_one_as_far_as_that_is_known(off: timedelta, waited: timedelta) -> None:
    try:
        before = utc_now()
        said = before + off
        change = follow_clock(said, time.monotonic() - waited.total_seconds())
        now = utc_now()
        assert now - waited - 2 * SECOND <= said <= now + SECOND
        assert abs(now - before - change) < SECOND
        if -waited <= off <= timedelta(0):
            assert not change
        assert not follow_clock(said, time.monotonic() - (now - said + 2 * SECOND).total_seconds())
    finally:
        stores._clock.behind = timedelta(0)
