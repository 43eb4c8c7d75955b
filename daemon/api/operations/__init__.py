"""Operations: what dreamd offers, one module per subject; each module is imported only when it is needed."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.api.operations import dreams, memory, notes, search, sessions, signals, upkeep
else:

    def __getattr__(name: str) -> object:
        """Import the module of this name at its first use."""
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            raise AttributeError(name) from error


__all__ = ["dreams", "memory", "notes", "search", "sessions", "signals", "upkeep"]
