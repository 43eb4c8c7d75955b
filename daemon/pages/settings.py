"""Settings: the settings that matter, the model that dreams, the agents that are connected, and what is wrong."""

import json
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from daemon.api.operations.setup import (
    LONGEST_KEY,
    LONGEST_VALUE,
    check_agent,
    choices,
    configuration,
    connect_agent,
    connections,
    set_setting,
    try_model,
)
from daemon.api.operations.upkeep import doctor
from daemon.config.entries import ConfigEntry
from daemon.config.paths import service_command
from daemon.connect.check import State
from daemon.models.dreamer import NO_MODEL
from daemon.pages.page import Act, Ask, Done, Page, Undo
from daemon.workspace.checks import Level
from state.bootstrap import budget_for
from state.errors import ConflictError, NothingToDoError
from state.text.words import counted

Key = Annotated[str, Field(max_length=LONGEST_KEY)]
Value = Annotated[str, Field(max_length=LONGEST_VALUE)]
_MODEL, _WINDOW, _EMBEDDING = "model.name", "dream.context_window", "embeddings.model"
GROUPS = {
    "What asks you": {
        "dream.ask": "Changes that need your yes",
        "dream.heard": "What an agent noted after it read a page",
    },
    "When it dreams": {
        "dream.interval_minutes": "Minutes between dreams",
        "dream.idle_minutes": "Minutes of quiet before one",
        "dream.min_chunks": "New notes that one needs",
    },
    "What it may cost": {
        "limits.usd_per_day": "Dollars a day, for this memory",
        "limits.tokens_per_day": "Tokens a day, for this memory",
        "daemon.usd_per_day": "Dollars a day, for all memories",
    },
    "What it keeps": {
        _WINDOW: "Room of MEMORY.md",
        "retention.answers_days": "Days to keep prompts and answers",
        "retention.ledger_days": "Days to keep what each dream did",
    },
    "Searches, dates, projects": {
        "timezone": "Time zone",
        "connect.new": "Projects without a memory",
        _EMBEDDING: "Search by meaning",
        "log.level": "What the log says",
    },
}


class Setting(NamedTuple):
    """A setting as a form has it: `value` and `default` as a person types them, "" for null."""

    label: str
    entry: ConfigEntry
    value: str
    default: str
    choices: tuple[str, ...]
    beside: str


def _settings(ask: Ask) -> Mapping[str, object]:
    by_key = {one.key: one for one in ask(configuration).entries}
    ask(connections)
    ask(choices)
    groups = {title: [_setting(by_key[key], label) for key, label in rows.items()] for title, rows in GROUPS.items()}
    nothing = dict.fromkeys(("tried", "checked", "doctor"))  # which acts show
    return {**nothing, "model": _setting(by_key[_MODEL], "The model"), "no_model": NO_MODEL, "groups": groups}


def _setting(entry: ConfigEntry, label: str) -> Setting:
    value, default, known = _plain(entry.value), _plain(entry.default), entry.choices
    if entry.key == _EMBEDDING:
        known = ("", "multilingual", "english")
    beside = (
        f"so MEMORY.md has room for {counted(budget_for(int(value)), 'character')}" if entry.key == _WINDOW else ""
    )
    return Setting(label, entry, value, default, known, beside)


def _plain(text: str) -> str:
    """Return a value's JSON as a person types it."""
    value = json.loads(text)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _set(ask: Ask, key: Key, value: Value = "", made: Value | None = None) -> Done:
    """Set a key, or without a value unset it; `made`: only if that is still its value."""
    if made is not None and _value(ask, key) != made:
        raise ConflictError(f"{key} was set anew since then: nothing was undone", "set it here")
    try:
        done = ask(set_setting, key, value.strip() or None)
    except NothingToDoError:
        return Done(f"{key} is the default already.")
    later = f"from the daemon's next start on: '{service_command('restart')}'" if done.at_start else "from now on"
    line = f"line {done.number} is “{done.line}”" if done.number else f"{key} is not in it, so the default counts"
    back = {"key": key, "value": done.before or "", "made": _value(ask, key)}
    return Done(f"Saved in {done.file}: {line}. It counts {later}.", key, undo=Undo("set", back))


def _value(ask: Ask, key: str) -> str:
    return _plain(ask(configuration, key).entries[0].value)


def _model(ask: Ask, value: Value = "", deed: Literal["save", "try"] = "save") -> Done:
    """Choose the model that dreams, or ask it one short question first."""
    if deed == "save":
        return _set(ask, _MODEL, value)
    tried = ask(try_model, value.strip())
    said = f"{tried.model} did not answer." if tried.problem else f"{tried.model} answered."
    return Done(said, _MODEL, replies={"tried": tried, "typed": value})


def _connect(ask: Ask, name: Key, undo: bool = False) -> Done:
    done = ask(connect_agent, name, undo)
    if undo:
        return Done(f"{done.title} is not connected any more.", name, undo=Undo("connect", {"name": name}))
    said = f"{done.title} is connected: its next session begins with what is remembered."
    return Done(said, name, undo=Undo("connect", {"name": name, "undo": "true"}))


def _check(ask: Ask, name: Key) -> Done:
    """Try a connected agent; it may take a minute."""
    done = ask(check_agent, name)
    wrong = sum(one.state is not State.OK for one in done.checks)
    said = f"{counted(wrong, 'thing')} to look at" if wrong else "it reaches this memory"
    return Done(f"{done.title}: {said}.", replies={"checked": done})


def _doctor(ask: Ask) -> Done:
    """Examine everything; a torn index is mended."""
    wrong = [one for one in ask(doctor).findings if one.level is not Level.OK]
    return Done(f"{counted(len(wrong), 'thing')} to look at." if wrong else "Nothing is wrong.", replies=ask.replies)


_ACTS = (
    Act(_set, "set"),
    Act(_model, "model", long=True),
    Act(_connect, "connect", long=True),
    Act(_check, "check", long=True, reads=True),
    Act(_doctor, "doctor", long=True, reads=True),
)
SETTINGS = Page("settings", "Settings", _settings, acts=_ACTS)
