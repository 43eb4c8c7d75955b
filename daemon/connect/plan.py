"""Plan: what connecting an agent, or taking it out again, changes; shown first, then carried out with backups.

Which agents this user has connected, and what was put into their files, is recorded in one JSON file in the user's
state folder, out of reach of any project. Without it nothing could be taken out again exactly.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from daemon.config.paths import make_private_folder, state_folder
from daemon.connect import edit
from daemon.connect.agent import Agent, AgentFile, Place, Scope, format_of
from daemon.connect.edit import Put, Setting
from daemon.workspace.agent_files import ShownFile, ShownMemory, is_ours
from state.codec import decode, encode
from state.errors import BusyError, DocumentError, DreamdError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors

# Claude Code keeps more than settings in one of its files; beyond this nobody's settings are read.
_LONGEST_FILE = 32 << 20
# A project's may have come with a repository, and an edit takes seconds for a megabyte.
_LONGEST_OF_PROJECT = 256 << 10
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


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file before and after; None: there is no file.

    `written` is what the record will say of it, None where nothing of ours is left. `left` are settings that somebody
    changed, and that stay.
    """

    path: Path
    before: str | None
    after: str | None
    written: Written | None = None
    left: tuple[Setting, ...] = ()

    @property
    def diff(self) -> str:
        """The change as a unified diff; "" without one."""
        old, new = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        before, after = ((text or "").splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(f"{line.removesuffix(chr(10))}\n" for line in difflib.unified_diff(before, after, old, new))


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one agent's files, and the project's folder, None for all projects.

    `connection`: as the record will have it, None once it is taken out; `last`: as the record has it; `shown`: the
    memory that files of dreamd's own show.
    """

    agent: str
    folder: Path | None
    files: tuple[PlannedFile, ...]
    connection: Connection | None
    last: Connection | None
    shown: ShownMemory | None = None

    @property
    def changes(self) -> tuple[PlannedFile, ...]:
        """The files that are not yet as they will be."""
        return tuple(one for one in self.files if one.before != one.after)


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that was changed, and the copy of what it held; "" where there was none. It may be gone now."""

    path: str
    copy: str
    remains: bool = True


def connected(file: AgentFile, text: str | None, last: Written | None) -> PlannedFile:
    """Return the file with its settings in place of those of the last time. Raise DocumentError."""
    old = last if last is not None and text is not None else Written(str(file.path), text is None, ())
    kept = list[Put]()
    for one, setting in zip(old.puts, file.settings, strict=False):
        if one.setting != setting or not edit.holds(format_of(file.path), text or "", setting):
            break
        kept.append(one)
    removed = disconnected(text, replace(old, puts=old.puts[len(kept) :]))
    current, created = removed.after or "", removed.after is None or (old.created and bool(kept))
    for setting in file.settings[len(kept) :]:
        current, one = edit.put(format_of(file.path), current, setting)
        kept.append(one)
    written = Written(str(file.path), created, tuple(kept))
    return PlannedFile(file.path, text, current, written, removed.left)


def disconnected(text: str | None, last: Written) -> PlannedFile:
    """Return the file without what was put in last; what somebody changed since stays. Raise DocumentError."""
    path = Path(last.path)
    if text is None or last.head is not None:
        return PlannedFile(path, text, None if is_ours(text) else text)
    current, left = text, list[Setting]()
    for one in reversed(last.puts):
        without = edit.cut(format_of(path), current, one) if one.text else current
        if without is None:
            left.append(one.setting)
        else:
            current = without
    is_empty = last.created and current.strip() in ("", "{}")
    return PlannedFile(path, text, None if is_empty else current, None, tuple(left))


def shown_in(file: AgentFile, text: str | None, shown: ShownMemory | None, agent: str) -> PlannedFile:
    """Return a file of dreamd's own as it shows the memory. Raise DocumentError where somebody else's file is."""
    if text is not None and not is_ours(text):
        raise DocumentError("it is there already, and not dreamd's", "move it away; nothing was changed")
    after = shown.text(agent, file.head or "") if shown is not None else file.head
    return PlannedFile(file.path, text, after, Written(str(file.path), created=True, puts=(), head=file.head))


def to_connect(agent: Agent, place: Place, last: Connection | None, now: datetime, shown: ShownMemory | None) -> Plan:
    """Return what connects the agent. Files of the last time that are no longer meant are taken back.

    Raise DocumentError for a file that is broken, StorageError for one that cannot be read or leads elsewhere.
    """
    if last is not None:  # what was said once holds
        auto_memory, trust = place.auto_memory and last.auto_memory, place.trust or last.trust
        place = replace(place, auto_memory=auto_memory, trust=trust, in_file=place.in_file or last.in_file)
    project = None if place.scope is Scope.USER else place.project
    known = {one.path: one for one in last.files} if last is not None else {}

    def planned(file: AgentFile) -> PlannedFile:
        if file.head is not None:
            return _planned(file.path, project, lambda text: shown_in(file, text, shown, agent.name))
        return _planned(file.path, project, lambda text: connected(file, text, known.get(str(file.path))))

    def read(path: Path, settings: tuple[Setting, ...]) -> object:
        return edit.read(format_of(path), planned(AgentFile(path, "", settings)).after or "")

    files = tuple(map(planned, agent.files(place, read)))
    meant = {str(one.path) for one in files}
    files += tuple(_taken_out(old, project) for path, old in known.items() if path not in meant)
    written = tuple(one.written for one in files if one.written is not None)
    named, workspace = ("", "") if project is None else (str(project), str(place.workspace))
    said = (place.auto_memory, place.trust, place.in_file)
    connection = Connection(agent.name, named, workspace, now, written, *said)
    if last is not None and replace(last, at=now) == connection:
        connection = last
    return Plan(agent.name, project, files, connection, last, shown)


def to_disconnect(last: Connection) -> Plan:
    """Return what takes exactly that connection out again. Raise what `to_connect` raises."""
    files = tuple(_taken_out(old, last.folder) for old in last.files)
    return Plan(last.agent, last.folder, files, None, last)


def read_record(environment: Mapping[str, str]) -> Record:
    """Return the record, which is empty without a file. Raise StorageError for one that cannot be read."""
    path = state_folder(environment) / "connections" / "connections.json"
    content = Disk(path.parent).read_optional(path) if path.parent.is_dir() else None
    return Record() if content is None else decode(Record, content, str(path))


def carry_out(plan: Plan, environment: Mapping[str, str], now: datetime) -> tuple[Backup, ...]:
    """Change the files, each at once, and the record. The record is written first: what it names can be taken out.

    One command at a time does so: two would lose each other's connection. Raise BusyError for a file that changed
    since it was shown, StorageError.
    """
    folder = state_folder(environment) / "connections"
    make_private_folder(folder)
    disk = Disk(folder)
    with disk.locked(folder / "lock", b""):
        record = encode(read_record(environment).replacing(plan.last, plan.connection)).encode()
        if plan.connection is not None and plan.connection != plan.last:
            disk.write_atomic(folder / "connections.json", record)
        for one in plan.files:
            if plan.shown is not None and one.written is not None and one.written.head is not None:
                plan.shown.keep(ShownFile(str(one.path), str(plan.folder), plan.agent, one.written.head))
        backups = tuple(_replaced(disk, one, plan.folder, now) for one in plan.changes)
        if plan.connection is None and plan.last is not None:
            disk.write_atomic(folder / "connections.json", record)
        return backups


def _planned(path: Path, project: Path | None, make: Callable[[str | None], PlannedFile]) -> PlannedFile:
    """Return what is made of the file's text. An edit knows no more of it, so the errors get the file's name here."""
    text = text_of(path, project)
    try:
        return make(text)
    except DreamdError as error:
        raise type(error)(f"{path}: {error.what}", error.advice) from error


def _taken_out(old: Written, project: Path | None) -> PlannedFile:
    return _planned(Path(old.path), project, lambda text: disconnected(text, old))


def _replaced(disk: Disk, file: PlannedFile, project: Path | None, now: datetime) -> Backup:
    """Replace a file that still holds what was shown, and keep a copy of that."""
    if text_of(file.path, project) != file.before:
        raise BusyError(f"{file.path} changed meanwhile", "try again")
    copy = ""
    if file.before is not None and not is_ours(file.before):  # a copy of memory could not be forgotten
        disk.make_folder(disk.root / "backups")
        name = f"{now:%Y%m%dT%H%M%S}-{os.urandom(3).hex()}-{file.path.name.lstrip('.')}"
        copy = str(disk.root / "backups" / name)
        disk.write_new(Path(copy), file.before.encode())
    target, folder = _place_of(file.path, project)
    if file.after is None:
        folder.remove(target)
        with suppress(OSError):  # something else is in it
            for parent in (target.parent, target.parent.parent):
                if project is None or parent == project or not parent.is_relative_to(project):
                    break
                parent.rmdir()
    else:
        for parent in reversed([one for one in target.parents if not one.exists()]):
            folder.make_folder(parent, 0o755)
        folder.write_atomic(target, file.after.encode(), 0o644 if folder.root == project else 0o600)
    return Backup(str(file.path), copy, remains=file.after is not None)


def text_of(path: Path, project: Path | None) -> str | None:
    """Return what the file holds; None without one. Raise StorageError if it cannot be read or leads elsewhere."""
    target, folder = _place_of(path, project)
    if not target.parent.is_dir():
        return None
    content = folder.read_optional(target, _LONGEST_OF_PROJECT if folder.root == project else _LONGEST_FILE)
    try:
        return content.decode() if content is not None else None
    except UnicodeDecodeError as error:
        raise StorageError(f"{path} is not UTF-8", "save it as UTF-8, and try again") from error


def _place_of(path: Path, project: Path | None) -> tuple[Path, Disk]:
    """Return where the file is, and the folder that it may not leave.

    A user's own files may be links into a folder of dotfiles. A project's may have come with a repository: one that
    leads out of the project is refused.
    """
    if project is not None and path.is_relative_to(project):
        return path, Disk(project)
    with storage_errors(path):
        target = Path(os.path.realpath(path))  # Path.resolve raises what is no OSError for a circle
        existing = next(folder for folder in target.parents if folder.exists())
    return target, Disk(existing)
