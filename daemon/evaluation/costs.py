"""Costs: what a model will about cost for a life, before anything is paid for."""

from dataclasses import dataclass

from daemon.config.settings import Config
from daemon.evaluation.life import Life
from daemon.models.litellm_import import load_litellm
from daemon.models.pricing import estimate_tokens, usd_of
from state.bootstrap import budget_for

# A dream reads its rules, the document and up to so many memories beside the notes, and reflects once before it.
_RULES_TOKENS = 4_000
_CALLS_PER_DREAM = 2
_OPERATIONS_TOKENS = 1_000
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """An estimate; `most_usd` and `most_tokens` are the ceilings of a day, which are held."""

    model: str
    calls: int
    tokens: int
    usd: float
    most_usd: float
    most_tokens: int

    def __str__(self) -> str:
        """The estimate in a sentence."""
        price = f"${self.usd:.2f}" if self.usd else "a price that is not known"
        return (
            f"{self.model}: about {self.calls:,} calls, {self.tokens:,} tokens, {price}; never more than "
            f"limits.usd_per_day (${self.most_usd:.2f}) and limits.tokens_per_day ({self.most_tokens:,}) for each of "
            "the two arms that ask it"
        )


def costs_of(life: Life, config: Config) -> Costs:
    """The estimate: two calls for each day's dream, and one for each day's rewriting."""
    document = budget_for(config.dream.context_window) // _CHARACTERS_PER_TOKEN
    calls = tokens_in = tokens_out = 0
    for notes in filter(None, life.days):
        said = sum(estimate_tokens(text) for text, _ in notes)
        calls += _CALLS_PER_DREAM + 1
        tokens_in += _CALLS_PER_DREAM * (_RULES_TOKENS + said) + 2 * document + said
        tokens_out += _CALLS_PER_DREAM * _OPERATIONS_TOKENS + document
    name = config.model.name or ""
    usd = usd_of(load_litellm(), name, tokens_in, tokens_out)
    return Costs(name, calls, tokens_in + tokens_out, usd, config.limits.usd_per_day, config.limits.tokens_per_day)
