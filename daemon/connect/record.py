"""Record: which agents this user has connected, and what was put into their files.

One JSON file in the user's state folder, out of reach of any project. Without it nothing could be taken out again
exactly.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from daemon.config.paths import make_private_folder, state_folder
from daemon.connect.edit import Put
from state.codec import decode, encode
from state.stores.disk.disk import Disk

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Written:
    """What was put into a file, in this order. `created`: there was no file before.

    With a `head` all of the file is dreamd's own.
    """

    path: str
    created: bool
    puts: tuple[Put, ...]
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Connection:
    """An agent that was connected. `project` and `workspace` are "" for one of all projects.

    `auto_memory`, `trust` and `in_file` are those of the `Place`: what was said once holds until the agent is
    disconnected.
    """

    agent: str
    project: str
    workspace: str
    at: datetime
    files: tuple[Written, ...]
    auto_memory: bool = True
    trust: bool = False
    in_file: bool = False

    @property
    def folder(self) -> Path | None:
        """The project's folder, out of which none of its files may lead; None for all projects."""
        return Path(self.project) if self.project else None


@dataclass(frozen=True, slots=True)
class Record:
    """All connections of this user's: of each agent one for a project, and one for all."""

    connections: tuple[Connection, ...] = ()
    format: int = _FORMAT

    def find(self, agent: str, project: str) -> Connection | None:
        """Return the connection of this agent in a project; with "", of all projects."""
        return next((one for one in self.connections if (one.agent, one.project) == (agent, project)), None)

    def replacing(self, old: Connection | None, new: Connection | None) -> "Record":
        """Return the record with the new connection, if there is one, in place of the old one."""
        kept = (one for one in self.connections if old is None or one != self.find(old.agent, old.project))
        return Record((*kept, *([new] if new is not None else [])))


def folder(environment: Mapping[str, str]) -> Path:
    """Return where the record lies, and the backups of agents' files."""
    return state_folder(environment) / "connections"


def read(environment: Mapping[str, str]) -> Record:
    """Return the record, which is empty without a file. Raise StorageError for one that cannot be read."""
    path = folder(environment) / "connections.json"
    content = Disk(path.parent).read_optional(path) if path.parent.is_dir() else None
    return Record() if content is None else decode(Record, content, str(path))


@contextmanager
def held(environment: Mapping[str, str]) -> Iterator[Disk]:
    """Hold the record's folder for one writer at a time, so that two commands do not lose each other's connection."""
    make_private_folder(folder(environment))
    disk = Disk(folder(environment))
    with disk.locked(folder(environment) / "lock", b""):
        yield disk


def write(environment: Mapping[str, str], disk: Disk, record: Record) -> None:
    """Write the record. Raise StorageError."""
    disk.write_atomic(folder(environment) / "connections.json", encode(record).encode())


def back_up(disk: Disk, path: Path, content: bytes, at: datetime) -> Path:
    """Keep what a file held, in the record's folder, and return where. Raise StorageError."""
    backups = disk.root / "backups"
    disk.make_folder(backups)
    copy = backups / f"{at:%Y%m%dT%H%M%S}-{os.urandom(3).hex()}-{path.name.lstrip('.')}"
    disk.write_new(copy, content)
    return copy
