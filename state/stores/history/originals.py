"""Originals: notes as they were before a secret was redacted that only its context told, kept for their owner alone.

A key with a shape of its own is one wherever it stands; "pin is 1234" may be a wire of a board. So the text as it was
given is kept in .dreamd/originals.jsonl (0600), which no model, crystal, search or archive sees, and `dreamd secrets`
lists and brings back. Inside the workspace, because there `dreamd forget` erases and searches every file.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from state.errors import StorageError
from state.secrets.policy import Redaction
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace

# The oldest go first.
MOST, MOST_BYTES = 500, 512 * 1024
_KINDS = frozenset({"password", "pin", "secret", "seed phrase", "recovery code"})


@dataclass(frozen=True, slots=True)
class Original:
    """A text as it was given. `where`: a note, or the session of a memory; `kinds` of what was taken out of it."""

    id: str
    at: str
    where: str
    kinds: tuple[str, ...]
    text: str


class Originals:
    """The originals of one workspace."""

    def __init__(self, workspace: Workspace, disk: Disk | None = None) -> None:
        self._path = path_of(workspace)
        self._disk = disk or Disk(workspace.root)

    def redacted(self, text: str, redaction: Redaction, where: str, at: datetime) -> str:
        """The text without its secrets; the original is kept if its context alone told one."""
        stored = redaction.of(text)
        if stored != text and _KINDS.intersection(kinds := redaction.kinds(text)):
            self._keep(Original(_id(where, text), at.isoformat(timespec="seconds"), where, kinds, text))
        return stored

    def all(self) -> tuple[Original, ...]:
        """The kept originals, the oldest first. Raises StorageError for a file that dreamd did not write."""
        return _read(self._path, self._disk.read_optional(self._path) or b"")

    def drop(self, number: str) -> None:
        """Delete the original of this id."""
        with self._disk.locked(self._path, b""):
            kept = [one for one in _read(self._path, self._disk.read_bytes(self._path)) if one.id != number]
            self._disk.write_atomic(self._path, _written(kept))

    def _keep(self, one: Original) -> None:
        with self._disk.locked(self._path, b""):
            before = _read(self._path, self._disk.read_bytes(self._path))
            kept = [*(old for old in before if old.id != one.id), one][-MOST:]
            while len(kept) > 1 and len(_written(kept)) > MOST_BYTES:
                kept = kept[max(1, len(kept) // 8) :]
            self._disk.write_atomic(self._path, _written(kept))


def path_of(workspace: Workspace) -> Path:
    """The file of the originals."""
    return workspace.state / "originals.jsonl"


def _id(where: str, text: str) -> str:
    return hashlib.sha256(f"{where}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _written(originals: list[Original]) -> bytes:
    rows = (json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in originals)
    return "".join(rows).encode("utf-8", "backslashreplace")


def _read(path: Path, content: bytes) -> tuple[Original, ...]:
    try:
        rows = [json.loads(line) for line in content.decode("utf-8").splitlines() if line.strip()]
        found = (Original(row["id"], row["at"], row["where"], tuple(row["kinds"]), row["text"]) for row in rows)
        return tuple(one for one in found if one.text)  # of one that was forgotten the text is gone
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path}: no list of originals ({error})", "move it away, and a new one is begun"
        ) from error
