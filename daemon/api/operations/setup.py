"""The operation that shows the configuration."""

from dataclasses import dataclass
from typing import Annotated

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.config.entries import ConfigEntry, entries
from daemon.config.settings import Config
from state.errors import NotFoundError

LONGEST_KEY = 100


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
        raise NotFoundError(f"the configuration has no key {key!r}", f"it has the sections {sections}")
    return Configuration(str(config.file or ""), meant)
