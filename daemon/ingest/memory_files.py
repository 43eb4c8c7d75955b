"""Memory files: instructions and memories from before dreamd become crystals, each by whose word it is."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from daemon.ingest.existing_memory import LONGEST_FILE
from daemon.ingest.formats import prose
from daemon.ingest.formats.conversation import Watermark
from daemon.ingest.memory_text import memory_text
from daemon.ingest.transcripts import name_of, turn_crystals
from daemon.workspace.redaction import learnable, redacted
from daemon.workspace.stores import Store
from state.errors import DocumentError
from state.stores.disk.disk import Disk, opened, read_whole
from state.stores.disk.syscalls import storage_errors
from state.trust import Trust, least_trust

# Somebody found it worth keeping, as with a MEMORY.md from before; a stranger's word is worth no more for that.
_IMPORTANCE = {Trust.OWNER: 0.75, Trust.AGENT: 0.7}


@dataclass(frozen=True, slots=True)
class TakenIn:
    """How many crystals are new, in how many parts the file came, and how many files it imports."""

    crystals: int
    parts: int
    imports: int
    problems: tuple[str, ...] = ()


def absorb_memory_file(store: Store, path: Path, trust: Trust, belongs: Callable[[str], bool]) -> TakenIn:
    """Make a crystal of each part of a file that has none, in one transaction; the file is only read.

    `trust`: whose word it is at most. What is known already stays as it is, unless somebody who is trusted more says
    it now. Raise StorageError and DocumentError for a file that cannot be read, or that is in the workspace and a
    link out of it or to what is hidden.
    """
    root = store.workspace.root
    real = Disk(root).target(path) if path.is_relative_to(root) else path
    with storage_errors(path), opened(real) as file:
        changed = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
        content = read_whole(file, path, LONGEST_FILE)
    try:
        text = memory_text(content, belongs)
    except DocumentError as error:
        raise DocumentError(f"{path}: {error.what}", error.advice) from error
    found = list(prose.read(text.content, str(path), changed, Watermark(), prose.MARKDOWN))
    turns = [turn for reading in found for turn in reading.turns]
    problems = [str(problem) for reading in found for problem in reading.problems]
    spoken = [replace(turn, trust=least_trust([turn.trust, trust])) for turn in turns]
    made = turn_crystals(store, spoken, name_of(store, path))
    worthy = [replace(one, importance=max(one.importance, _IMPORTANCE.get(one.trust, 0.0))) for one in made]
    crystals = {crystal.id: crystal for crystal in store.crystals.known(learnable(store, worthy))}
    for known in store.crystals.get(crystals):
        if known.trust.rank >= crystals[known.id].trust.rank:
            del crystals[known.id]
    new = store.crystals.upsert(crystals.values())
    return TakenIn(new, len(turns), text.imports, tuple(redacted(store, problem) for problem in problems))
