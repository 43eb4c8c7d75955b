"""Seed: a MEMORY.md from before dreamd is backed up and made into crystals, once."""

from datetime import datetime

from daemon.workspace.document import read_document
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store
from state.document.document import parse
from state.document.seed import seed_crystals
from state.stores.database.connection import to_text, transaction
from state.stores.database.meta import Meta

_FLAG = "seed_migrated"


def migrate(store: Store, now: datetime) -> int | None:
    """Back up a MEMORY.md without the schema and make crystals of it, once; returns how many, None if not due.

    The backup is never overwritten. The file itself is not changed: the first dream appends below it.
    """
    connection = store.crystals.connection
    if Meta(connection).get(_FLAG) is not None or store.lineage.last_version():
        return None
    text, _ = read_document(store)
    if not text.strip() or parse(text).has_schema:
        return None
    if store.disk.read_optional(store.workspace.backup) is None:
        store.disk.write_new(store.workspace.backup, text.encode(), mode=0o644)
    crystals = seed_crystals(redacted(store, text), now)
    with transaction(connection):
        store.crystals.upsert(crystals)
        Meta(connection).put(_FLAG, to_text(now))
    return len(crystals)
