"""Seed: handles a MEMORY.md that predates the workspace: the owner's is backed up and becomes crystals, once.

One that may have come with the folder is a stranger's: its text leaves MEMORY.md, and search shows it as a
stranger's.
"""

import os
from datetime import datetime
from pathlib import Path

from daemon.ingest.existing_memory import belonging
from daemon.ingest.memory_files import absorb_memory_file
from daemon.workspace.document import read_document
from daemon.workspace.stores import Store
from state.document.document import parse
from state.document.seed import seed_crystals
from state.stores.database.connection import to_text, transaction
from state.stores.database.meta import Meta
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import SCRATCH
from state.trust import Trust

_FLAG = "seed_migrated"


def migrate(store: Store, now: datetime) -> int | None:
    """Back up a MEMORY.md without the schema and make crystals of it, once; return how many, None if not due.

    The backup is never overwritten. The file itself stays: the first dream appends below it.
    """
    connection = store.connection
    if Meta(connection).get(_FLAG) is not None or store.lineage.last_version():
        return None
    text, _ = read_document(store.workspace, store.connection)
    if not text.strip() or parse(text).has_schema:
        return None
    if store.memory.disk.read_optional(store.workspace.backup) is None:
        store.memory.disk.write_new(store.workspace.backup, text.encode(), mode=0o644)
    crystals = seed_crystals(store.config.redaction.of(text), now)
    with transaction(connection):
        store.crystals.upsert(crystals)
        Meta(connection).put(_FLAG, to_text(now))
    return len(crystals)


def set_aside(root: Path) -> Path | None:
    """Rename a stranger's MEMORY.md and the notes beside it; return MEMORY.md's new path, None if there was none.

    This happens before the workspace exists, so that no kill leaves them where they would count as the owner's.
    """
    disk, aside = Disk(root), None
    for path in (root / "MEMORY.md", root / SCRATCH):
        if path.exists():
            free = path.with_name(f"{path.name}.seed-backup")
            while os.path.lexists(free):
                free = free.with_name(f"{free.name}-earlier")
            disk.rename(path, free)
            aside = aside or free
    return aside


def take_in(store: Store, aside: Path) -> int:
    """Make crystals of a stranger's MEMORY.md, which search shows as a stranger's; return how many."""
    return absorb_memory_file(store, aside, Trust.WEB, belonging(store.workspace, os.environ)).crystals
