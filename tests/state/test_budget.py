"""Ceilings: a call that could pass one is not made, one that could just reach it is."""

from dataclasses import replace

import pytest

from state.budget import Limits, Spend, check
from state.errors import CeilingError

CALL = Spend(calls=1, tokens=5_000, usd=0.05)
WIDE = Limits(
    calls_per_dream=10**9,
    tokens_per_dream=10**9,
    usd_per_dream=1e9,
    usd_per_day=1e9,
    tokens_per_day=10**9,
    wall_seconds_per_dream=1e9,
)


def _refusal(limits: Limits, dream: Spend, today: Spend, seconds: float = 0.0, about_to: Spend = CALL) -> str | None:
    try:
        check(limits, dream=dream, today=today, seconds=seconds, about_to=about_to)
    except CeilingError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("calls_per_dream", replace(WIDE, calls_per_dream=3)),
        ("tokens_per_dream", replace(WIDE, tokens_per_dream=15_000)),
        ("usd_per_dream", replace(WIDE, usd_per_dream=0.15)),
        ("usd_per_day", replace(WIDE, usd_per_day=0.15)),
        ("tokens_per_day", replace(WIDE, tokens_per_day=15_000)),
        ("wall_seconds_per_dream", replace(WIDE, wall_seconds_per_dream=60.0)),
    ],
)
def test_each_ceiling_may_be_reached_and_not_passed(name: str, limits: Limits) -> None:
    before = CALL + CALL
    assert _refusal(limits, before, before, seconds=60.0) is None
    refusal = _refusal(limits, before + CALL, before + CALL, seconds=60.1)
    assert refusal is not None
    assert refusal.startswith(f"limits.{name}: ")
    assert ("midnight UTC" in refusal) is name.endswith("_per_day")


def test_zero_dollars_still_allow_a_model_that_costs_none() -> None:
    nothing = replace(Limits(), usd_per_dream=0.0, usd_per_day=0.0)
    assert _refusal(nothing, Spend(), Spend(), about_to=Spend(calls=1, tokens=100)) is None
    assert _refusal(nothing, Spend(), Spend(), about_to=Spend(calls=1, tokens=100, usd=0.01)) is not None


def test_three_calls_of_ten_cents_are_thirty_cents() -> None:
    limits = replace(WIDE, usd_per_dream=0.3)
    spent = Spend(calls=1, usd=0.1) + Spend(calls=1, usd=0.1)
    assert spent.usd + 0.1 > 0.3, "binary fractions"
    assert _refusal(limits, spent, spent, about_to=Spend(calls=1, usd=0.1)) is None
