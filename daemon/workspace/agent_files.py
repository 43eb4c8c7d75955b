"""Agent files: files of dreamd's own that show the memory to agents without a session-start hook.

`dreamd connect` creates them, and each version of the memory rewrites them. Text that a person types there is lost,
as their first line says. A file that was deleted is not created again.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

from daemon.workspace.session_start import lasting
from daemon.workspace.stores import Store
from state.agents import reader_of
from state.codec import decode, encode
from state.errors import DreamdError, FencedError
from state.secrets.policy import Redaction
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace

MARK = (
    "<!-- dreamd writes this file anew from MEMORY.md: what is typed here is lost. Write into MEMORY.md, or run:"
    ' dreamd note "…" -->'
)
# Agents drop HTML comments, including one that a line of memory opens and never closes, and import the file named
# after an @. They look for an @ at the start of each Markdown token, that is, after anything but a letter or a digit.
_IMPORTS = re.compile(r"(?<!\\)((?:\\\\)+|(?<![^\W_]))@(?=\S)")
_WINDOW, _LONGEST = 200_000, 1 << 20


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file in a project folder that shows the memory to an agent. `head` is its first text."""

    path: str
    folder: str
    agent: str
    head: str


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """The files of one workspace."""

    files: tuple[ShownFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """The memory of a workspace as agent files show it."""

    workspace: Workspace
    redaction: Redaction
    environment: Mapping[str, str]
    zone: tzinfo = UTC

    def text(self, agent: str, head: str) -> str:
        """Return the content of the agent's file, within the agent's limit. Raise StorageError."""
        reader = reader_of(agent)
        room, frame = reader.file_bytes, f"{head}{MARK}\n\n"
        while True:
            most = max(room - len(frame.encode()), 0)
            said = lasting(self.workspace, _WINDOW, most, self.redaction, self.environment, self.zone)
            whole = frame + escaped(said)
            rows, size = whole.count("\n"), len(whole.encode(errors="replace"))
            if most == 0 or (rows <= reader.file_lines and size <= reader.file_bytes):
                return whole
            room = min(room * reader.file_lines // rows, room - max(size - reader.file_bytes, 0)) - 1

    def keep(self, file: ShownFile) -> None:
        """Register this file, so that each version rewrites it. Raise StorageError."""
        files = ShownFiles((*(one for one in _known(self.workspace) if one.path != file.path), file))
        self.workspace.disk().write_atomic(_path(self.workspace), encode(files).encode())


def escaped(text: str) -> str:
    """Return the Markdown escaped so that an agent hides nothing of it and follows no import in it."""
    return _IMPORTS.sub(r"\1\\@", text.replace("<!--", "&lt;!--"))


def agent_files(workspace: Workspace) -> tuple[Path, ...]:
    """Return the files that show the memory. Raise StorageError."""
    return tuple(Path(one.path) for one in _known(workspace))


def is_ours(text: str | None) -> bool:
    """Return whether a file is one that dreamd writes."""
    return text is not None and MARK in text.splitlines()


def write_agent_files(store: Store) -> None:
    """Rewrite each file from the current MEMORY.md; failures become notices."""
    try:
        known = _known(store.workspace)
    except DreamdError as error:
        store.notices.add(f"the files that show MEMORY.md to agents were not written ({error})")
        return
    shown = ShownMemory(store.workspace, store.config.redaction, os.environ, store.config.zone)
    for one in known:
        try:
            _write(store, one, shown)
        except FencedError:
            raise
        except DreamdError as error:
            store.notices.add(f"{one.path} does not show MEMORY.md as it is now ({error})")


def _write(store: Store, file: ShownFile, shown: ShownMemory) -> None:
    path, disk = Path(file.path), Disk(Path(file.folder), store.memory.disk.system)
    content = disk.read_optional(path, _LONGEST) if path.parent.is_dir() else None
    text = content.decode(errors="replace") if content is not None else None
    if is_ours(text) and (new := shown.text(file.agent, file.head)) != text:
        store.memory.check()
        disk.write_atomic(path, new.encode(errors="replace"), 0o644)


def _known(workspace: Workspace) -> tuple[ShownFile, ...]:
    path = _path(workspace)
    content = workspace.disk().read_optional(path) if path.exists() else None
    return decode(ShownFiles, content, str(path)).files if content is not None else ()


def _path(workspace: Workspace) -> Path:
    return workspace.state / "agent-files.json"
