"""Trial: asks a model one short question, within the ceilings, and says how that went.

The model is asked by a process that ends with the answer (`beside`). The ceilings are checked, and the call is in the
ledger, before it is made.
"""

from collections.abc import Callable
from dataclasses import dataclass

from daemon.config.settings import Config
from daemon.dream.model import Metered, priced_model
from daemon.models.choices import Tried
from daemon.upkeep.beside import beside
from daemon.workspace.stores import Store, utc_now
from graphs.ports import Answer, Request
from prompts import load, render
from state.budget import Spend
from state.errors import ModelError

_START_SECONDS = 60.0
_LONGEST = 400


def ask_once(store: Store, config: Config) -> Tried:
    """Ask the model of this configuration once; the stores' ledger is charged. Nothing is raised that it may say."""
    shown = config.redaction.of(config.model.name or "")
    try:
        with beside(config.model.timeout_seconds + _START_SECONDS) as call:
            model = _ModelBeside(shown, config, call)
            asked = Metered(model, config, store.ledger, f"trial-{utc_now():%Y%m%dT%H%M%S%f}", tries=1)
            answer = asked.ask(Request(tuple(zip(("system", "user"), render(load("trial"), {}), strict=True))))
    except ModelError as error:
        return Tried(shown, problem=error.what, advice=error.advice)
    except (OSError, EOFError):  # a call that was begun stays in the ledger, with the most that it may cost
        return Tried(shown, problem="the process that asks the model ended", advice="try again")
    said = config.redaction.of(" ".join(answer.text.split()))[:_LONGEST]
    return Tried(shown, said, answer.seconds, answer.tokens_in + answer.tokens_out, answer.usd)


@dataclass(eq=False)
class _ModelBeside:
    """The model of this configuration in another process."""

    name: str
    config: Config
    call: Callable[..., object]
    context_window: int = 0

    def worst_case(self, request: Request) -> Spend:
        most = self.call(_worst_case, self.config, request)
        assert isinstance(most, Spend)
        return most

    def ask(self, request: Request) -> Answer:
        answer = self.call(_ask, self.config, request)
        assert isinstance(answer, Answer)
        return answer


def _worst_case(config: Config, request: Request) -> Spend:
    return priced_model(config, config.model.name or "").worst_case(request)


def _ask(config: Config, request: Request) -> Answer:
    return priced_model(config, config.model.name or "").ask(request)
