"""Pricing: the dollars of a call by litellm's bundled table, for the ceilings of a dream."""

from typing import Any

from daemon.models.litellm_import import Foreign


def known_model(litellm: Foreign, name: str) -> dict[str, Any] | None:
    """Return the model's window and prices in litellm's bundled table; None when it is not there."""
    entry: dict[str, Any] | None = litellm.model_cost.get(name)
    if entry is None and "/" in name:
        provider, bare = name.split("/", 1)
        entry = litellm.model_cost.get(bare)
        # The same bare name under another provider may have another price.
        if entry is not None and entry.get("litellm_provider") != provider:
            return None
    return entry


def usd_of(litellm: Foreign, name: str, tokens_in: int, tokens_out: int) -> float:
    """Return the dollars of so many tokens; 0 for a model that the table does not know."""
    entry = known_model(litellm, name)
    if entry is None:
        return 0.0
    try:
        return float(sum(litellm.cost_per_token(model=name, prompt_tokens=tokens_in, completion_tokens=tokens_out)))
    except Exception:  # noqa: BLE001 - it raises anything for the hundreds of names whose provider it reads twice
        prices = (float(entry.get(f"{kind}_cost_per_token") or 0.0) for kind in ("input", "output"))
        return sum(price * tokens for price, tokens in zip(prices, (tokens_in, tokens_out), strict=True))


def usd_of_answer(litellm: Foreign, name: str, response: Foreign, tokens_in: int, tokens_out: int) -> float:
    """Return the dollars of an answer, with its discounts; 0 for a model that the table does not know."""
    if known_model(litellm, name) is None:
        return 0.0
    try:
        return float(litellm.completion_cost(completion_response=response, model=name))
    except Exception:  # noqa: BLE001 - as above; an answer that is paid for is not lost over its price
        return usd_of(litellm, name, tokens_in, tokens_out)
