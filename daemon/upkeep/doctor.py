"""Doctor: checks a workspace and its environment; each finding says what was checked, the result, and what to do."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from daemon.config.settings import Config
from daemon.models.command import costs_of, find_program, installed_agents, preset_of
from daemon.models.dreamer import NO_MODEL, who_dreams
from daemon.models.known import KnownModel, look_up
from daemon.upkeep.beside import beside
from daemon.upkeep.examine import FILES, check_stores, failure, look
from daemon.workspace.checks import Finding, Level, Subject, fine, problem, warning
from daemon.workspace.stores import Store, utc_now
from state.errors import DreamdError
from state.stores.disk.lock import present_holder
from state.stores.disk.workspace import Workspace

_LOOK_UP_SECONDS = 120.0  # to import litellm, on a busy machine with a cold disk


def examine(
    workspace: Workspace,
    configured: Callable[[], Config],
    service: Callable[[], Iterable[Finding]],
    opened: Callable[[], AbstractContextManager[Store]],
) -> Iterator[Finding]:
    """Yield each finding as soon as it is made. Use no network.

    `configured` reads the configuration, `service` says whether a daemon runs and keeps the workspace, `opened` opens
    the stores under the workspace's lock. This finishes an interrupted commit and rebuilds a torn index, which the
    findings report.
    """
    try:
        config = configured()
        yield Finding("config", Level.OK, f"valid ({config.file or 'defaults'} and DREAMD_… variables)")
    except DreamdError as error:
        config = Config()
        yield Finding("config", Level.PROBLEM, str(error), "the rest is checked with the defaults")
    yield replace(_model(config), about="model")
    at = Subject(workspace, config, utc_now(), is_held=present_holder(workspace) is not None)
    try:
        yield from service()
    except DreamdError as error:
        yield failure("service", error)
    is_damaged = False
    for one in look(FILES, at):
        is_damaged |= one.about == "state.db"
        yield one
    if is_damaged:  # opening it could do further damage
        return
    try:
        with opened() as store:
            yield from check_stores(store)
    except (DreamdError, sqlite3.Error) as error:
        yield failure("stores", error)


def _model(config: Config) -> Finding:
    name, limits = config.model.name, config.limits.ceilings
    if name is None:
        such = "".join(f", such as {agent} ({costs_of(preset, limits)})" for agent, preset in installed_agents())
        who, change = who_dreams(name)
        return fine(who, f"{change}{such}")
    if preset := preset_of(name):
        shown, program = config.redaction.of(name), find_program(preset)
        if program is None:
            advice = f"install it, or choose another as model.name: until then {NO_MODEL}"
            return problem(f"{shown}: there is no program '{preset.command}'", advice)
        return fine(f"{shown} is asked with {program}: {costs_of(preset, limits)}")
    return _known_to_litellm(name, config.model.api_base)


def _known_to_litellm(name: str, api_base: str | None) -> Finding:
    try:
        with beside(_LOOK_UP_SECONDS) as call:
            known: KnownModel = call(look_up, name, api_base)
    except (DreamdError, OSError, EOFError) as error:
        return warning(f"{name} could not be looked up ({error})", "try again")
    missing = known.missing_keys
    if not known.provider:
        advice = "write model.name as provider/model, e.g. openai/gpt-5-mini"
        return problem(f"litellm knows no provider for {name!r}", advice)
    if missing and api_base is None:
        return problem(f"{name} wants a key", f"set {' and '.join(missing)} in the environment")
    if not known.priced:
        advice = "the ceilings in dollars do not bind it, those in tokens do"
        return warning(f"{name}: its price and context window are not known", advice)
    return fine(f"{name} is known" + ("" if missing else ", and so is its key"))
