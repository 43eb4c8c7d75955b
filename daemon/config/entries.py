"""Entries: the effective configuration, key by key: where each value comes from, and what it means.

The daemon's owner sees it, also in a browser, so possible secrets are redacted.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from daemon.config.change import AT_START, why_fixed
from daemon.config.settings import Config
from state.codec import each_text
from state.secrets.policy import DEFAULT as REDACTION

DEFAULT = "default"
# Every key with its default and a comment; a symbolic link to the file at the top of the repository.
_FILE = Path(__file__).with_name("config.yaml")
_LINE = re.compile(r"( *)(?:\"([^\"]+)\"|(\w+)):.*?(?:\s#\s*(.*))?")
# A comment that goes on below its key; what stands at the beginning of a line is about the whole file.
_MORE = re.compile(r"\s+#\s*(.*)")
# Characters shown of a text.
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A key of the configuration ("dream.ask") with its value and its default, both as JSON.

    `origin`: "default", or the file or environment variable that set it. Of `secrets.allow` only the number of texts
    is shown, and an address without login and query. `choices`: the values that it may have; empty if they are
    open. `fixed`: why it can be set at a terminal alone. `at_start`: a running daemon takes it up at its next start.
    """

    key: str
    value: str
    default: str
    origin: str
    meaning: str
    choices: tuple[str, ...] = ()
    fixed: str = ""
    at_start: bool = False


def entries(config: Config) -> tuple[ConfigEntry, ...]:
    """Return all keys, in the order of config.yaml."""
    defaults, said = dict(_leaves(Config(), "")), meanings()
    return tuple(
        ConfigEntry(
            key=key,
            value=_shown(key, value),
            default=_shown(key, defaults[key]),
            origin=config.origins.get(key, DEFAULT),
            meaning=said.get(key, ""),
            choices=_choices(key),
            fixed=why_fixed(config, os.environ, key),
            at_start=key in AT_START,
        )
        for key, value in _leaves(config, "")
    )


def _choices(key: str) -> tuple[str, ...]:
    """Return the values that a key may have; empty if they are open."""
    kind: Any = Config
    for name in key.split("."):
        kind = kind.model_fields[name].annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(one.value) for one in kind)
    return get_args(kind) if get_origin(kind) is Literal else ()


@cache
def meanings() -> Mapping[str, str]:
    """Return each key's comment in config.yaml, or that of its section if it has none."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        match, more = _LINE.fullmatch(line), _MORE.fullmatch(line)
        if more is not None:
            found[".".join(name for _, name in path)] += f" {more[1]}"
        if match is None:
            continue
        indent, quoted, plain, comment = match.groups()
        path = [(depth, name) for depth, name in path if depth < len(indent)]
        above = ".".join(name for _, name in path)
        path.append((len(indent), quoted or plain))
        found[".".join(name for _, name in path)] = (comment or found.get(above, "")).strip()
    return found


def _leaves(section: BaseModel, prefix: str) -> Iterator[tuple[str, Any]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", section.model_dump(mode="json", include={name})[name]


def _shown(key: str, value: Any) -> str:  # noqa: ANN401 - any value of a configuration
    if key == "secrets.allow":
        value = f"{len(value)} texts"
    if key == "model.api_base" and value:
        value = _without_login(value)
    return json.dumps(each_text(value, lambda text: REDACTION.of(text)[:_LONGEST]), ensure_ascii=False)


def _without_login(address: str) -> str:
    """Return the address without user, password, query and fragment, which may hold keys."""
    scheme, slashes, rest = address.rpartition("//") if address.count("//") == 1 else ("", "", address)
    # A password may contain any character, so everything before the last @ counts as the login.
    login, at, server = rest.rpartition("@")
    place = re.split(r"[?#]", server, maxsplit=1)
    return (
        f"{scheme}{slashes}{'[redacted]@' if login or at else ''}{place[0]}{'?[redacted]' if len(place) > 1 else ''}"
    )
