"""Known models: what litellm knows of a model by its name, without asking anybody."""

from dataclasses import dataclass

from daemon.models.errors import missing_keys
from daemon.models.litellm_import import Foreign, load_litellm
from daemon.models.pricing import known_model


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
    missing, priced = tuple(missing_keys(litellm, name)), known_model(litellm, name) is not None
    return KnownModel(provider=True, missing_keys=missing, priced=priced)


def knows_provider(litellm: Foreign, name: str, api_base: str | None) -> bool:
    """Tell whether the model's name, or its address, means a provider of litellm's."""
    try:
        litellm.get_llm_provider(name, api_base=api_base)
    except litellm.BadRequestError:
        return False
    return True
