"""Choices: the models that could dream here, what each costs and lacks, and what came of trying one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from daemon.models.command import PRESETS, find_program
from daemon.models.keys import PROVIDERS, missing_key, variables_of

# Small models of the providers that most people have a key of.
_SMALL = {
    "anthropic": "anthropic/claude-haiku-4-5",
    "openai": "openai/gpt-5-mini",
    "gemini": "gemini/gemini-2.5-flash",
}
_OLLAMA_PORT, _OLLAMA_SECONDS, _MOST_OF_OLLAMA, _LONGEST_LIST = 11434, 1, 3, 1 << 20


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A value of model.name ("": none), what it means, and what it lacks to be used; "" if nothing."""

    name: str
    about: str
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a model answered to one short question; or the `problem`, and in `advice` what to do about it.

    Dollars are 0 for a model whose price is not known.
    """

    model: str
    answer: str = ""
    seconds: float = 0.0
    tokens: int = 0
    usd: float = 0.0
    problem: str = ""
    advice: str = ""


def model_choices(environment: Mapping[str, str]) -> Iterator[ModelChoice]:
    """Yield the models to choose from, the one to propose first."""
    missing = []
    for agent, preset in PRESETS.items():
        lacks = "" if find_program(preset) else f"'{preset.command}' is not installed, or not on dreamd's PATH"
        about = f"{preset.title}, on your subscription; one to three calls a dream, of 3,000 to 10,000 tokens"
        choice = ModelChoice(f"{agent}/{preset.small}" if preset.small else agent, about, lacks)
        if lacks:
            missing.append(choice)
        else:
            yield choice
    yield ModelChoice("", "nothing leaves this machine and nothing is paid; the memory is much less useful")
    for name in _SMALL.values():
        if variable := missing_key(name, environment):
            missing.append(ModelChoice(name, "cents a day, at most limits.usd_per_day", f"{variable} is not set"))
            continue
        there = next(iter(variables_of(name, environment)), "its address")
        yield ModelChoice(name, f"{there} is there; cents a day, at most limits.usd_per_day")
    yield from (ModelChoice(f"ollama_chat/{name}", "Ollama, on this machine, free") for name in _of_ollama())
    yield from missing


def key_of(model: str) -> str:
    """Return the variable that has the key of the model's provider; "" if there is none, or it is not known."""
    provider, slash, _ = model.partition("/")
    return PROVIDERS.get(provider, ("",))[0] if slash else ""


def _of_ollama() -> list[str]:
    """Return the models that an Ollama on this machine has; none if it does not answer."""
    connection = HTTPConnection("127.0.0.1", _OLLAMA_PORT, timeout=_OLLAMA_SECONDS)
    try:
        connection.request("GET", "/api/tags")
        found = json.loads(connection.getresponse().read(_LONGEST_LIST)).get("models", ())
        return [str(one["name"]) for one in found][:_MOST_OF_OLLAMA]
    except (OSError, HTTPException, ValueError, AttributeError, KeyError, TypeError):
        return []
    finally:
        connection.close()
