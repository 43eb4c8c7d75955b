"""Pages: what was committed in a database since a moment, from SQLite's own log, without reading the whole file.

The index of the log (-shm) says how many frames are committed and which salts they carry; both are part of SQLite's
file format. Until the log begins anew, with other salts, no committed frame changes.
"""

import sqlite3
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_INDEX = struct.Struct("=IIIBBHII8s8s8s")
_INDEX_VERSION = 3_007_000
_LOG_HEAD, _FRAME_HEAD = 32, 24


class Mark(NamedTuple):
    """A moment in a log: its salts, and how many of its frames were committed."""

    salts: bytes
    frames: int


class Pages(NamedTuple):
    """The pages committed since a mark, by number from 1, the database's size in bytes, and the mark for the next."""

    pages: dict[int, bytes]
    page_bytes: int
    size: int
    mark: Mark


class PageLog:
    """The log of one database, which others write. Use it from one thread at a time.

    Its connection reads nothing, but while it is open SQLite does not remove the log when others close theirs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._file = 0  # the inode

    def mark(self) -> Mark | None:
        """Return this moment; None if the database has no log.

        An empty log is begun, as it gets its salts with its first frame, and what comes before them is not followed.
        """
        self._open()
        found = self._index()
        if found is not None and not found.mark.frames:
            self._begin()
            found = self._index()
        return found.mark if found is not None else None

    def since(self, mark: Mark | None) -> Pages | None:
        """Return the pages committed since then; None if the log has begun anew, and tells only of later ones."""
        found = self._index()
        if found is None or mark is None or found.mark.salts != mark.salts or found.mark.frames < mark.frames:
            return None
        step, count = _FRAME_HEAD + found.page_bytes, found.mark.frames - mark.frames
        with suppress(OSError), self._beside("-wal").open("rb") as log:
            log.seek(_LOG_HEAD + mark.frames * step)
            frames = log.read(count * step)
            after = self._index()
            if len(frames) == count * step and after is not None and after.mark.salts == mark.salts:
                for start in range(0, len(frames), step):
                    body = start + _FRAME_HEAD
                    found.pages[int.from_bytes(frames[start : start + 4], "big")] = frames[body : start + step]
                return found
        return None

    def close(self) -> None:
        """Let the log go."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> None:
        """Attach to the database, or to the one that has its place by now."""
        with suppress(OSError, sqlite3.Error):
            file = self._path.stat().st_ino
            if self._connection is None or self._file != file:
                self.close()
                self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
                self._connection.execute("SELECT 1 FROM sqlite_master").fetchone()
                self._file = file

    def _begin(self) -> None:
        """Write one frame, which changes nothing."""
        with suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.execute("BEGIN IMMEDIATE")
                with self._connection:  # commits, or rolls back
                    [version] = self._connection.execute("PRAGMA user_version").fetchone()
                    self._connection.execute(f"PRAGMA user_version = {version}")

    def _beside(self, ending: str) -> Path:
        return self._path.with_name(f"{self._path.name}{ending}")

    def _index(self) -> Pages | None:
        """Return the log's moment, and the size of the database then, without pages; None if there is none."""
        if self._connection is None:
            return None
        with suppress(OSError), self._beside("-shm").open("rb") as index:
            head = index.read(2 * _INDEX.size)
            # It is written twice, so that a reader notices a write under way.
            if len(head) == 2 * _INDEX.size and head[: _INDEX.size] == head[_INDEX.size :]:
                version, _, _, is_made, _, page_bytes, frames, count, _, salts, _ = _INDEX.unpack_from(head)
                if version == _INDEX_VERSION and is_made:
                    size = count * page_bytes if frames else self._path.stat().st_size
                    return Pages({}, page_bytes, size, Mark(salts, frames))
        return None
