"""Operations that set dreamd up: the configuration, the model that dreams, and the agents that are connected.

They are the owner's: for no agent, no tenant of a fleet, and no program at the port. What they may set, to whoever
only reaches the daemon, is said in `daemon.config.change`.
"""

import os
import shlex
from dataclasses import dataclass, replace
from typing import Annotated

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.config.change import SETTABLE, change, why_fixed
from daemon.config.entries import ConfigEntry, entries
from daemon.config.layers import file_place
from daemon.config.paths import program
from daemon.config.settings import Config, checked
from daemon.connect.agents import AGENTS, Agent, agent_of, changes, connect, disconnect, is_installed, remains
from daemon.connect.check import CheckResult, check
from daemon.connect.place import Place
from daemon.models.choices import ModelChoice, Tried, key_of, model_choices
from state.errors import DreamdError, ForbiddenError, NotFoundError, NothingToDoError, StorageError
from state.secrets.policy import DEFAULT as REDACTION
from state.text.words import did_you_mean

LONGEST_KEY = 100
LONGEST_VALUE = 100


@dataclass(frozen=True, slots=True)
class Configuration:
    """Keys and values of the configuration. `file`: the user's file that was read; empty without one."""

    file: str
    entries: tuple[ConfigEntry, ...]


def configuration_text(shown: Configuration) -> str:
    """List the keys, each with its value, origin and meaning."""
    rows = list[str]()
    for one in shown.entries:
        default = "" if one.value == one.default else f" (default {one.default})"
        rows.append(f"{one.key:<30} {one.value}")
        rows.append(f"    {one.origin}{default}" + (f": {one.meaning}" if one.meaning else ""))
    return "\n".join(rows)


@operation("configuration", reads=True, text=configuration_text, operator=True)
def configuration(
    access: WorkspaceAccess,
    key: Annotated[
        str, Arg("A key such as dream.ask, or a section; empty: all", place=True, max_length=LONGEST_KEY)
    ] = "",
) -> Configuration:
    """Return the configuration as it is in force, where each value comes from, and what it means."""
    return in_force(access.config, key)


def in_force(config: Config, key: str) -> Configuration:
    """Return the key, all keys of a section, or all if `key` is empty. Raise NotFoundError if there is none."""
    every = entries(config)
    meant = tuple(one for one in every if not key or f"{one.key}.".startswith(f"{key}."))
    if not meant:
        sections = ", ".join(dict.fromkeys(one.key.partition(".")[0] for one in every))
        near = did_you_mean(key, (one.key for one in every))
        raise NotFoundError(f"the configuration has no key {key!r}{near}", f"it has the sections {sections}")
    return Configuration(str(config.file or ""), meant)


@dataclass(frozen=True, slots=True)
class SettingSet:
    """A setting that was written into `file`; at `number` is now this `line` (0: none, so the default counts).

    `before`: its value in the file until then; None without one. `at_start`: it counts from the daemon's next start.
    """

    key: str
    file: str
    line: str
    number: int
    before: str | None
    at_start: bool


@operation("set_setting", remote=False, operator=True)
def set_setting(
    access: WorkspaceAccess,
    key: Annotated[str, Arg("Such as dream.ask", min_length=1, max_length=LONGEST_KEY)],
    value: Annotated[
        str | None, Arg("As config.yaml has it; none: the default again", max_length=LONGEST_VALUE)
    ] = None,
) -> SettingSet:
    """Write one of the settings that matter into the owner's config.yaml, and have the daemon read it again."""
    (entry, *more) = in_force(access.config, key).entries
    if more:
        raise NotFoundError(f"{key} is a section", f"name a key of it, such as {entry.key}")
    if why := why_fixed(access.config, os.environ, key, value):
        raise ForbiddenError(f"{key} cannot be set here: {why}")
    try:
        done = change(access.config.file or file_place(None, os.environ), key, value)
    except StorageError as error:  # such as a service whose sandbox makes it read-only
        words = ["set", key, value] if value else ["unset", key]
        raise StorageError(error.what, f"run: dreamd config {shlex.join(words)}") from error
    access.reload()
    return SettingSet(key, done.file, done.line, done.number, done.before, entry.at_start)


# ------------------------------------------------------------------- the model


@dataclass(frozen=True, slots=True)
class ModelChoices:
    """Models to choose from, and the `key` that the one in force needs; "" if none is known. `has_key`: it is set."""

    choices: tuple[ModelChoice, ...]
    key: str
    has_key: bool


