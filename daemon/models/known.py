"""Known models: loads litellm late and quietly, and looks models up in its bundled table.

Importing litellm takes 4 s; by default it also reads `.env` in the working directory, fetches a price table and
prints. It is used instead of a client of our own because it makes every provider just a name in the configuration.
"""

import functools
import gc
import importlib
import logging
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from daemon.models.responses import mend

Foreign: TypeAlias = Any
"""litellm, or one of its objects; mypy does not follow its types."""

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the price table in the package, not the one on the web
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_MODE": "PRODUCTION",  # DEV, the default, loads .env from the working directory
    "HF_HUB_OFFLINE": "1",  # otherwise it looks a tokenizer up on the hub, with 23 s of retries
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx", "httpcore")


@functools.cache
def load_litellm() -> Foreign:
    """Import litellm so that it fetches, prints and logs nothing, and sends no telemetry.

    Its HTTP clients follow no redirect, which could send the prompt, and often the key, to any address, and read
    completions in other forms.
    """
    os.environ.update(_ENVIRONMENT)
    os.environ.pop("LITELLM_LOG", None)  # its debug log contains prompts and keys
    with warnings.catch_warnings():
        # The first ModelResponse builds its pydantic classes, whose warnings concern only litellm's authors.
        warnings.simplefilter("ignore")
        gc.disable()  # collection takes a quarter of the import's time, for objects that stay
        try:
            litellm: Foreign = importlib.import_module("litellm")
            litellm.ModelResponse()
        finally:
            gc.enable()
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False  # if true, a 422 is retried and its answer is None
    handlers = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    handlers.HTTPHandler.create_client = _adapted(handlers.HTTPHandler.create_client)
    openai = importlib.import_module("litellm.llms.openai.common_utils")
    # All clients of the openai library send through this one.
    litellm.client_session = _adapted(openai.BaseOpenAILLM._get_sync_http_client)()  # noqa: SLF001
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


def _adapted(make_client: Callable[..., Foreign]) -> Callable[..., Foreign]:
    """Wrap the factory of an HTTP client so that its clients follow no redirect and mend what they receive."""

    @functools.wraps(make_client)
    def make(*arguments: Foreign, **named: Foreign) -> Foreign:
        client = make_client(*arguments, **named)
        client.follow_redirects = False
        client.event_hooks = {"response": [mend]}
        return client

    return make


SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_LOOK = re.compile(r"\b(?:sk|pk|rk|gsk|xai|AIza|hf|key)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.IGNORECASE)


def without_keys(message: str) -> str:
    """Return a message of a provider or program without known keys or texts that look like keys."""
    for name, value in os.environ.items():
        if len(value) >= 8 and SECRET_NAME.search(name):
            message = message.replace(value, "***")
    return _SECRET_LOOK.sub("***", message)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Whether litellm knows a model's provider and price, and which variables for its API keys are not set."""

    provider: bool
    missing_keys: tuple[str, ...] = ()
    priced: bool = False


def look_up(name: str, api_base: str | None) -> KnownModel:
    """Look the model up. Loads litellm into this process."""
    litellm = load_litellm()
    if not knows_provider(litellm, name, api_base):
        return KnownModel(provider=False)
    priced = known_model(litellm, name) is not None
    return KnownModel(provider=True, missing_keys=tuple(missing_keys(litellm, name)), priced=priced)


def knows_provider(litellm: Foreign, name: str, api_base: str | None) -> bool:
    """Return whether litellm knows a provider for this model name or address."""
    try:
        litellm.get_llm_provider(name, api_base=api_base)
    except litellm.BadRequestError:
        return False
    return True


def missing_keys(litellm: Foreign, name: str) -> list[str]:
    """Return the unset environment variables for API keys that the provider needs, as far as litellm knows."""
    missing: list[str] = litellm.validate_environment(name)["missing_keys"]
    return [variable for variable in missing if SECRET_NAME.search(variable)]


def known_model(litellm: Foreign, name: str) -> dict[str, Any] | None:
    """Return the model's context window and prices in litellm's bundled table; None if it is not listed."""
    provider, _, bare = name.partition("/")
    entry: dict[str, Any] | None = litellm.model_cost.get(name)
    if entry is None and bare:
        entry = litellm.model_cost.get(bare)
        # The same bare name under another provider may have another price.
        return entry if entry is not None and entry.get("litellm_provider") == provider else None
    return entry


def usd_of(litellm: Foreign, name: str, tokens_in: int, tokens_out: int, answer: Foreign = None) -> float:
    """Return the price in dollars, with an answer's discounts if one is given; 0 for a model not in the table."""
    entry = known_model(litellm, name)
    if entry is None:
        return 0.0
    try:
        if answer is not None:
            return float(litellm.completion_cost(completion_response=answer, model=name))
        return float(sum(litellm.cost_per_token(model=name, prompt_tokens=tokens_in, completion_tokens=tokens_out)))
    except Exception:  # noqa: BLE001 - it raises anything for hundreds of names whose provider prefix it parses twice
        prices = (float(entry.get(f"{kind}_cost_per_token") or 0.0) for kind in ("input", "output"))
        return sum(price * tokens for price, tokens in zip(prices, (tokens_in, tokens_out), strict=True))
