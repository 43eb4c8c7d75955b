"""Somebody who reads MEMORY.md all the time: at every look it is a whole version, or what a human saved."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from state.document.document import SectionName, parse
from state.stores.disk.workspace import Workspace
from tests.chaos.trial import LostError, Trial
from tests.support import lived

_PAUSE_SECONDS = 0.003


@dataclass(slots=True)
class Reader:
    """What was seen: each text once, by its digest."""

    workspace: Workspace
    seen: dict[str, str] = field(default_factory=dict)
    looks: int = 0
    wrong: list[str] = field(default_factory=list)

    def look(self) -> None:
        self.looks += 1
        with suppress(FileNotFoundError):
            content = self.workspace.document.read_bytes()
            self.seen.setdefault(hashlib.sha256(content).hexdigest(), content.decode("utf-8", "replace"))


@contextmanager
def reading(trial: Trial) -> Iterator[Reader]:
    """Until the end of the block; what was seen is checked there."""
    reader, ending = Reader(trial.workspace), threading.Event()

    def read() -> None:
        while not ending.wait(_PAUSE_SECONDS):
            reader.look()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield reader
    finally:
        ending.set()
        thread.join()
        trial.tally.polls += reader.looks
    reader.look()
    check(trial, reader)


def check(trial: Trial, reader: Reader) -> None:
    """Every text that was seen is a version's, or a human's.

    Where a human saves while a commit goes on, it is committed again with that save: of what stood there in between
    it is only known that it is whole.
    """
    known = versions(trial.workspace) | {_digest(text) for text in trial.by_hand}
    for digest, text in reader.seen.items():
        if digest not in known and not trial.by_hand:
            raise LostError(f"MEMORY.md was seen to hold what is no version: {text[:3000]!r}")
        # A save in place is not whole for an instant; that is the human's doing.
        if any(save.startswith(text) for save in trial.by_hand):
            continue
        names = [part.name for part in parse(text).parts if part.name is not None]
        if names != list(SectionName) or not text.endswith("\n"):
            raise LostError(f"MEMORY.md was seen with the sections {names}: {text[:3000]!r}")


def versions(workspace: Workspace) -> set[str]:
    """The digests of every text that a version stands for or was made from."""
    return {_digest(row["text"]) for row in lived.versions(workspace)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
