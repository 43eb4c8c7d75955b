"""Redaction: what of a text may be remembered in a workspace, without its secrets and what was forgotten."""

from collections.abc import Iterable

from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal


def learnable(store: Store, crystals: Iterable[Crystal]) -> list[Crystal]:
    """These without what is forgotten; nothing is written."""
    buried = store.crystals.forgotten.tombstones()
    return [spared for crystal in crystals if (spared := buried.spared(crystal)) is not None]


def redacted(store: Store, text: str) -> str:
    """The text as it may be remembered."""
    return store.config.secrets.redaction.of(text)
