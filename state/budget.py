"""Budget: what a dream may cost and has cost, and the check between the two. Pure: money and time are arguments."""

from dataclasses import dataclass

from state.errors import CeilingError


@dataclass(frozen=True, slots=True)
class Spend:
    """Calls, tokens (input plus output) and US dollars; two of them can be added.

    Dollars are 0 for a model of unknown price (a local one costs nothing): then the ceilings on tokens apply.
    """

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings, each inclusive: a dream may spend exactly that much. 0 means nothing, not "unlimited"."""

    calls_per_dream: int = 5
    tokens_per_dream: int = 60_000
    usd_per_dream: float = 0.50
    usd_per_day: float = 5.00
    tokens_per_day: int = 1_000_000
    wall_seconds_per_dream: float = 900.0


@dataclass(frozen=True, slots=True)
class DayLimits:
    """Daily ceilings over all workspaces of a user, each inclusive."""

    usd_per_day: float = 20.00
    tokens_per_day: int = 5_000_000


def reached(limits: Limits | DayLimits, today: Spend) -> str:
    """Return the key of the first daily ceiling that is reached; empty if none is."""
    if today.calls and today.usd >= limits.usd_per_day:
        return "usd_per_day"
    return "tokens_per_day" if today.calls and today.tokens >= limits.tokens_per_day else ""


def check_day(limits: DayLimits, *, today: Spend, about_to: Spend) -> None:
    """Allow one more call in any workspace, or raise CeilingError; `today` is the spend of all workspaces."""
    tonight = today + about_to
    _bound("daemon.usd_per_day", tonight.usd, limits.usd_per_day, "dollars")
    _bound("daemon.tokens_per_day", tonight.tokens, limits.tokens_per_day, "tokens")


def check(limits: Limits, *, dream: Spend, today: Spend, seconds: float, about_to: Spend) -> None:
    """Allow one more call, or raise CeilingError naming the first ceiling that it would exceed.

    `dream` and `today` are the spend before the call (today includes the dream), `seconds` the running time of the
    dream, `about_to` the most that the call is expected to cost.
    """
    then, tonight = dream + about_to, today + about_to
    _bound("limits.calls_per_dream", then.calls, limits.calls_per_dream, "calls")
    _bound("limits.tokens_per_dream", then.tokens, limits.tokens_per_dream, "tokens")
    _bound("limits.usd_per_dream", then.usd, limits.usd_per_dream, "dollars")
    _bound("limits.usd_per_day", tonight.usd, limits.usd_per_day, "dollars")
    _bound("limits.tokens_per_day", tonight.tokens, limits.tokens_per_day, "tokens")
    _bound("limits.wall_seconds_per_dream", seconds, limits.wall_seconds_per_dream, "seconds")


def _bound(name: str, would_be: float, limit: float, unit: str) -> None:
    # Sums of prices are inexact in binary: a millionth of a dollar over is no breach.
    if would_be <= limit + 1e-6:
        return
    again = "it opens again at midnight UTC" if name.endswith("_per_day") else "the next dream starts afresh"
    raise CeilingError(
        f"{name}: one more call could come to {would_be:,.6g} {unit} and {limit:,.6g} are allowed, "
        f"so it was not made",
        again,
        f"or raise {name}.",
    )
