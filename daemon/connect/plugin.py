"""Plugin: files of dreamd's own, told to an agent by a command of the agent's; and Codex' trust in its hooks."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daemon.connect.json_file import Entry, read, write
from daemon.connect.place import PLUGIN, SERVER, Place, talk
from state.errors import DocumentError, NotFoundError, StorageError
from state.stores.disk.syscalls import storage_errors


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Files that are dreamd's alone, by their names below `root`; a single one, named "", is `root` itself."""

    root: Path
    files: Mapping[str, str]

    def change(self) -> str:
        """Return what is to be written; a file that is already right stays. Raise DocumentError for another's."""
        found = {name: read(self.root / name) for name in self.files}
        if self._is_anothers():
            raise DocumentError(f"{self.root} is there already, and not dreamd's", "move it away")
        return "" if found == self.files else f"write {self.root}: {', '.join(self.files)}".rstrip(": ")

    def put(self) -> None:
        for name, text in self.files.items():
            write(self.root / name, text)

    def remains(self) -> str:
        return f"remove {self.root}" if os.path.lexists(self.root) and not self._is_anothers() else ""

    def take(self) -> None:
        if self._is_anothers():
            return
        with storage_errors(self.root):
            if self.root.is_dir() and not self.root.is_symlink():
                shutil.rmtree(self.root)
            else:
                self.root.unlink(missing_ok=True)

    def _is_anothers(self) -> bool:
        return "" in self.files and "dreamd" not in (read(self.root) or "dreamd")


@dataclass(frozen=True, slots=True)
class Registration:
    """A plugin in `folder`, of which an agent's own program is told by a command.

    `found` returns what the agent has noted of it, and `meant` is what that should be. `left` is what the command
    `disconnect` leaves, or cannot take out because the program has gone.
    """

    place: Place
    folder: Path
    connect: str
    disconnect: str
    found: Callable[[], Sequence[object]]
    meant: Sequence[object]
    left: Sequence[OwnFiles | Entry] = ()

    def change(self) -> str:
        """Return the command to run. Raise NotFoundError without the program."""
        if self.found() == self.meant:
            return ""
        if not self._is_there:
            raise NotFoundError(f"'{self._program}' is not on the PATH", "install it first")
        return f"run: {self.connect.replace('FOLDER', shlex.quote(str(self.folder)))}"

    def put(self) -> None:
        if any(self.found()):  # an earlier one, of another folder or another content
            self._run(self.disconnect)
        said = self._run(self.connect)
        if self.found() != self.meant:
            raise StorageError(f"{self._program} does not take dreamd's plugin: {said or 'it says nothing'}")

    def remains(self) -> str:
        gone = f"'{self._program}' has gone: remove what it kept of dreamd"
        return "" if not any(self.found()) else f"run: {self.disconnect}" if self._is_there else gone

    def take(self) -> None:
        said = self._run(self.disconnect) if self._is_there else ""
        for one in self.left:
            one.take()
        if self._is_there and any(self.found()):
            raise StorageError(f"{self._program} still has dreamd's plugin: {said or 'it says nothing'}")

    @property
    def _program(self) -> str:
        return self.connect.split()[0]

    @property
    def _is_there(self) -> bool:
        return self.place.which(self._program) is not None

    def _run(self, commands: str) -> str:
        """Run the commands in the plugin's folder, and return what the failed ones said."""
        said = list[str]()
        for command in commands.split(" && "):
            words = [str(self.folder) if word == "FOLDER" else word for word in command.split()]
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                ran = self.place.run(words, self.folder)
                said += f"{ran.stdout} {ran.stderr}".split() if ran.returncode else ()
            except (OSError, subprocess.TimeoutExpired) as error:
                said.append(str(error))
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Trust:
    """Codex runs no hook that its user has not trusted. Its app server says which, and notes what is trusted."""

    place: Place

    def hooks(self) -> list[dict[str, Any]]:
        """Return the hooks of our plugin as Codex lists them. Raise OSError, ValueError."""
        listed = self._asked("hooks/list", {"cwds": [str(self.place.home)]}).get("data", ())
        every = [hook for one in listed for hook in one.get("hooks", ())]
        return [one for one in every if one.get("pluginId") == PLUGIN]

    def change(self) -> str:
        with suppress(OSError, ValueError):
            known = self.hooks() if self.place.trust else []
            if all(one.get("trustStatus") == "trusted" for one in known) and bool(known) == self.place.trust:
                return ""
        return "have Codex note that you trust these hooks"

    def put(self) -> None:
        try:
            halves = {one["key"]: one["currentHash"].partition("/") for one in self.hooks()}
            self._note({key: {"trusted_hash": a, "trusted_content_hash": b} for key, (a, _, b) in halves.items()})
        except (OSError, ValueError, KeyError) as error:
            raise StorageError(f"Codex does not note the trust: {error}", "start 'codex', and trust them") from error

    def remains(self) -> str:
        return ""

    def take(self) -> None:
        """Take back the trust; without the program, digests of what nobody runs stay."""
        with suppress(OSError, ValueError, KeyError):
            self._note({one["key"]: None for one in self.hooks()})

    def _note(self, values: Mapping[str, object]) -> None:
        edits = [{"keyPath": f"hooks.state.{json.dumps(key)}", "value": value} for key, value in values.items()]
        self._asked("config/batchWrite", {"edits": [{**one, "mergeStrategy": "replace"} for one in edits]})

    def _asked(self, method: str, parameters: Mapping[str, object]) -> dict[str, Any]:
        command = [self.place.which("codex") or "codex", "app-server"]
        first = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": SERVER, "version": "1"}}}
        second = {"id": 2, "method": method, "params": parameters}
        return talk(command, self.place.home, self.place.quiet, first, {"method": "initialized"}, second)[-1]


Part = OwnFiles | Entry | Registration | Trust
"""What an agent is connected by.

`change` says in words what `put` would do, and `remains` what `take` would: "" for nothing. They raise DreamdError.
"""
