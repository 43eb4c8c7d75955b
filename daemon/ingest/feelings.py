"""Hormone events: what was just said raises hormones, and one that rises far leaves a note in the log."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from daemon.workspace.stores import Store
from state.scratch import Note
from state.signals.hormones import Feeling, spike_note
from state.stores.crystals.hormones import Feelings
from state.stores.database.connection import transaction

# After three hours an eighth of what was felt is left, or less.
FELT_FOR = timedelta(hours=3)


def feel(store: Store, feelings: Iterable[Feeling], cause: str, at: datetime, now: datetime) -> None:
    """Raise the events of something said at that time; what is long past is felt no more.

    Each hormone that rises above .7 leaves one automatic note in the scratch log. It is written before the rise is
    committed: a kill between the two writes it twice rather than never.
    """
    events = tuple(feelings)
    if not events or now - at > FELT_FOR:
        return
    with transaction(store.connection):
        cause = store.crystals.forgotten.without_forgotten(cause)
        levels, spiked = Feelings(store.connection, store.config.baselines).feel(events, cause[:200], min(at, now))
        for hormone in spiked:
            text = spike_note(hormone, levels.level(hormone), events, cause)
            spike = Note(text=text, at=now, importance=0.8, auto=True)
            store.notes.inbox.append(spike, store.config.redaction)
