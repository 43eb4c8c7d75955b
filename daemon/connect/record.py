"""Record: which agents this user has connected, and what was written into their files.

One JSON file in the user's state folder, out of reach of any project. Without it nothing could be taken out again
exactly.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from daemon.config.paths import make_private_folder, state_folder
from daemon.connect.change import Written
from state.codec import decode, encode
from state.stores.disk.disk import Disk


@dataclass(frozen=True, slots=True)
class Connection:
    """An agent that was connected. `project` and `workspace` are "" for one of all projects.

    `auto_memory` and `trust` are those of the `Place`: what was said once holds until the agent is disconnected.
    """

    agent: str
    project: str
    workspace: str
    at: datetime
    files: tuple[Written, ...]
    auto_memory: bool = True
    trust: bool = False

    @property
    def folder(self) -> Path | None:
        """The project's folder, out of which none of its files may lead; None for all projects."""
        return Path(self.project) if self.project else None

    @property
    def key(self) -> tuple[str, str]:
        """Of each agent there is one connection for a project, and one for all."""
        return self.agent, self.project


@dataclass(frozen=True, slots=True)
class Record:
    """All connections of this user's."""

    connections: tuple[Connection, ...] = ()

    def find(self, agent: str, project: str) -> Connection | None:
        """The connection of this agent in a project; with "", of all projects."""
        return next((one for one in self.connections if one.key == (agent, project)), None)

    def having(self, connection: Connection) -> "Record":
        """With this connection, in place of the one before."""
        return replace(self, connections=(*self.lacking(connection).connections, connection))

    def lacking(self, connection: Connection) -> "Record":
        """Without this connection."""
        return replace(self, connections=tuple(one for one in self.connections if one.key != connection.key))


def folder(environment: Mapping[str, str]) -> Path:
    """Where the record lies, and the backups of agents' files."""
    return state_folder(environment) / "connections"


def read(environment: Mapping[str, str]) -> Record:
    """The record; empty without a file. Raises StorageError for one that cannot be read."""
    path = folder(environment) / "connections.json"
    content = Disk(path.parent).read_optional(path) if path.parent.is_dir() else None
    return Record() if content is None else decode(Record, content, str(path))


@contextmanager
def held(environment: Mapping[str, str]) -> Iterator[Disk]:
    """The record's folder for one writer at a time, so that two commands do not lose each other's connection."""
    make_private_folder(folder(environment))
    disk = Disk(folder(environment))
    with disk.locked(folder(environment) / "lock", b""):
        yield disk


def write(environment: Mapping[str, str], disk: Disk, record: Record) -> None:
    """Write the record. Raises StorageError."""
    disk.write_atomic(folder(environment) / "connections.json", encode(record).encode())


def back_up(disk: Disk, path: Path, content: bytes, at: datetime) -> Path:
    """Keep what a file held, in the record's folder, and say where. Raises StorageError."""
    backups = disk.root / "backups"
    disk.make_folder(backups)
    copy = backups / f"{at:%Y%m%dT%H%M%S}-{os.urandom(3).hex()}-{path.name.lstrip('.')}"
    disk.write_new(copy, content)
    return copy
