"""Requests and helpers for tests of models against the scripted server."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from daemon.config.settings import Config, LimitsSection
from daemon.dream.model import Metered, PricedModel
from daemon.models.litellm_model import LitellmModel
from graphs.ports import Model, Request
from state.errors import ModelError
from state.stores.history.ledger import Ledger
from tests.support.scripted_model import Script, ScriptedModel

DREAM = "20260312T143000000000Z"
KEY = "sk-proj-abcDEF0123456789"
REQUEST = Request((("system", "You keep a memory."), ("user", "N1: the user likes tea")))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
ASKING = replace(REQUEST, schema=SCHEMA, schema_name="operations")
Serve = Callable[[Script], ScriptedModel]


def model_at(server: ScriptedModel, name: str = "openai/scripted", seconds: float = 30.0) -> LitellmModel:
    return LitellmModel(name, api_base=server.url, timeout_seconds=seconds, max_output_tokens=400)


def saying(text: str) -> Request:
    return replace(REQUEST, messages=(REQUEST.messages[0], ("user", text)))


def metered(model: PricedModel, ledger: Ledger, config: Config = Config(), **more: Any) -> Metered:  # noqa: B008
    return Metered(model, config, ledger, DREAM, **more)


def retried(model: PricedModel, ledger: Ledger, **more: Any) -> Metered:
    """Return the model with retries and very high ceilings."""
    limits = LimitsSection(calls_per_dream=1_000, tokens_per_dream=10**6)
    return metered(model, ledger, Config(limits=limits), **more)


def refusal(model: Model, request: Request = REQUEST) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.ask(request)
    message = str(caught.value)
    assert "\n" not in message
    assert model.name in message
    return caught.value


def never(seconds: float) -> None:
    raise AssertionError(f"waited {seconds} s for nothing")
