"""Forgotten texts in a dream: what the owner writes again is unforgotten, and what was withheld is counted."""

from collections.abc import Iterable
from contextlib import suppress

from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from graphs.checks import FORGOTTEN
from state.document.document import parse
from state.document.operations import Refusal
from state.errors import DreamdError
from state.stores.database.connection import transaction
from state.stores.erasing.intent import is_unfinished
from state.text.words import normalise


def unforget_written(store: Store) -> int:
    """Unforget what the owner wrote into MEMORY.md since the last version; returns how many lines held some of it.

    The line stays, and what it says may be learnt again. Nothing is unforgotten while a forgetting is unfinished: the
    line may be one that is still to be erased.
    """
    connection = store.crystals.connection
    forgotten = store.crystals.forgotten
    if not forgotten.any() or is_unfinished(connection):
        return 0
    text, _ = read_document(store)
    known = {normalise(line.text) for line in store.lineage.current_lines()}
    last, _ = store.lineage.standing()
    with suppress(DreamdError):  # a record that cannot be read: the ledger knows the lines of the sections
        committed = parse(store.memory.text(last)) if last else None
        known |= {block.key for part in committed.parts for block in part.lines} if committed else set()
    with transaction(connection):
        written = [block for part in parse(text).parts for block in part.lines if block.key not in known]
        return sum(forgotten.unblock_all_of(block.text) for block in written)


def withheld_lately(store: Store, refusals: Iterable[Refusal]) -> str:
    """How many texts were withheld since the last dream, these refusals of its own included; empty for none."""
    vetoed = sum(one.figures == FORGOTTEN for one in refusals)
    count = vetoed + store.crystals.forgotten.withheld_lately()
    return f"{count} {'text' if count == 1 else 'texts'} withheld: forgotten" if count else ""
