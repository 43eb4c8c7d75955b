"""Forgotten texts in a dream: how many were withheld."""

from collections.abc import Iterable

from daemon.workspace.stores import Store
from graphs.checks import FORGOTTEN
from state.document.operations import Refusal


def withheld_lately(store: Store, refusals: Iterable[Refusal]) -> str:
    """Say how many texts were withheld since the last dream, its own refusals included; empty for none."""
    vetoed = sum(one.figures == FORGOTTEN for one in refusals)
    count = vetoed + store.crystals.forgotten.withheld_lately()
    return f"{count} {'text' if count == 1 else 'texts'} withheld: forgotten" if count else ""
