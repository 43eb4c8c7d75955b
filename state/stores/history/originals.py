"""Originals: notes before a redaction that may be wrong, kept for their owner for a week.

A key with a distinctive shape is always a secret, and nothing of it is kept; but "pin is 1234" may mean a pin of a
circuit board. Such texts are kept encrypted in the user's state folder, with the key beside them (0600, in a folder
of 0700): no model, workspace, search or archive sees them. `dreamd secrets` lists and restores them.
"""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from state.errors import ConfigError, StorageError
from state.secrets.policy import Redaction
from state.stores.disk.disk import Disk
from state.stores.disk.user_folder import make_private_folder, state_folder
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

# Above these limits the oldest are deleted.
MOST, MOST_BYTES = 500, 512 * 1024
KEPT_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Original:
    """A text as it was given, without its certain secrets.

    `where` is "note" or the session of a memory; `kinds` are the kinds of secrets that were redacted.
    """

    id: str
    at: str
    where: str
    kinds: tuple[str, ...]
    text: str

    @classmethod
    def of(cls, row: dict[str, str]) -> "Original":
        """Build an original from a row of JSON. Raise KeyError or TypeError."""
        return cls(row["id"], row["at"], row["where"], tuple(row["kinds"]), str(row["text"]))

    def is_old(self, now: datetime) -> bool:
        """Return whether its week is over. Raise ValueError if `at` is no timestamp."""
        at = datetime.fromisoformat(self.at)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)) <= now - KEPT_FOR


class Originals:
    """The originals of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @property
    def _path(self) -> Path:
        return path_of(self._workspace)

    @property
    def _disk(self) -> Disk:
        return Disk(self._path.parent)

    def redacted(self, text: str, redaction: Redaction, where: str, at: datetime) -> str:
        """Return the text without its secrets; keep the original if only context marked one as a secret."""
        if (stored := redaction.of(text)) != text:
            kept, kinds = redaction.doubtful(text)
            if kinds:
                self._keep([Original(os.urandom(4).hex(), at.isoformat(timespec="seconds"), where, kinds, kept)], at)
        return stored

    def all(self, now: datetime) -> tuple[Original, ...]:
        """Return the kept originals, oldest first. Raise StorageError for a file that dreamd did not write."""
        self.sweep(now)
        return tuple(self._read())

    def drop(self, number: str) -> None:
        """Delete the original with this id."""
        self.erase(lambda one: one.id == number)

    def erase(self, is_meant: Callable[[Original], bool]) -> None:
        """Delete the originals that match."""
        if not self._path.exists():
            return
        with self._disk.locked(self._path, b""):
            before = self._read()
            kept = [one for one in before if not is_meant(one)]
            if len(kept) < len(before):
                self._write(kept)

    def sweep(self, now: datetime) -> None:
        """Delete what is older than a week, in every workspace."""
        for other in self._path.parent.glob("*.originals"):
            with suppress(FileNotFoundError):
                if other.stat().st_mtime < (now - KEPT_FOR).timestamp():
                    self._disk.remove(other)
        self.erase(lambda one: one.is_old(now))

    def _keep(self, new: list[Original], now: datetime) -> None:
        # If its original cannot be kept, the note must still succeed.
        with suppress(ConfigError, StorageError):
            make_private_folder(self._path.parent)
            with self._disk.locked(self._path, b""):
                said = {(one.where, one.text) for one in new}
                before = [one for one in self._read() if not one.is_old(now) and (one.where, one.text) not in said]
                kept = [*before, *new][-MOST:]
                while len(kept) > 1 and sum(len(one.text.encode("utf-8", "replace")) for one in kept) > MOST_BYTES:
                    kept = kept[max(1, len(kept) // 8) :]
                self._write(kept)

    def _read(self) -> list[Original]:
        if not (content := self._disk.read_optional(self._path)):
            return []
        from cryptography.fernet import InvalidToken

        try:
            return [Original.of(row) for row in json.loads(self._cipher().decrypt(content))]
        except (InvalidToken, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{self._path}: no list of originals", f"remove it: rm '{self._path}'") from error

    def _write(self, originals: Iterable[Original]) -> None:
        rows = json.dumps([asdict(one) for one in originals])
        self._disk.write_atomic(self._path, self._cipher().encrypt(rows.encode()))

    def _cipher(self) -> "Fernet":
        """Return the cipher with the key that all workspaces share; create the key if it is missing."""
        from cryptography.fernet import Fernet

        key = self._path.with_name("key")
        with suppress(FileExistsError):
            if not key.exists():
                self._disk.write_new(key, Fernet.generate_key())
        return Fernet(self._disk.read_bytes(key))


def path_of(workspace: Workspace) -> Path:
    """Return the file of a workspace's originals. Raise ConfigError without a home folder."""
    name = sha256(os.fsencode(workspace.state)).hexdigest()[:24]
    return state_folder(os.environ) / "originals" / f"{name}.originals"
