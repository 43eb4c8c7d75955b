"""Originals: notes as they were before something was redacted that may be no secret, kept for their owner for a week.

A key with a shape of its own is one wherever it stands, and nothing of it is kept; "pin is 1234" may be a wire of a
board. Such a text is kept encrypted in the user's state folder, with the key beside it (0600, in a folder of 0700):
no model, workspace, search or archive sees it. `dreamd secrets` lists and brings back.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from state.errors import ConfigError, StorageError
from state.secrets.policy import DEFAULT, Redaction
from state.stores.disk.disk import Disk
from state.stores.disk.user_folder import make_private_folder, state_folder
from state.stores.disk.workspace import Workspace

# The oldest go first.
MOST, MOST_BYTES = 500, 512 * 1024
KEPT_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Original:
    """A text as it was given, but for certain secrets.

    `where`: a note, or the session of a memory; `kinds` of what was taken out of it.
    """

    id: str
    at: str
    where: str
    kinds: tuple[str, ...]
    text: str


class Originals:
    """The originals of one workspace."""

    def __init__(self, workspace: Workspace, disk: Disk | None = None) -> None:
        self._workspace = workspace
        self._disk = disk or workspace.disk()
        self._legacy = workspace.state / "originals.jsonl"

    def redacted(self, text: str, redaction: Redaction, where: str, at: datetime) -> str:
        """The text without its secrets; the original is kept if its context alone told one."""
        stored = redaction.of(text)
        if stored != text:
            self._keep([(at.isoformat(timespec="seconds"), where, text)], redaction, at)
        return stored

    def all(self, now: datetime) -> tuple[Original, ...]:
        """The kept originals, the oldest first. Raise StorageError for a file that dreamd did not write."""
        self.sweep(now)
        path = path_of(self._workspace)
        return _young(_decrypted(path, _content(path)), now) if path.exists() else ()

    def drop(self, number: str) -> None:
        """Delete the original of this id."""
        self.erase(lambda one: one.id == number)

    def erase(self, is_meant: Callable[[Original], bool]) -> int:
        """Delete the originals that are meant, and return how many they were."""
        path = path_of(self._workspace)
        if not path.exists():
            return 0
        with _locked(path) as (disk, before):
            kept = [one for one in before if not is_meant(one)]
            if len(kept) < len(before):
                disk.write_atomic(path, _encrypted(path, kept))
        return len(before) - len(kept)

    def sweep(self, now: datetime) -> None:
        """Delete what is older than a week, of every workspace, and take over the file of an older version."""
        self._take_over(now)
        path = path_of(self._workspace)
        if not path.parent.is_dir():
            return
        disk, limit = Disk(path.parent), (now - KEPT_FOR).timestamp()
        for other in path.parent.glob("*.originals"):
            with suppress(FileNotFoundError):
                if other.stat().st_mtime < limit:
                    disk.remove(other)
        if path.exists():
            young = {one.id for one in _young(_decrypted(path, _content(path)), now)}
            self.erase(lambda one: one.id not in young)

    def _keep(self, texts: Iterable[tuple[str, str, str]], redaction: Redaction, now: datetime) -> None:
        """Keep the texts of which only the context told a secret; where the state folder cannot have them, none."""
        doubts = [(at, where, *redaction.doubtful(text)) for at, where, text in texts]
        new = [(at, where, text, kinds) for at, where, text, kinds in doubts if kinds]
        if not new:
            return
        # A note is not refused because its original cannot be kept.
        with suppress(ConfigError, StorageError):
            path = path_of(self._workspace)
            make_private_folder(path.parent)
            with _locked(path) as (disk, before):
                said = {(where, text) for _, where, text, _ in new}
                kept = [one for one in _young(before, now) if (one.where, one.text) not in said]
                kept += [Original(os.urandom(4).hex(), at, where, kinds, text) for at, where, text, kinds in new]
                disk.write_atomic(path, _encrypted(path, _newest(kept)))

    def _take_over(self, now: datetime) -> None:
        """Move what an older version kept in the workspace, in plain text, and remove its file."""
        content = self._disk.read_optional(self._legacy)
        if content is None:
            return
        rows = [(one.at, one.where, one.text) for one in _young(_legacy_rows(content), now)]
        self._keep(rows, DEFAULT, now)
        with suppress(FileNotFoundError), self._legacy.open("r+b") as file:
            file.write(b"\0" * len(content))
            file.flush()
            os.fsync(file.fileno())
        self._disk.remove(self._legacy)


def _newest(originals: list[Original]) -> list[Original]:
    kept = originals[-MOST:]
    while len(kept) > 1 and sum(len(one.text.encode("utf-8", "replace")) for one in kept) > MOST_BYTES:
        kept = kept[max(1, len(kept) // 8) :]
    return kept


def path_of(workspace: Workspace) -> Path:
    """The file of a workspace's originals. Raise ConfigError without a home folder."""
    from hashlib import sha256

    name = sha256(os.fsencode(workspace.state)).hexdigest()[:24]
    return state_folder(os.environ) / "originals" / f"{name}.originals"


@contextmanager
def _locked(path: Path) -> Iterator[tuple[Disk, tuple[Original, ...]]]:
    disk = Disk(path.parent)
    with disk.locked(path, b""):
        yield disk, _decrypted(path, _content(path))


def _content(path: Path) -> bytes:
    return Disk(path.parent).read_optional(path) or b""


def _young(originals: Iterable[Original], now: datetime) -> tuple[Original, ...]:
    return tuple(one for one in originals if _moment(one.at) > now - KEPT_FOR)


def _moment(at: str) -> datetime:
    moment = datetime.fromisoformat(at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _key(path: Path) -> bytes:
    from cryptography.fernet import Fernet

    disk, key = Disk(path.parent), path.with_name("key")
    with suppress(FileExistsError):
        if not key.exists():
            disk.write_new(key, Fernet.generate_key())
    return disk.read_bytes(key)


def _encrypted(path: Path, originals: Iterable[Original]) -> bytes:
    from cryptography.fernet import Fernet

    rows = json.dumps([asdict(one) for one in originals])
    return Fernet(_key(path)).encrypt(rows.encode())


def _decrypted(path: Path, content: bytes) -> tuple[Original, ...]:
    if not content:
        return ()
    from cryptography.fernet import Fernet, InvalidToken

    try:
        rows = json.loads(Fernet(_key(path)).decrypt(content))
        return tuple(Original(**{**row, "kinds": tuple(row["kinds"])}) for row in rows)
    except (InvalidToken, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path}: no list of originals", f"remove it: rm '{path}'") from error


def _legacy_rows(content: bytes) -> Iterator[Original]:
    for line in content.splitlines():
        with suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            _moment(row["at"])
            yield Original(row["id"], row["at"], row["where"], tuple(row["kinds"]), str(row["text"]))
