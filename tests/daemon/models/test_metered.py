"""Ceilings before a call, the record after it, and no call twice."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from daemon.models.litellm_model import LitellmModel
from daemon.models.metered import Call, Metered, digest
from graphs.ports import Answer
from state.budget import Limits, Spend
from state.errors import CeilingError
from tests.support.conversing import ASKING, REQUEST, SCHEMA, Serve, model_at, never, refusal, retried, saying
from tests.support.scripted_model import SCRIPTS, Reply, error, in_turn

pytestmark = pytest.mark.usefixtures("only_loopback")


@dataclass
class Ledger:
    """What a workspace's ledger does for a dream: keeps calls, finds usable ones again."""

    calls: list[Call] = field(default_factory=list)

    def replay(self, key: str) -> Answer | None:
        return next((call.answer for call in self.calls if call.usable and call.digest == key), None)

    def today(self) -> Spend:
        return sum((call.spend for call in self.calls), Spend())

    def meter(self, model: LitellmModel, limits: Limits = Limits(), **more: Any) -> Metered:  # noqa: B008
        return Metered(model, limits, record=self.calls.append, replay=self.replay, today=self.today, **more)


def test_an_answer_is_recorded_before_it_is_returned_and_never_paid_twice(serve: Serve) -> None:
    server, ledger = serve(SCRIPTS["hello"]), Ledger()

    def killed_after(call: Call) -> None:
        ledger.calls.append(call)
        raise KeyboardInterrupt

    first = Metered(model_at(server), Limits(), record=killed_after, replay=ledger.replay, today=ledger.today)
    with pytest.raises(KeyboardInterrupt):
        first.ask(REQUEST)
    resumed = ledger.meter(model_at(server), before=ledger.today())
    assert resumed.ask(REQUEST) == ledger.calls[0].answer
    assert resumed.spent == ledger.calls[0].spend
    assert server.count == 1


def test_a_digest_tells_requests_apart_and_nothing_else() -> None:
    asked = [
        REQUEST,
        replace(REQUEST, messages=(("system", "x"), *REQUEST.messages[1:])),
        saying("x"),
        ASKING,
        replace(ASKING, schema_name="x"),
    ]
    assert len({digest("m", request) for request in asked} | {digest("n", REQUEST)}) == 6
    turned = replace(ASKING, schema=dict(reversed(SCHEMA.items())))
    assert digest("m", ASKING) == digest("m", turned)


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("calls_per_dream", Limits(calls_per_dream=0)),
        ("tokens_per_dream", Limits(tokens_per_dream=400)),
        ("tokens_per_day", Limits(tokens_per_day=400)),
        ("usd_per_dream", Limits(usd_per_dream=0.0001)),
        ("usd_per_day", Limits(usd_per_day=0.0001)),
    ],
)
def test_a_call_that_could_pass_a_ceiling_never_reaches_the_server(serve: Serve, name: str, limits: Limits) -> None:
    server, ledger = serve(SCRIPTS["hello"]), Ledger()
    with pytest.raises(CeilingError, match=f"limits.{name}"):
        ledger.meter(model_at(server, "openai/gpt-4o-mini"), limits).ask(REQUEST)
    assert server.count == 0
    assert ledger.calls == []


def test_a_recorded_answer_is_free_even_past_the_ceiling_and_what_was_spent_before_counts(serve: Serve) -> None:
    server, ledger = serve(SCRIPTS["hello"]), Ledger()
    meter = ledger.meter(model_at(server), Limits(calls_per_dream=1))
    assert meter.ask(REQUEST) == meter.ask(REQUEST)
    for more in (meter, ledger.meter(model_at(server), before=Spend(calls=5))):
        with pytest.raises(CeilingError, match="calls_per_dream"):
            more.ask(saying("more"))
    assert server.count == 1


def test_a_dream_that_took_too_long_asks_no_more(serve: Serve) -> None:
    server, ledger, time = serve(SCRIPTS["hello"]), Ledger(), [100.0]
    meter = ledger.meter(model_at(server), clock=lambda: time[0])
    time[0] += 900
    meter.ask(REQUEST)
    time[0] += 1
    with pytest.raises(CeilingError, match="wall_seconds_per_dream"):
        meter.ask(saying("more"))


def test_retries_count_only_where_the_provider_may_have_charged(serve: Serve) -> None:
    late = Reply(content="late", wait_seconds=3600)
    server, ledger = serve(in_turn(error(500), error(429), Reply(reset=True), late, "hello")), Ledger()
    meter = ledger.meter(model_at(server, seconds=0.5), tries=5, sleep=lambda _: None)
    answer = meter.ask(REQUEST)
    assert server.count == 5
    assert [call.usable for call in ledger.calls] == [False, True]
    assert ledger.calls[0].answer.estimated
    assert ledger.calls[1].answer == answer
    assert meter.spent.calls == 2


def test_retries_stop_at_the_ceiling(serve: Serve) -> None:
    server, ledger = serve(SCRIPTS["slow"]), Ledger()
    meter = ledger.meter(model_at(server, seconds=0.3), Limits(calls_per_dream=2), sleep=lambda _: None)
    with pytest.raises(CeilingError):
        meter.ask(REQUEST)
    assert server.count == 2


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [
        ("7", 7, 7),
        (lambda: format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True), 30, 60),
        *[(said, 1, 2) for said in ("soon", "", "-5")],
    ],
)
def test_a_rate_limit_is_waited_for_as_long_as_asked_else_backed_off_from(
    serve: Serve, asked: Any, least: float, most: float
) -> None:
    said = asked() if callable(asked) else asked
    server = serve(in_turn(error(429, headers={"Retry-After": said}), "hello"))
    waits: list[float] = []
    assert retried(model_at(server), sleep=waits.append).ask(REQUEST).text == "hello"
    assert least <= waits[0] <= most
    assert server.count == 2


@pytest.mark.parametrize("ill", [error(500), error(429), Reply(reset=True), Reply(wait_seconds=3600)])
def test_waits_grow_and_tries_are_bounded(serve: Serve, ill: Reply) -> None:
    server = serve(in_turn(ill))
    waits: list[float] = []
    passing = refusal(retried(model_at(server, seconds=0.3), sleep=waits.append))
    assert "tries: 4" in str(passing)
    assert server.count == 4
    assert [low <= wait <= low + 1 for low, wait in zip((1, 2, 4), waits, strict=True)] == [True] * 3


def test_waits_that_are_too_long_together_are_not_begun(serve: Serve) -> None:
    server = serve(in_turn(error(429, headers={"Retry-After": "3600"}), "hello"))
    assert "wait 3600 s" in str(refusal(retried(model_at(server), sleep=never)))
    assert server.count == 1
    server, waits = serve(in_turn(error(429, headers={"Retry-After": "6"}))), list[float]()
    refusal(retried(model_at(server), tries=100, total_seconds=20, sleep=waits.append))
    assert (waits, server.count) == ([6.0, 6.0, 6.0], 4)
