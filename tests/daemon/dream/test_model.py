"""Ceilings before a call, the record after it, and no call twice."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, LimitsSection
from daemon.dream.model import digest
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer, Request
from state.budget import Spend
from state.codec import decode
from state.errors import CeilingError
from state.stores.history.daily_spend import DailySpend
from state.stores.history.ledger import Call, Ledger
from tests.support.conversing import (
    ASKING,
    DREAM,
    REQUEST,
    SCHEMA,
    Serve,
    metered,
    model_at,
    never,
    refusal,
    retried,
    saying,
)
from tests.support.scripted_model import SCRIPTS, Reply, error, in_turn

pytestmark = pytest.mark.usefixtures("only_loopback")


def kept(store: Store) -> list[Any]:
    return store.ledger.calls(DREAM, 100)


def test_an_answer_is_recorded_before_it_is_returned_and_never_paid_twice(serve: Serve, store: Store) -> None:
    server = serve(SCRIPTS["hello"])

    class Killed(Ledger):
        def settle_call(self, number: int, call: Call | None) -> None:
            super().settle_call(number, call)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        metered(model_at(server), Killed(store.connection)).ask(REQUEST)
    (call,) = kept(store)
    assert metered(model_at(server), store.ledger).ask(REQUEST) == decode(Answer, call.reply)
    assert store.ledger.spent(dream=DREAM) == Spend(1, call.tokens, call.usd)
    assert server.count == 1


def test_a_question_during_which_the_process_is_killed_is_charged_in_full_everywhere(store: Store) -> None:
    class Killed:
        name, context_window = "m", 1_000

        def worst_case(self, _: Request) -> Spend:
            return Spend(1, 700, 0.25)

        def ask(self, _: Request) -> Answer:
            raise KeyboardInterrupt

    spent = DailySpend(spent_folder(os.environ))
    before = spent.of(utc_now())
    with pytest.raises(KeyboardInterrupt):
        metered(Killed(), store.ledger).ask(REQUEST)
    assert (store.ledger.spent(dream=DREAM), kept(store)[0].usable) == (Spend(1, 700, 0.25), False)
    assert spent.of(utc_now()).tokens - before.tokens == 700


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
        ("calls_per_dream", LimitsSection(calls_per_dream=0)),
        ("tokens_per_dream", LimitsSection(tokens_per_dream=400)),
        ("tokens_per_day", LimitsSection(tokens_per_day=400)),
        ("usd_per_dream", LimitsSection(usd_per_dream=0.0001)),
        ("usd_per_day", LimitsSection(usd_per_day=0.0001)),
    ],
)
def test_a_call_that_could_pass_a_ceiling_never_reaches_the_server(
    serve: Serve, store: Store, name: str, limits: LimitsSection
) -> None:
    server = serve(SCRIPTS["hello"])
    with pytest.raises(CeilingError, match=f"limits.{name}"):
        metered(model_at(server, "openai/gpt-4o-mini"), store.ledger, Config(limits=limits)).ask(REQUEST)
    assert server.count == 0
    assert kept(store) == []


def test_a_recorded_answer_is_free_even_past_the_ceiling_and_what_was_spent_before_counts(
    serve: Serve, store: Store
) -> None:
    server, config = serve(SCRIPTS["hello"]), Config(limits=LimitsSection(calls_per_dream=1))
    meter = metered(model_at(server), store.ledger, config)
    assert meter.ask(REQUEST) == meter.ask(REQUEST)
    for more in (meter, metered(model_at(server), store.ledger, config)):
        with pytest.raises(CeilingError, match="calls_per_dream"):
            more.ask(saying("more"))
    assert server.count == 1


def test_a_dream_that_took_too_long_asks_no_more(serve: Serve, store: Store) -> None:
    server, time = serve(SCRIPTS["hello"]), [100.0]
    meter = metered(model_at(server), store.ledger, clock=lambda: time[0])
    time[0] += 900
    meter.ask(REQUEST)
    time[0] += 1
    with pytest.raises(CeilingError, match="wall_seconds_per_dream"):
        meter.ask(saying("more"))


def test_retries_count_only_where_the_provider_may_have_charged(serve: Serve, store: Store) -> None:
    late = Reply(content="late", wait_seconds=3600)
    server = serve(in_turn(error(500), error(429), Reply(reset=True), late, "hello"))
    meter = metered(model_at(server, seconds=0.5), store.ledger, tries=5, sleep=lambda _: None)
    answer = meter.ask(REQUEST)
    assert server.count == 5
    lost, usable = kept(store)
    assert (lost.usable, usable.usable) == (False, True)
    assert decode(Answer, lost.reply).estimated
    assert decode(Answer, usable.reply) == answer
    assert store.ledger.spent(dream=DREAM).calls == 2


def test_retries_stop_at_the_ceiling(serve: Serve, store: Store) -> None:
    server, config = serve(SCRIPTS["slow"]), Config(limits=LimitsSection(calls_per_dream=2))
    meter = metered(model_at(server, seconds=0.3), store.ledger, config, sleep=lambda _: None)
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
    serve: Serve, store: Store, asked: Any, least: float, most: float
) -> None:
    said = asked() if callable(asked) else asked
    server = serve(in_turn(error(429, headers={"Retry-After": said}), "hello"))
    waits: list[float] = []
    assert retried(model_at(server), store.ledger, sleep=waits.append).ask(REQUEST).text == "hello"
    assert least <= waits[0] <= most
    assert server.count == 2


@pytest.mark.parametrize("ill", [error(500), error(429), Reply(reset=True), Reply(wait_seconds=3600)])
def test_waits_grow_and_tries_are_bounded(serve: Serve, store: Store, ill: Reply) -> None:
    server = serve(in_turn(ill))
    waits: list[float] = []
    passing = refusal(retried(model_at(server, seconds=0.3), store.ledger, sleep=waits.append))
    assert "tries: 4" in str(passing)
    assert server.count == 4
    assert [low <= wait <= low + 1 for low, wait in zip((1, 2, 4), waits, strict=True)] == [True] * 3


def test_waits_that_are_too_long_together_are_not_begun(serve: Serve, store: Store) -> None:
    server = serve(in_turn(error(429, headers={"Retry-After": "3600"}), "hello"))
    assert "wait 3600 s" in str(refusal(retried(model_at(server), store.ledger, sleep=never)))
    assert server.count == 1
    server, waits = serve(in_turn(error(429, headers={"Retry-After": "6"}))), list[float]()
    refusal(retried(model_at(server), store.ledger, tries=100, total_seconds=20, sleep=waits.append))
    assert (waits, server.count) == ([6.0, 6.0, 6.0], 4)
