"""What dreamd does for whoever asks, a module a subject; who needs one of them waits for no other."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.api.operations import dreams, memory, notes, search, sessions, signals, upkeep
else:

    def __getattr__(name: str) -> object:
        """Import a module when it is first asked for."""
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(name) from error


__all__ = ["dreams", "memory", "notes", "search", "sessions", "signals", "upkeep"]
