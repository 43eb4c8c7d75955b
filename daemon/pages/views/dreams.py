"""Dreams: every run, why it ran, how it ended and what it cost; one of them; what people did in this window."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.operations.dreams import dream_now, dream_status
from daemon.api.operations.ledger import acts, dream_details, dreams
from daemon.api.operations.versions import restore_version
from daemon.pages.acts import UNDO, undo_of
from daemon.pages.forms import Version
from daemon.pages.page import Act, Ask, Done, Page, Shown
from state.stores.history.steps import PaidStep

_RUNS, _ACTS = 40, 15
# Of each list of one dream, of the characters of a text, a prompt and the difference so much, and on its whole page.
_FIRST = {"rows": 8, "text": 300, "prompt": 500, "diff": 4_000}
_WHOLE = {"rows": 200, "text": 2_000, "prompt": 20_000, "diff": 200_000}

Outcome = Literal["", "committed", "skipped", "rejected", "failed", "running"]


def _read(
    ask: Ask,
    outcome: Outcome = "",
    cursor: Annotated[str, Field(max_length=100)] = "",
    acts_before: Annotated[int | None, Field(ge=1, le=2**53)] = None,
) -> Shown:
    found = ask(dreams, limit=_RUNS, cursor=cursor, outcome=outcome)
    ran = [run for run in reversed(found.dreams) if run.outcome != "skipped"]
    every = (("tokens", [float(run.tokens) for run in ran]), ("seconds", [run.seconds for run in ran]))
    # A curve of fewer says nothing.
    curves = [(name, values) for name, values in every if len(ran) > 2 and any(values)]
    replies = {"dreams": found, "acts": ask(acts, limit=_ACTS, cursor=acts_before)}
    return Shown(replies, {"outcomes": Outcome.__args__[1:], "curves": curves})  # type: ignore[attr-defined]


def _read_one(
    ask: Ask, dream: Annotated[str, Field(max_length=100)] = "", version: Version | None = None, whole: bool = False
) -> Shown:
    found = ask(dream_details, dream=dream, version=version)
    shares = _shares(found.steps)
    bars = [(f"{node}: {span:.1f} s", span) for node, span, _ in shares]
    replies = {"dream_details": found, "dream_status": ask(dream_status)}
    return Shown(replies, {"most": _WHOLE if whole else _FIRST, "shares": shares, "bars": bars})


def _shares(steps: Iterable[PaidStep]) -> list[tuple[str, float, int]]:
    """Return the seconds and tokens of each node's steps, in the order in which each node first ended."""
    shares: dict[str, tuple[float, int]] = {}
    for step in steps:
        span, tokens = shares.get(step.node, (0.0, 0))
        shares[step.node] = span + step.seconds, tokens + step.tokens
    return [(node, *share) for node, share in shares.items()]


def _dream(ask: Ask) -> Done:
    """Ask for a dream; the page shows how it goes."""
    done = ask(dream_now, wait=False)
    if done.outcome is None:
        return Done("A dream was asked for: it shows here as it runs.")
    number = done.outcome.dream.number
    return Done(f"It dreamt: MEMORY.md is at version {number}.", version=number)


def _restore(ask: Ask, version: Version) -> Done:
    number = ask(restore_version, version).dream.number
    said = f"MEMORY.md is as it was in version {version}, and that is version {number} now."
    return Done(said, f"version {version}", number, undo_of(number))


DREAM = Act(_dream, "dream", long=True)
PAGE = Page("dreams", "Dreams", _read, acts=(DREAM, Act(_restore, "restore", long=True), UNDO), live=True)
DREAM_PAGE = Page("dream", "Dream", _read_one, live=True, under="dreams")
