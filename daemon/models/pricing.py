"""Pricing: estimates the tokens of a text and the dollars of a call, for the ceilings of a dream."""

import math
import re
from typing import Any

from daemon.models.litellm_import import Foreign

# Runs as byte-pair tokenizers cut them, and how many tokens a character of each comes to: a word of one case, digits,
# spaces that indent, line ends, marks, scripts of wide characters, emoji, other scripts.
_RUN = re.compile(
    r"(?P<word>[A-Z]?[a-z]+|[A-Z]+)|(?P<digits>[0-9]+)|(?P<blank>[^\S\n]{2,}|\n+)|(?P<marks>[!-/:-@\[-`{-~]+)"
    r"|(?P<wide>[\u2e80-\uffff]+)|(?P<astral>[\U00010000-\U0010ffff]+)|(?P<other>[\x80-\u2e7f]+)"
)
_TOKENS_PER_CHARACTER = {
    "word": 1 / 7,
    "digits": 1 / 3,
    "blank": 0.0,
    "marks": 1 / 2,
    "wide": 1.2,
    "astral": 2.5,
    "other": 0.6,
}


def estimate_tokens(text: str) -> int:
    """Tokens of a text, about: between 0.7 and 1.6 times what cl100k counts, for most texts a little more.

    Measured on prose, Markdown, code, JSON, dated logs, numbers, emoji and six languages in four scripts; newer
    vocabularies need fewer. It needs no vocabulary and no network.
    """
    return sum(
        max(1, math.ceil((run.end() - run.start()) * _TOKENS_PER_CHARACTER[run.lastgroup or "word"]))
        for run in _RUN.finditer(text)
    )


def known_model(litellm: Foreign, name: str) -> dict[str, Any] | None:
    """The model's window and prices in litellm's bundled table; None when it is not there."""
    entry: dict[str, Any] | None = litellm.model_cost.get(name)
    if entry is None and "/" in name:
        provider, bare = name.split("/", 1)
        entry = litellm.model_cost.get(bare)
        # The same bare name under another provider may have another price.
        if entry is not None and entry.get("litellm_provider") != provider:
            return None
    return entry


def usd_of(litellm: Foreign, name: str, tokens_in: int, tokens_out: int) -> float:
    """Dollars of so many tokens; 0 for a model that the table does not know."""
    if known_model(litellm, name) is None:
        return 0.0
    try:
        return float(sum(litellm.cost_per_token(model=name, prompt_tokens=tokens_in, completion_tokens=tokens_out)))
    except Exception:  # noqa: BLE001 - it raises anything for the hundreds of names whose provider it reads twice
        return _list_price(litellm, name, tokens_in, tokens_out)


def usd_of_answer(litellm: Foreign, name: str, response: Foreign, tokens_in: int, tokens_out: int) -> float:
    """Dollars of an answer, with the discounts that its usage names; 0 for a model that the table does not know."""
    if known_model(litellm, name) is None:
        return 0.0
    try:
        return float(litellm.completion_cost(completion_response=response, model=name))
    except Exception:  # noqa: BLE001 - as above; an answer that is paid for is not lost over its price
        return usd_of(litellm, name, tokens_in, tokens_out)


def _list_price(litellm: Foreign, name: str, tokens_in: int, tokens_out: int) -> float:
    entry = known_model(litellm, name) or {}
    return float(
        tokens_in * (entry.get("input_cost_per_token") or 0.0)
        + tokens_out * (entry.get("output_cost_per_token") or 0.0)
    )
