"""Models as tenants hear of them: what the operator's model, or who runs it, says of itself is in the log alone.

An error of the model stands in ledgers and generations, which are the tenants': it may name no address, no account
and no key of the operator's.
"""

from typing import Any

from daemon.config.settings import Config
from daemon.models.errors import TransientError
from daemon.models.headless import AGENTS
from daemon.models.worker import ModelWorker
from daemon.observability import logs
from state.errors import ConfigError, ModelError

_NO_CEILING_USD, _NO_CEILING_TOKENS = 1e12, 10**15


class DiscreetModelWorker(ModelWorker):
    """Asks the operator's model for tenants."""

    def call(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return the reply; of a failure only that it failed, and whether another try may help."""
        reply = super().call(message, seconds)
        failure = reply.get("failure")
        if failure is None:
            return reply
        logs.get().warning("model_failed", error=ModelError(failure["what"], failure["advice"]))
        return {**reply, "failure": {**failure, **_told(failure)}}


def _told(failure: dict[str, Any]) -> dict[str, str]:
    if failure["kind"] == TransientError.__name__:
        return {"what": "the model cannot be asked now", "advice": "try again later."}
    if failure["answer"]:
        return {"what": "the model answered nothing that can be used", "advice": "try again."}
    return {"what": "the model refused the request", "advice": "ask who runs the service; the log says why."}


def without_machines_ceilings(config: Config) -> Config:
    """Return a worker's configuration, without ceilings for its machine, which spends for many tenants.

    The fleet's ceilings, and those of each tenant, are the schedule's. Raise ConfigError for a person's own agent.
    """
    if config.model.name in AGENTS:
        who = f"model.name is {config.model.name}, which answers on the login of one person"
        raise ConfigError(who, "tenants' dreams want a provider's model.")
    section = config.daemon.model_copy(update={"usd_per_day": _NO_CEILING_USD, "tokens_per_day": _NO_CEILING_TOKENS})
    return config.model_copy(update={"daemon": section})
