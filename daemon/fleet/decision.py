"""Decision: what a workspace of the fleet should do now, and whether its tenant may dream. Pure."""

from datetime import datetime, timedelta

from daemon.config.settings import Config
from daemon.models.headless import AGENTS
from daemon.service.schedule import Action, Decision, History, Pending, Thresholds, work
from state.dream import Reason
from state.errors import ConfigError
from state.fleet.tenant import Quotas
from state.stores.fleet.schedule import Use

# What a pass leaves undone in a session is no reason for one after the other.
_BETWEEN_PASSES = timedelta(seconds=30)
_NO_CEILING_USD, _NO_CEILING_TOKENS = 1e12, 10**15


def foreseen(
    now: datetime,
    history: History,
    pending: Pending,
    thresholds: Thresholds,
    *,
    interrupted: bool = False,
    sessions_due: datetime | None = None,
    erased_at: datetime | None = None,
) -> Decision | None:
    """Return what is to be done now, or WAIT with its time; None when nothing is foreseen.

    `interrupted`: a dream has begun and not ended. `sessions_due`: when the working memory of a session wants
    maintenance. `erased_at`: when what was forgotten is to be deleted from older generations once more.
    """
    if interrupted:
        return Decision(Action.DREAM, Reason.CATCH_UP, "it was interrupted", now)
    decision = work(now, history, pending, thresholds)
    if decision is not None and decision.action is not Action.WAIT:
        return decision
    if sessions_due is not None and history.last_pass is not None and history.last_pass <= now:
        sessions_due = max(sessions_due, history.last_pass + _BETWEEN_PASSES)
    moments = [
        (erased_at, "what was forgotten is deleted"),
        (sessions_due, "working memory of a session"),
        (decision.at if decision is not None else None, decision.detail if decision is not None else ""),
    ]
    found = [(max(at, now), detail) for at, detail in moments if at is not None]
    if not found:
        return None
    at, detail = min(found, key=lambda one: one[0])
    return Decision(Action.PASS if at <= now else Action.WAIT, None, detail, at)


def refusal(config: Config, quotas: Quotas, own: Use, everybody: Use) -> str:
    """Return why a tenant may have no dream beside those under way; empty when it may.

    What is under way may cost as much as its ceiling allows, and is counted so until it has ended.
    """
    limits, fleet = config.limits, config.fleet
    checks: list[tuple[str, float, float]] = [("dreams", own.dreams + own.dreaming, quotas.dreams_per_day)]
    if config.model.name is not None:  # else nothing costs
        for whose, use, usd, tokens in (
            ("", own, quotas.usd_per_day, quotas.tokens_per_day),
            (" of the fleet", everybody, fleet.usd_per_day, fleet.tokens_per_day),
        ):
            checks.append((f"usd{whose}", use.usd + use.dreaming * limits.usd_per_dream, usd))
            checks.append((f"tokens{whose}", use.tokens + use.dreaming * limits.tokens_per_dream, tokens))
    return next((what for what, used, most in checks if most and used >= most), "")


def without_machines_ceilings(config: Config) -> Config:
    """Return the configuration without ceilings for its machine, which spends for many tenants.

    The fleet's ceilings, and those of each tenant, are the schedule's. Raise ConfigError for a person's own agent.
    """
    if config.model.name in AGENTS:
        who = f"model.name is {config.model.name}, which answers on the login of one person"
        raise ConfigError(who, "tenants' dreams want a provider's model.")
    section = config.daemon.model_copy(update={"usd_per_day": _NO_CEILING_USD, "tokens_per_day": _NO_CEILING_TOKENS})
    return config.model_copy(update={"daemon": section})
