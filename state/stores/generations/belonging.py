"""Belonging: which files of a workspace's folder are part of its generations, and which are this machine's alone.

Everything below the folder is part of them: documents, the log, transcripts, databases. Not: links and what is no
regular file; temporary files; SQLite's files beside a database, of which a copy is taken; locks, which are the
machine's; the vector index and the copies of state.db, which are made again from it; and the originals of redacted
notes, for a secret that was taken out of the memory leaves the machine in no way.
"""

from pathlib import PurePosixPath

from state.stores.disk.disk import TEMPORARY
from state.stores.disk.workspace import STATE_FOLDER

CACHES = (f"{STATE_FOLDER}/index", f"{STATE_FOLDER}/copies")
DOCUMENT = "MEMORY.md"
STATE_DB = f"{STATE_FOLDER}/state.db"
CHECKPOINTS = f"{STATE_FOLDER}/checkpoints/dreams.db"
DATABASES = (CHECKPOINTS, STATE_DB)
BESIDE = ("-wal", "-shm", "-journal")
LOCKS = frozenset(f"{STATE_FOLDER}/{name}" for name in ("lock", "lock.new", "lock.takeover", "lock.commit", "fence"))
VECTORS = frozenset(f"{STATE_FOLDER}/index/vectors.db{ending}" for ending in ("", *BESIDE))
KEPT = LOCKS | VECTORS
"""What stays on a machine from one generation to another; the vectors are compared with state.db."""
FOLDERS = ("memory", f"{STATE_FOLDER}/index", f"{STATE_FOLDER}/checkpoints")
"""Those that every workspace has; a generation knows files alone."""

_ORIGINALS = "originals.jsonl"
_LONGEST_NAME, _LONGEST_PART = 4_096, 255


def belongs(name: str) -> bool:
    """Return whether a regular file of this name (with slashes, from the folder on) is part of a generation."""
    path = PurePosixPath(name)
    if path.name.endswith(TEMPORARY) or path.name.startswith(_ORIGINALS):
        return False
    if name in LOCKS or name.startswith(tuple(f"{cache}/" for cache in CACHES)):
        return False
    return not any(name == database + ending for database in DATABASES for ending in BESIDE)


def may_be_placed(name: str) -> bool:
    """Return whether a manifest may have a file of this name: below the folder, written in one way only."""
    parts = name.split("/")
    if len(name.encode("utf-8", "surrogatepass")) > _LONGEST_NAME or "\0" in name:
        return False
    if any(part in {"", ".", ".."} or len(part.encode("utf-8", "surrogatepass")) > _LONGEST_PART for part in parts):
        return False
    return belongs(name) and name not in {*CACHES, STATE_FOLDER}
