"""Redaction: texts and crystals without secrets and forgotten texts, as a workspace may remember them."""

from collections.abc import Iterable
from functools import lru_cache

from state.crystals.crystal import Crystal
from state.secrets.policy import Redaction
from state.stores.crystals.crystals import Crystals


def learnable(known: Crystals, crystals: Iterable[Crystal]) -> list[Crystal]:
    """Return the crystals without forgotten texts; nothing is written."""
    tombstones = known.forgotten.tombstones()
    return [spared for crystal in crystals if (spared := tombstones.spared(crystal)) is not None]


@lru_cache(maxsize=2_048)
def redacted(redaction: Redaction, text: str) -> str:
    """Return the text without its secrets; the latest ones are known."""
    return redaction.of(text)
