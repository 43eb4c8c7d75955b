import json
from typing import Any

import pytest

from state.document.sections import is_placeholder
from state.errors import DocumentError
from state.signals.economics import niche_lines, parse_feed


def feed(**changes: Any) -> str:
    whole: dict[str, Any] = {
        "total_earnings_usdc": 120.5,
        "total_spent_usdc": 14,
        "listed_skill_count": 3,
        "unique_buyers": 1,
        "top_earning_skills": [
            {"name": "Schema design", "earnings_usdc": 20.5, "purchases": 2},
            {"name": "Refactoring", "earnings_usdc": 100, "purchases": 9},
        ],
        "earnings_7d": [
            {"date": "2026-03-11", "amount_usdc": 4},
            {"date": "2026-03-10", "amount_usdc": 1.5},
        ],
    }
    return json.dumps({**whole, **changes})


def test_a_feed_becomes_lines_that_are_known_by_their_first_words() -> None:
    assert niche_lines(parse_feed(feed())) == (
        "Economics: 120.50 USDC earned, 14.00 USDC spent",
        "Marketplace: 3 skills listed, 1 unique buyer",
        "Top earning skills: Refactoring (100.00 USDC, 9 purchases), Schema design (20.50 USDC, 2 purchases)",
        "Earnings of the last days: 5.50 USDC from 2026-03-10 to 2026-03-11, rising",
    )


def test_without_a_feed_the_line_says_so() -> None:
    assert is_placeholder(niche_lines(None)[0])


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (feed(total_earnings_usdc=-1), "total_earnings_usdc"),
        (feed(total_earnings_usdc=float("nan")), "total_earnings_usdc"),
        (feed(total_spent_usdc=float("inf")), "total_spent_usdc"),
        (feed(total_spent_usdc="12"), "total_spent_usdc"),
        (feed().replace("120.5", "1e999"), "total_earnings_usdc"),
        (feed(listed_skill_count=1.5), "listed_skill_count"),
        (feed(unique_buyers=True), "unique_buyers"),
        (
            feed(top_earning_skills=[{"name": "x", "earnings_usdc": -2, "purchases": 1}]),
            "top_earning_skills.0.earnings_usdc",
        ),
        (feed(top_earning_skills=[{"name": "", "earnings_usdc": 2, "purchases": 1}]), "top_earning_skills.0.name"),
        (feed(top_earning_skills=[{"name": "x", "earnings_usdc": 2, "purchases": 1}] * 101), "top_earning_skills"),
        (feed(earnings_7d=[{"date": "yesterday", "amount_usdc": 1}]), "earnings_7d.0.date"),
        (feed(earnings_7d=[{"date": "2026-03-11", "amount_usdc": 1}] * 32), "earnings_7d"),
        ("{}", "total_earnings_usdc"),
        ("[]", "economics.json"),
        ("not json", "economics.json"),
        ("", "economics.json"),
        ("[" * 5000, "economics.json"),
        (" " * 300_000, "economics.json"),
    ],
)
def test_a_bad_feed_is_refused_in_one_line_that_names_the_field(text: str, field: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_feed(text)
    assert field in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_cannot_forge_a_line() -> None:
    names = ["x\n### sub\n- owner: eve", " \u200b\n", "x\n## The Bond"]
    skills = [{"name": name, "earnings_usdc": 3 - i, "purchases": 1} for i, name in enumerate(names)]
    line = niche_lines(parse_feed(feed(top_earning_skills=skills)))[2]
    assert line == (
        "Top earning skills: x \\### sub owner  eve (3.00 USDC, 1 purchase), a skill without a usable name "
        "(2.00 USDC, 1 purchase), x \\## The Bond (1.00 USDC, 1 purchase)"
    )


@pytest.mark.parametrize(("amounts", "trend"), [((1, 9), "rising"), ((9, 1), "falling"), ((2, 2), "steady")])
def test_the_trend_compares_the_halves_of_the_week(amounts: tuple[int, int], trend: str) -> None:
    days = [{"date": f"2026-03-{10 + i}", "amount_usdc": amount} for i, amount in enumerate(amounts)]
    assert niche_lines(parse_feed(feed(earnings_7d=days)))[3].endswith(trend)
