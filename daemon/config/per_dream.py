"""Per dream: the settings that a command takes along to one dream of a running daemon.

Over the Unix socket of the same user alone: a program at the port can choose neither a model nor what it costs.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from daemon.config.layers import layers, of_variables
from daemon.config.settings import Config, checked
from state.agents import COMMAND
from state.codec import decode, encode
from state.errors import ConfigError, StorageError, UsageError

SECTIONS = ("model", "dream", "limits", "sources")
"""The sections whose keys may differ from one dream to the next; the others are the daemon's own."""


@dataclass(frozen=True, slots=True)
class DreamSettings:
    """Keys of `SECTIONS` in place of the daemon's, and environment variables with keys of the model's provider."""

    sections: Mapping[str, Mapping[str, Any]]
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def applied(self, config: Config) -> Config:
        """Return the configuration with these settings. Raise ConfigError naming an invalid one.

        Another command as the model is refused: whoever may only reach the daemon must not have it run programs.
        """
        whole = config.model_dump(mode="json")
        for name, keys in self.sections.items():
            whole[name] |= keys
        wanted = checked(whole, {})
        if wanted.model.name != config.model.name and (wanted.model.name or "").startswith(COMMAND):
            what = "model.name: a running daemon dreams with no command but the one in its own configuration"
            raise ConfigError(what, "set it with 'dreamd config set model.name'")
        return config.model_copy(update={name: getattr(wanted, name) for name in self.sections})

    def header(self) -> str:
        """Return the settings as the value of an HTTP header."""
        return quote(encode(self))

    @classmethod
    def parse(cls, header: str) -> "DreamSettings":
        """Parse the text of `header`. Raise UsageError."""
        with suppress(StorageError):
            given = decode(cls, unquote(header))
            has_nul = any("\0" in text for pair in given.variables.items() for text in pair)
            if given.sections.keys() <= set(SECTIONS) and not has_nul:
                return given
        raise UsageError(
            "the settings for this dream cannot be read", "restart the daemon, which is of another version"
        )


def settings_of_call(
    path: Path | None, environment: Mapping[str, str], config: Config
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return what a dream takes along from a call with this configuration, and the sections that the call sets.

    That is what its variables set, or the whole of `SECTIONS` if it names a file (`path`, or DREAMD_CONFIG).
    """
    own = layers(path, environment)[0] if path is not None else of_variables(environment)
    if path is not None or environment.get("DREAMD_CONFIG"):
        return config.model_dump(mode="json", include=set(SECTIONS)), frozenset(own)
    return {name: own[name] for name in SECTIONS if name in own}, frozenset(own)
