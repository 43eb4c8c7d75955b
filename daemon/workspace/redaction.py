"""Redaction: texts and crystals without secrets and forgotten texts, as a workspace may remember them."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from state.crystals.crystal import Crystal
from state.secrets.policy import Redaction
from state.stores.crystals.crystals import Crystals


def learnable(known: Crystals, crystals: Iterable[Crystal]) -> list[Crystal]:
    """Return the crystals without forgotten texts; nothing is written."""
    tombstones = known.forgotten.tombstones()
    return [spared for crystal in crystals if (spared := tombstones.spared(crystal)) is not None]


def shown_of(crystals: Crystals, redaction: Redaction) -> Callable[[str], str]:
    """Return how a text that is remembered is shown: without what is forgotten, and without its secrets.

    A long list shows many texts, the same ones again and again: what was redacted is known for a while.
    """
    forgotten = crystals.forgotten.tombstones()
    return lambda text: _redacted(redaction, forgotten.without(text))


@lru_cache(maxsize=2_048)
def _redacted(redaction: Redaction, text: str) -> str:
    return redaction.of(text)
