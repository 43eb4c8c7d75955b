"""Economics: parses and validates memory/economics.json, which other programs write, for The Niche."""

from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from state.codec import first_problem
from state.document.sections import NO_FEED
from state.errors import DocumentError
from state.text.line import as_line
from state.text.words import counted

MAX_BYTES = 256 * 1024
MAX_SKILLS = 100
MAX_DAYS = 31
SHOWN_SKILLS = 3
_NAME_CHARACTERS = 80

# Strict: "12" and true are not numbers. An amount above 1e12 dollars would be a mistake of units.
_Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False, strict=True)]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]


class _Model(BaseModel):
    # Unknown keys may come from another version; known ones must be valid.
    model_config = ConfigDict(frozen=True, extra="ignore")


class SkillEarning(_Model):
    """What one skill earned."""

    name: Annotated[str, Field(min_length=1, max_length=500, strict=True)]
    earnings_usdc: _Amount
    purchases: _Count


class DayEarning(_Model):
    """What one day brought."""

    date: date
    amount_usdc: _Amount


class Economics(_Model):
    """The feed, checked."""

    total_earnings_usdc: _Amount
    total_spent_usdc: _Amount
    listed_skill_count: _Count
    unique_buyers: _Count
    top_earning_skills: Annotated[tuple[SkillEarning, ...], Field(max_length=MAX_SKILLS)] = ()
    earnings_7d: Annotated[tuple[DayEarning, ...], Field(max_length=MAX_DAYS)] = ()


def parse_feed(text: str) -> Economics:
    """Parse the feed. Raise DocumentError, in one line that names the field and what is wrong with it."""
    if len(text) > MAX_BYTES:
        raise DocumentError(f"memory/economics.json has {len(text):,} characters", f"keep it under {MAX_BYTES:,}.")
    try:
        return Economics.model_validate_json(text.removeprefix("\ufeff"))
    except ValidationError as error:
        raise DocumentError(
            f"memory/economics.json: {first_problem(error)}", "correct the feed or remove it."
        ) from None


def niche_lines(economics: Economics | None) -> tuple[str, ...]:
    """Return the lines of The Niche, each identified by the words before its colon; NO_FEED without a feed."""
    if economics is None:
        return (NO_FEED,)
    buyers = counted(economics.unique_buyers, "unique buyer")
    lines = [
        f"Economics: {_usdc(economics.total_earnings_usdc)} earned, {_usdc(economics.total_spent_usdc)} spent",
        f"Marketplace: {counted(economics.listed_skill_count, 'skill')} listed, {buyers}",
    ]
    best = sorted(economics.top_earning_skills, key=lambda skill: (-skill.earnings_usdc, skill.name))[:SHOWN_SKILLS]
    if best:
        lines.append("Top earning skills: " + ", ".join(map(_skill, best)))
    if economics.earnings_7d:
        lines.append(f"Earnings of the last days: {_trend(economics.earnings_7d)}")
    return tuple(lines)


def _skill(skill: SkillEarning) -> str:
    name = as_line(skill.name, _NAME_CHARACTERS).replace(":", " ").strip()
    shown = name or "a skill without a usable name"
    return f"{shown} ({_usdc(skill.earnings_usdc)}, {counted(skill.purchases, 'purchase')})"


def _trend(days: tuple[DayEarning, ...]) -> str:
    """Return the sum of the latest seven days, and the trend between their two halves."""
    week = sorted(days, key=lambda day: day.date)[-7:]
    total = f"{_usdc(sum(day.amount_usdc for day in week))} from {week[0].date} to {week[-1].date}"
    half = len(week) // 2
    if not half:
        return total
    early, late = sum(day.amount_usdc for day in week[:half]), sum(day.amount_usdc for day in week[-half:])
    return f"{total}, {'rising' if late > early else 'falling' if late < early else 'steady'}"


def _usdc(amount: float) -> str:
    return f"{amount:,.2f} USDC"
