"""A model is asked one short question: what it says, what it cost, and what is wrong, within the ceilings."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, DaemonSection, LimitsSection, ModelSection
from daemon.upkeep.trial import ask_once
from daemon.workspace.stores import Store, utc_now
from state.budget import Spend
from state.stores.history.daily_spend import DailySpend
from tests.support.scripted_model import SCRIPTS, Reply, Script, ScriptedModel, error, in_turn

Serve = Callable[[Script], ScriptedModel]
pytestmark = pytest.mark.usefixtures("only_loopback")


def asking(server: ScriptedModel, name: str = "openai/gpt-4o-mini", **sections: Any) -> Config:
    model = ModelSection(name=name, api_base=server.url, timeout_seconds=2, max_output_tokens=256)
    return Config(model=model, **sections)


def test_it_says_what_the_model_answered_and_the_ledger_has_what_that_cost(serve: Serve, store: Store) -> None:
    server = serve(in_turn(Reply("I am  ready,\nsays <b>scripted</b>.", usage=(40, 8))))
    together = DailySpend(spent_folder(os.environ))
    before = together.of(utc_now())
    tried = ask_once(store, asking(server))
    assert (tried.model, tried.answer) == ("openai/gpt-4o-mini", "I am ready, says <b>scripted</b>.")
    assert (tried.tokens, tried.problem, 0 < tried.usd < 0.01, tried.seconds > 0) == (48, "", True, True)
    assert store.ledger.spent() == Spend(1, 48, tried.usd)
    assert together.of(utc_now()).tokens - before.tokens == 48
    assert len(server.requests) == 1
    assert store.ledger.runs(10) == []  # it is no dream


@pytest.mark.parametrize(
    ("script", "problem", "advice", "calls"),
    [
        (in_turn(error(401)), "does not accept the key (401)", "check the provider's key", 0),
        (in_turn(error(404)), "is not known there (404)", "check model.name", 0),
        (in_turn(error(429)), "is limiting the rate of requests", "wait", 0),
        (SCRIPTS["empty"], "answered nothing", "another model", 1),
        (SCRIPTS["slow"], "did not answer within 2 s", "raise model.timeout_seconds", 1),
    ],
    ids=["key", "name", "rate", "nothing", "slow"],
)
def test_what_is_wrong_is_said_and_what_was_paid_is_kept(
    serve: Serve, store: Store, script: Script, problem: str, advice: str, calls: int
) -> None:
    server = serve(script)
    tried = ask_once(store, asking(server))
    assert (tried.answer, problem in tried.problem, advice in tried.advice) == ("", True, True), tried
    assert (store.ledger.spent().calls, server.count) == (calls, 1)  # it is tried once


@pytest.mark.parametrize(
    ("limit", "sections"),
    [
        ("limits.tokens_per_day", {"limits": LimitsSection(tokens_per_day=100)}),
        ("limits.usd_per_day", {"limits": LimitsSection(usd_per_day=0)}),
        ("daemon.tokens_per_day", {"daemon": DaemonSection(tokens_per_day=100)}),
    ],
)
def test_no_question_is_asked_beyond_a_ceiling(
    serve: Serve, store: Store, limit: str, sections: dict[str, Any]
) -> None:
    server = serve(SCRIPTS["hello"])
    tried = ask_once(store, asking(server, **sections))
    assert tried.problem.startswith(f"{limit}: one more call")
    assert (server.count, store.ledger.spent()) == (0, Spend())


def test_a_program_is_asked_too(store: Store) -> None:
    tried = ask_once(store, Config(model=ModelSection(name="command:echo I am ready")))
    assert (tried.answer, tried.usd, tried.problem) == ("I am ready", 0, "")
