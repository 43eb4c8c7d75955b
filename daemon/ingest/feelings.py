"""Hormone events: what was just said raises hormones; one that rises above .7 leaves a note in the log."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from daemon.workspace.stores import Store
from state.scratch import Note
from state.signals.hormones import Feeling, spike_note
from state.stores.database.connection import transaction

# After three hours at most an eighth of a feeling is left.
FELT_FOR = timedelta(hours=3)
LONGEST_CAUSE = 200


def feel(store: Store, feelings: Iterable[Feeling], cause: str, at: datetime, now: datetime) -> None:
    """Raise hormones for the feelings in something said at `at`, unless that is more than FELT_FOR ago.

    Each hormone that rises above .7 leaves one automatic note in the scratch log. The note is written before the rise
    is committed: a kill in between repeats the note rather than losing it.
    """
    events = tuple(feelings)
    if not events or now - at > FELT_FOR:
        return
    with transaction(store.connection):
        cause = store.crystals.forgotten.without(cause)
        levels, spiked = store.feelings.feel(events, cause[:LONGEST_CAUSE], min(at, now))
        for hormone in spiked:
            text = spike_note(hormone, levels.level(hormone), events, cause)
            spike = Note(text=text, at=now, importance=0.8, auto=True)
            store.notes.inbox.append(spike, store.config.redaction)
