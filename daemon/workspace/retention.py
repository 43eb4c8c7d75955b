"""Retention: deletes expired rows and files, and copies state.db."""

from datetime import datetime, timedelta
from functools import partial
from sqlite3 import OperationalError

from daemon.workspace.stores import Store
from state.errors import DreamdError, StorageError
from state.stores.database.connection import compact, transaction
from state.stores.database.copies import copies_of, is_copy_due, make_copy, next_number, number_of
from state.stores.database.moments import from_text, to_text
from state.stores.erasing.intent import is_unfinished
from state.stores.history.bootstraps import keep_last
from state.stores.history.originals import Originals

_SWEPT = "swept_at"
_LEFTOVER_AGE = timedelta(hours=1)


def sweep(store: Store, now: datetime) -> int:
    """Delete ledger rows older than `retention` allows, once a day; return how many.

    Keep the latest bootstrap receipts. Delete files that are no longer needed on every call.
    """
    workspace, disk = store.workspace, store.memory.disk
    store.notes.sweep(now)
    for folder in (workspace.root, workspace.scratch.parent, workspace.state, workspace.index):
        disk.remove_leftovers(folder, (now - _LEFTOVER_AGE).timestamp())
    sweeps = {
        "the receipts of bootstraps were not shortened": partial(keep_last, workspace, disk),
        "old originals of redacted texts were not removed": partial(Originals(workspace).sweep, now),
    }
    for failed, swept in sweeps.items():
        try:
            swept()
        except DreamdError as error:
            store.notices.add(f"{failed} ({error})")
    keep, connection = store.config.retention, store.connection
    last = store.meta.get(_SWEPT)
    if last is not None and abs(now - from_text(last)) < timedelta(days=1):
        return 0
    before = now - timedelta(days=keep.ledger_days)
    with transaction(connection):
        store.memory.check()
        store.meta.put(_SWEPT, to_text(now))
        rows = store.ledger.sweep(before, now - timedelta(days=keep.answers_days))
        rows += store.feelings.sweep(before)
        rows += store.questions.sweep(now, keep.gaps)
    try:
        compact(connection)
    except OperationalError as error:  # a long read by another process, or no room for a second file
        store.notices.add(f"state.db was not made smaller ({error}); the next dream tries again")
    return rows


def copy_if_due(store: Store, now: datetime, every: timedelta) -> None:
    """Copy state.db if the last copy is older than `every`; add a notice if the copy fails."""
    database, memory = store.workspace.database, store.memory
    if is_unfinished(store.connection) or not is_copy_due(database, now, every):
        return
    try:
        with memory.alone:
            store.notes.rotate(next_number(database))
        make_copy(database, memory.disk, memory.check)
        store.notes.drop_covered(min(map(number_of, copies_of(database))))
    except StorageError as error:
        store.notices.add(f"state.db was not copied ({error})")
