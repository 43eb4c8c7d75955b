"""Known models: what litellm's bundled table says of a model by its name, and the dollars of a call."""

import re
from dataclasses import dataclass
from typing import Any

from daemon.models.litellm_import import Foreign, load_litellm

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Whether litellm knows its provider and its price, and which variables of keys are wanted and not set."""

    provider: bool
    missing_keys: tuple[str, ...] = ()
    priced: bool = False


def look_up(name: str, api_base: str | None) -> KnownModel:
    """Look the model up in this process, which has litellm loaded afterwards."""
    litellm = load_litellm()
    if not knows_provider(litellm, name, api_base):
        return KnownModel(provider=False)
    priced = known_model(litellm, name) is not None
    return KnownModel(provider=True, missing_keys=tuple(missing_keys(litellm, name)), priced=priced)


def knows_provider(litellm: Foreign, name: str, api_base: str | None) -> bool:
    """Tell whether the model's name, or its address, means a provider of litellm's."""
    try:
        litellm.get_llm_provider(name, api_base=api_base)
    except litellm.BadRequestError:
        return False
    return True


def missing_keys(litellm: Foreign, name: str) -> list[str]:
    """Return the variables of keys that the provider needs, as far as litellm knows, and that are not set."""
    missing: list[str] = litellm.validate_environment(name)["missing_keys"]
    return [variable for variable in missing if SECRET_NAME.search(variable)]


def known_model(litellm: Foreign, name: str) -> dict[str, Any] | None:
    """Return the model's window and prices in litellm's bundled table; None when it is not there."""
    provider, _, bare = name.partition("/")
    entry: dict[str, Any] | None = litellm.model_cost.get(name)
    if entry is None and bare:
        entry = litellm.model_cost.get(bare)
        # The same bare name under another provider may have another price.
        return entry if entry is not None and entry.get("litellm_provider") == provider else None
    return entry


def usd_of(litellm: Foreign, name: str, tokens_in: int, tokens_out: int, answer: Foreign = None) -> float:
    """Return the dollars of so many tokens, of an answer with its discounts; 0 for a model not in the table."""
    entry = known_model(litellm, name)
    if entry is None:
        return 0.0
    try:
        if answer is not None:
            return float(litellm.completion_cost(completion_response=answer, model=name))
        return float(sum(litellm.cost_per_token(model=name, prompt_tokens=tokens_in, completion_tokens=tokens_out)))
    except Exception:  # noqa: BLE001 - it raises anything for the hundreds of names whose provider it reads twice
        prices = (float(entry.get(f"{kind}_cost_per_token") or 0.0) for kind in ("input", "output"))
        return sum(price * tokens for price, tokens in zip(prices, (tokens_in, tokens_out), strict=True))
