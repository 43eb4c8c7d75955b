"""Document: MEMORY.md of a workspace as it is on the disk, or the last version of one that was emptied."""

from daemon.workspace.stores import Store
from state.stores.history.journal import decode_document


def read_document(store: Store) -> tuple[str, tuple[str, ...]]:
    """The text of MEMORY.md, and the problems with it.

    A file that is missing or was emptied is read from the last committed version: an empty file is an accident
    far more often than a wish. Raises DocumentError for a file that is no text.
    """
    path = store.workspace.document
    content = store.disk.read_optional(path)
    text = decode_document(content or b"", path)
    last = store.lineage.last_version()
    if text.strip() or not last:
        return text, ()
    how = "is missing" if content is None else "is empty"
    return store.journal.text(last), (f"MEMORY.md {how}; version {last} is taken as the old state",)
