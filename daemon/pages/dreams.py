"""Dreams: every run, and one of them."""

from typing import Annotated, Literal

from pydantic import Field

from daemon.api.operations.dreams import dream_details, dream_status, dreams
from daemon.api.operations.memory import restore_version
from daemon.pages.page import UNDO, Act, Ask, Done, Page, Version, undo_of
from daemon.pages.today import DREAM, Beside

_RUNS = 40
# Of each list of one dream, of the characters of a text, a prompt and the difference so much, and on its whole page.
_FIRST = {"rows": 8, "text": 300, "prompt": 500, "diff": 4_000}
_WHOLE = {"rows": 200, "text": 2_000, "prompt": 20_000, "diff": 200_000}

Outcome = Literal["", "committed", "skipped", "rejected", "failed", "running"]


def _dreams(
    ask: Ask,
    outcome: Outcome = "",
    cursor: Annotated[str, Field(max_length=100)] = "",
) -> Beside:
    found = ask(dreams, limit=_RUNS, cursor=cursor, outcome=outcome)
    ran = [one for one in reversed(found.dreams) if one.run.outcome != "skipped"]
    every = (("tokens", [float(one.spent.tokens) for one in ran]), ("seconds", [one.seconds for one in ran]))
    # A curve of fewer says nothing.
    curves = [(name, values) for name, values in every if len(ran) > 2 and any(values)]
    return {"outcomes": Outcome.__args__[1:], "curves": curves}  # type: ignore[attr-defined]


def _one_dream(
    ask: Ask, dream: Annotated[str, Field(max_length=100)] = "", version: Version | None = None, whole: bool = False
) -> Beside:
    """Read one dream, with the seconds and tokens of each node's steps, in the order in which each first ended."""
    shares: dict[str, tuple[float, int]] = {}
    for step in ask(dream_details, dream=dream, version=version).steps:
        span, tokens = shares.get(step.node, (0.0, 0))
        shares[step.node] = span + step.seconds, tokens + step.tokens
    ask(dream_status)
    return {
        "most": _WHOLE if whole else _FIRST,
        "shares": [(node, *share) for node, share in shares.items()],
        "bars": [(f"{node}: {span:.1f} s", span) for node, (span, _) in shares.items()],
    }


def _restore(ask: Ask, version: Version) -> Done:
    number = ask(restore_version, version).dream.number
    said = f"MEMORY.md is as it was in version {version}, and that is version {number} now."
    return Done(said, f"version {version}", number, undo_of(number))


DREAMS = Page("dreams", "Dreams", _dreams, acts=(DREAM, Act(_restore, "restore", long=True), UNDO), live=True)
ONE_DREAM = Page("dream", "Dream", _one_dream, live=True, under="dreams")
