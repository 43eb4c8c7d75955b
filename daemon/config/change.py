"""Change: sets or unsets one key in the user's file, after the whole file was checked; and who may set which key.

At a terminal a person sets every key. Whoever only reaches the daemon (a browser, a program at the socket) sets the
`SETTABLE` ones, and names neither a program nor an address: what dreamd runs, and where it sends a memory and the
keys of a provider, is for who can write the file anyway.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from daemon.config.edit import as_yaml, edited, found, without
from daemon.config.layers import sections_in, value_of, variable_of
from daemon.config.paths import make_private_folder
from daemon.config.settings import Config, checked
from state.errors import ConfigError, NothingToDoError
from state.stores.disk.disk import Disk

# A model of a provider, or an agent's program: a word that names no address, as some providers would take one.
_MODEL = re.compile(r"(?!.*(?://|https?:))(?!command:)[A-Za-z0-9][\w.:@/\[\]-]{0,99}", re.ASCII | re.IGNORECASE)
_EMBEDDING = re.compile("multilingual|english")
_ANY = re.compile(r"[^\x00-\x1f\x7f]{0,100}")
SETTABLE: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "model.name": _MODEL,
        "embeddings.model": _EMBEDDING,
        **dict.fromkeys(
            "timezone dream.ask dream.heard dream.interval_minutes dream.idle_minutes dream.min_chunks"
            " dream.context_window limits.usd_per_day limits.tokens_per_day daemon.usd_per_day"
            " retention.answers_days retention.ledger_days connect.new log.level".split(),
            _ANY,
        ),
    }
)
"""The keys that can be set without a terminal, and what their values look like."""
AT_START = frozenset(
    "embeddings.model http.host http.port log.level log.form".split()
    + [f"fleet.{name}" for name in type(Config().fleet).model_fields]
)
"""The keys that a running daemon takes up only at its next start."""


@dataclass(frozen=True, slots=True)
class Change:
    """A key that was set or unset in `file`.

    `line`: what the file says of it now, at the line `number`; "" and 0 if nothing. `before`: the value that it had
    in the file; None without one.
    """

    file: str
    line: str
    number: int
    before: str | None


def why_fixed(config: Config, environment: Mapping[str, str], key: str, value: str | None = None) -> str:
    """Return why a key cannot be set without a terminal, or not to this value; "" if it can."""
    by_command = f"'dreamd config set {key} VALUE'"
    if key not in SETTABLE:
        return f"at a terminal {by_command} sets it"
    if variable := variable_of(key, environment):
        return f"{variable} in the daemon's environment sets it, and comes before the file"
    section, _, name = key.partition(".")
    stands = getattr(getattr(config, section), name) if name else getattr(config, section)
    # What could not be put back from here is not replaced from here.
    if any(one not in (None, "") and not SETTABLE[key].fullmatch(str(one)) for one in (stands, value)):
        return f"a program, a folder or an address is set at a terminal alone, by {by_command}"
    return ""


def change(file: Path, key: str, value: str | None) -> Change:
    """Set the key in this file, or without a value unset it; comments, order and form of the rest stay.

    Raise ConfigError if the file would be no valid configuration, and NothingToDoError if there is nothing to unset.
    """
    file = Path(os.path.realpath(file))
    if not file.parent.exists():
        make_private_folder(file.parent)
    disk, path = Disk(file.parent), key.split(".")
    _changed(disk, file, key, value)  # an invalid one creates no file
    with disk.locked(file, b""):
        old, new = _changed(disk, file, key, value)
        disk.write_atomic(file, new.encode())
    was, (line, number, _) = found(old, path), found(new, path) or ("", 0, None)
    return Change(str(file), line, number, _as_given(was[2]) if was is not None else None)


def _as_given(value: object) -> str:
    """Return a value as `value_of` reads it."""
    return value if isinstance(value, str) else as_yaml(value)


def _changed(disk: Disk, file: Path, key: str, value: str | None) -> tuple[str, str]:
    """Return the file's text before and after the change."""
    text, path = (disk.read_optional(file) or b"").decode(errors="surrogateescape"), key.split(".")
    sections_in(text, file)
    new = without(text, path) if value is None else edited(text, path, value_of(value))
    if new is None:
        raise NothingToDoError(f"{file} does not set {key}", "'dreamd config' shows where each value comes from")
    try:
        checked(sections_in(new, file), {})
    except ConfigError as error:
        what = error.what.removeprefix("the configuration: ")
        raise ConfigError(what, f"{file} was not changed") from None
    return text, new
