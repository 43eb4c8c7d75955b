"""Which failures are tried again, after which wait, how often."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.support.conversing import REQUEST, Serve, model_at, never, refusal, retried
from tests.support.scripted_model import Reply, error, in_turn

pytestmark = pytest.mark.usefixtures("only_loopback")


def test_a_rate_limit_is_waited_for_as_long_as_asked(serve: Serve) -> None:
    server = serve(in_turn(error(429, headers={"Retry-After": "7"}), "hello"))
    waits: list[float] = []
    assert retried(model_at(server), sleep=waits.append).ask(REQUEST).text == "hello"
    assert waits == [7.0]
    assert server.count == 2


def test_a_rate_limit_may_name_a_time_of_day(serve: Serve) -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    server = serve(in_turn(error(429, headers={"Retry-After": then}), "hello"))
    waits: list[float] = []
    retried(model_at(server), sleep=waits.append).ask(REQUEST)
    assert 30 < waits[0] <= 60


@pytest.mark.parametrize("said", ["soon", "", "-5"])
def test_a_rate_limit_without_a_readable_time_is_backed_off_from(serve: Serve, said: str) -> None:
    server = serve(in_turn(error(429, headers={"Retry-After": said}), "hello"))
    waits: list[float] = []
    retried(model_at(server), sleep=waits.append).ask(REQUEST)
    assert 1 <= waits[0] <= 2


@pytest.mark.parametrize("ill", [error(500), error(429), Reply(reset=True), Reply(wait_seconds=3600)])
def test_waits_grow_and_tries_are_bounded(serve: Serve, ill: Reply) -> None:
    server = serve(in_turn(ill))
    waits: list[float] = []
    passing = refusal(retried(model_at(server, seconds=0.3), sleep=waits.append))
    assert "tries: 4" in str(passing)
    assert server.count == 4
    assert [low <= wait <= low + 1 for low, wait in zip((1, 2, 4), waits, strict=True)] == [True] * 3


def test_a_wait_that_is_too_long_is_not_begun(serve: Serve) -> None:
    server = serve(in_turn(error(429, headers={"Retry-After": "3600"}), "hello"))
    assert "wait 3600 s" in str(refusal(retried(model_at(server), sleep=never)))
    assert server.count == 1


def test_all_waits_together_are_bounded(serve: Serve) -> None:
    server = serve(in_turn(error(429, headers={"Retry-After": "6"})))
    waits: list[float] = []
    refusal(retried(model_at(server), tries=100, total_seconds=20, sleep=waits.append))
    assert waits == [6.0, 6.0, 6.0]
    assert server.count == 4
