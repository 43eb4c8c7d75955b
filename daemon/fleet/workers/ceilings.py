"""Ceilings of a worker: its machine has none, for it spends for many tenants."""

from daemon.config.settings import Config
from daemon.models.headless import AGENTS
from state.errors import ConfigError

_NO_CEILING_USD, _NO_CEILING_TOKENS = 1e12, 10**15


def without_machines_ceilings(config: Config) -> Config:
    """Return a worker's configuration, without ceilings for its machine, which spends for many tenants.

    The fleet's ceilings, and those of each tenant, are the schedule's. Raise ConfigError for a person's own agent.
    """
    if config.model.name in AGENTS:
        who = f"model.name is {config.model.name}, which answers on the login of one person"
        raise ConfigError(who, "tenants' dreams want a provider's model.")
    section = config.daemon.model_copy(update={"usd_per_day": _NO_CEILING_USD, "tokens_per_day": _NO_CEILING_TOKENS})
    return config.model_copy(update={"daemon": section})