@operation("model_choices", remote=False, reads=True, operator=True)
def choices(access: WorkspaceAccess) -> ModelChoices:
    """Return the models that could dream here, and what each lacks."""
    key = key_of(access.config.model.name or "")
    return ModelChoices(tuple(model_choices(os.environ)), key, bool(os.environ.get(key)))


def tried_text(tried: Tried) -> str:
    """Say what the model answered, how long it took and what it cost; or what is wrong."""
    if tried.problem:
        return f"{tried.problem}; {tried.advice}" if tried.advice else tried.problem
    price = f"${tried.usd:.4f}" if tried.usd else "price not known"
    return f"{tried.model}: {tried.answer}\n{tried.seconds:.1f} s, {tried.tokens:,} tokens, {price}"


@operation("try_model", remote=False, long=True, text=tried_text, operator=True)
def try_model(
    access: WorkspaceAccess,
    name: Annotated[str, Arg("As model.name has it; empty: the one in force", place=True, max_length=100)] = "",
) -> Tried:
    """Ask a model one short question, within the ceilings: what it answers, how long it takes, what it costs."""
    config = access.config
    if name and name != config.model.name:
        if not SETTABLE["model.name"].fullmatch(name):
            raise ForbiddenError("only a model of a provider, or an agent, is tried", "set a program at a terminal")
        whole = config.model_dump(mode="json")
        model = checked({**whole, "model": {**whole["model"], "name": name}}, {}).model
        config = config.model_copy(update={"model": model})
    if config.model.name is None:
        raise NothingToDoError("no model dreams", "'dreamd config set model.name NAME' chooses one")
    from daemon.upkeep.trial import ask_once  # late: an idle daemon saves the memory of its imports

    with access.write() as store:
        return ask_once(store, config)


# ------------------------------------------------------------------- agents


@dataclass(frozen=True, slots=True)
class Connection:
    """An agent that dreamd can connect, whether it is `installed` here and `connected`.

    `changes` is what connecting it would run and write, or disconnecting it; `problem` why neither can be. `advice`:
    what is left to do by hand.
    """

    name: str
    title: str
    installed: bool
    connected: bool
    changes: tuple[str, ...] = ()
    problem: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Connections:
    """Every agent that dreamd knows."""

    agents: tuple[Connection, ...]


@operation("connections", remote=False, reads=True, operator=True)
def connections(_: WorkspaceAccess) -> Connections:
    """Return the agents that dreamd can connect, and what that would run and write."""
    place = Place(program(), os.environ)
    return Connections(tuple(_connection(one, place) for one in AGENTS))


@operation("connect_agent", remote=False, long=True, operator=True)
def connect_agent(
    _: WorkspaceAccess,
    name: Annotated[str, Arg("Such as claude-code", min_length=1, max_length=40)],
    undo: Annotated[bool, Arg("Take out what connects it")] = False,
) -> Connection:
    """Connect an agent to the owner's memories, once for all projects, as 'dreamd connect' does; or disconnect it."""
    agent, place = agent_of(name), Place(program(), os.environ)
    (disconnect if undo else connect)(agent, place)
    return _connection(agent, place)


@dataclass(frozen=True, slots=True)
class AgentCheck:
    """What was tried of an agent's connection, as the agent does it: `state` is ok, WRONG or waits for you."""

    name: str
    title: str
    checks: tuple[CheckResult, ...]


@operation("check_agent", remote=False, reads=True, long=True, operator=True)
def check_agent(
    access: WorkspaceAccess, name: Annotated[str, Arg("Such as claude-code", min_length=1, max_length=40)]
) -> AgentCheck:
    """Try whether a connected agent reaches this memory: its server, its hook, and the agent itself."""
    agent = agent_of(name)
    tried = check(agent, Place(program(), os.environ), access.workspace.root)
    return AgentCheck(name, agent.title, tuple(replace(one, what=REDACTION.of(one.what)) for one in tried))


def _connection(agent: Agent, place: Place) -> Connection:
    found, name, title = is_installed(agent, place), agent.name, agent.title
    try:
        missing, there = changes(agent, place) if found else [], remains(agent, place)
    except DreamdError as error:
        return Connection(name, title, installed=found, connected=False, problem=error.what, advice=error.advice)
    is_connected = bool(there) and not missing
    # What is quoted of a file has lines; a command is the program's own, and is shown as it is run.
    every = there if is_connected else missing
    plan = tuple(REDACTION.of(one) if "\n" in one else one for one in every)
    return Connection(name, title, found, is_connected, plan, "", agent.advice)
