"""Document: MEMORY.md of a workspace as it is on the disk, or the last version of one that was emptied."""

from daemon.workspace.stores import Store
from state.errors import DocumentError


def read_document(store: Store) -> tuple[str, tuple[str, ...]]:
    """MEMORY.md and what was wrong with it.

    A file that is missing or was emptied is read from the last committed version: an empty file is an accident
    far more often than a wish. Raises DocumentError for a file that is no text.
    """
    path = store.workspace.document
    content = store.disk.read_if_there(path)
    try:
        text = (content or b"").decode()
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{path}: byte {error.start} is not UTF-8, so it is no MEMORY.md",
            "move it away and run 'dreamd dream' (or 'dreamd restore' for an earlier version)",
        ) from error
    if "\0" in text:
        raise DocumentError(f"{path} holds NUL bytes, so it is no MEMORY.md", "move it away and run 'dreamd dream'")
    last = store.lineage.last_version()
    if text.strip() or not last:
        return text, ()
    how = "is missing" if content is None else "is empty"
    return store.journal.text(last), (f"MEMORY.md {how}; version {last} is taken as the old state",)
