"""Dream: one run: its steps with what they took, what it changed and on what grounds, what was refused and asked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field

from daemon.api.operations.dreams import dream_status
from daemon.api.operations.ledger import dream_details
from daemon.api.operations.request import Request
from daemon.pages.page import Ask, Page, Replies
from state.stores.history.steps import PaidStep


class WhichDream(Request):
    """A dream by the beginning of its id, or by its version; `whole`: with what is left out of a long one."""

    dream: str = Field(default="", max_length=100)
    version: int | None = Field(default=None, ge=1, le=10**9)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Most:
    """So much is shown: of each list, of what an operation cites, of calls and their messages; characters of a text.

    `prompts`: characters of all prompts and answers together, of each at least `prompt`.
    """

    items: int
    cited: int
    calls: int
    text: int
    prompt: int
    prompts: int
    diff: int


# The first page stays below 60 KB, also where every text is as long as it may be.
_FIRST = Most(items=8, cited=2, calls=5, text=300, prompt=500, prompts=9_000, diff=4_000)
_WHOLE = Most(items=200, cited=20, calls=200, text=2_000, prompt=20_000, prompts=0, diff=200_000)


@dataclass(frozen=True, slots=True)
class Share:
    """What the steps of one node took together."""

    node: str
    seconds: float
    calls: int
    tokens: int


def _read(ask: Ask, query: WhichDream) -> Replies:
    return {
        "dream_details": ask(dream_details, dream=query.dream, version=query.version),
        "dream_status": ask(dream_status),
    }


def _view(replies: Replies, query: WhichDream, _: datetime) -> Mapping[str, object]:
    dream, most = replies["dream_details"], _WHOLE if query.whole else _FIRST
    shares = _shares(dream.steps)
    texts = sum(len(call.request[: most.calls]) + 1 for call in dream.calls[: most.calls])
    return {
        "most": most,
        "of_each": max(most.prompt, most.prompts // max(1, texts)),
        "shares": shares,
        "shares_of_seconds": [(f"{one.node}: {one.seconds:.1f} s", one.seconds) for one in shares],
        "shares_of_tokens": [(f"{one.node}: {one.tokens:,} tokens", float(one.tokens)) for one in shares],
        "diff": dream.diff[: most.diff],
    }


def _shares(steps: Iterable[PaidStep]) -> list[Share]:
    """Sum up the steps by node, in the order in which each first ended."""
    shares: dict[str, Share] = {}
    for step in steps:
        before = shares.get(step.node, Share(step.node, 0.0, 0, 0))
        shares[step.node] = Share(
            step.node, before.seconds + step.seconds, before.calls + step.calls, before.tokens + step.tokens
        )
    return list(shares.values())


PAGE = Page("dream", "Dream", _read, WhichDream, _view, live=True, under="dreams")
