"""Quarantine: the folder broken/TIME/ of the state in which a repair keeps what it takes out of a workspace."""

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

FOLDER = "broken"


@dataclass(slots=True)
class Quarantine:
    """The folder of one repair, made when something first comes into it. `kept` are their paths."""

    workspace: Workspace
    disk: Disk
    now: datetime
    kept: list[str] = field(default_factory=list)
    _folder: Path | None = None

    def move(self, path: Path) -> None:
        """Move the file or folder into quarantine; a crash leaves it in one of the two places."""
        target = self._place(path)
        self.disk.rename(path, target)
        if not target.is_symlink():
            target.chmod(0o700 if target.is_dir() else 0o600)

    def keep(self, path: Path) -> None:
        """Write a copy of the file in quarantine, or move what is no file there."""
        if path.is_file():
            self.disk.write_new(self._place(path), path.read_bytes())
        else:
            self.move(path)

    @property
    def folder(self) -> str:
        """The folder's path; empty when nothing was kept."""
        return str(self._folder) if self._folder is not None else ""

    def _place(self, path: Path) -> Path:
        """Return a free path for this file in quarantine, and create its folder."""
        if self._folder is None:
            self._folder = self._made()
        is_state = path.is_relative_to(self.workspace.state)
        parts = path.relative_to(self.workspace.state if is_state else self.workspace.root).parts
        folder = self._folder
        for part in parts[:-1]:
            folder /= part
            self.disk.make_folder(folder)
        place = folder / parts[-1]
        while os.path.lexists(place):
            place = place.with_name(f"{place.name}+")
        self.kept.append(str(place))
        return place

    def _made(self) -> Path:
        home = self.workspace.state / FOLDER
        if os.path.lexists(home) and not home.is_dir():
            self.disk.rename(home, home.with_name(f"{FOLDER}-was-a-file"))
        self.disk.make_folder(home)
        folder = home / f"{self.now:%Y%m%dT%H%M%SZ}"
        while os.path.lexists(folder):
            folder = folder.with_name(f"{folder.name}+")
        self.disk.make_folder(folder)
        with storage_errors(folder):
            folder.chmod(0o700)
        return folder
