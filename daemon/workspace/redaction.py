"""Redaction: texts and crystals without secrets and forgotten texts, as a workspace may remember them."""

from collections.abc import Iterable

from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal


def learnable(store: Store, crystals: Iterable[Crystal]) -> list[Crystal]:
    """The crystals without forgotten texts; nothing is written."""
    tombstones = store.crystals.forgotten.tombstones()
    return [spared for crystal in crystals if (spared := tombstones.spared(crystal)) is not None]


def redacted(store: Store, text: str) -> str:
    """The text without its secrets."""
    return store.config.secrets.redaction.of(text)
