"""Archives for tests: a valid one, and altered copies of it."""

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.dream.run import Mode, dream_now
from daemon.journal.restore import restore
from daemon.sessions import clear_session
from daemon.upkeep.export import export
from daemon.upkeep.import_ import import_archive
from daemon.workspace.stores import Store
from state.dream import Reason
from state.scratch import Note
from state.stores.backup.archive import ArchiveError, digest_of
from state.stores.database.table import layouts_of
from tests.support.working import add, working

NOTES = ("Ada prefers tea over coffee", "The deployment runs on port 8443", "Grüße aus Köln, 東京で会いましょう 🍵")
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE_NAMES = (
    "/etc/cron.d/x", "../x", "memory/../../x", "memory/..", "..\\x", "C:\\x", "memory\\scratch.md", "memory.md",
    "MEMORY.MD", "memory/Scratch.md", "./MEMORY.md", "MEMORY.md/", "MEMORY.md ", "memory/", "state.db", "inbox.md",
    ".dreamd/state.db", ".dreamd/lock", ".dreamd", "lock", "state.db-wal", "checkpoints/dreams.db",
    "index/chroma.sqlite3", "transcripts/one.jsonl", "inner.tar.gz", "x", "", "MEMORY.md\n", "m\u0130emory",
    "\u202eMEMORY.md", "a" * 60_000,
)  # fmt: skip
"""Names that no workspace file has."""


def lived(root: Path) -> Path:
    """Create a workspace with versions, a restore, sessions, pending notes of every kind, and a person's files."""
    with working(root) as store:
        for number, note in enumerate(NOTES):
            store.notes.inbox.append(Note(note, AT + timedelta(minutes=number)))
            dream_now(store, Reason.MANUAL, Mode.AUTO)
        restore(store, 2)
        add(store, "the harbour wall is of granite", priority="critical")
        clear_session(store.connection, "s", AT)
        add(store, "the swift nests under the roof", session="other")
        store.notes.inbox.append(Note("it is pending", AT))
    with (root / "memory" / "scratch.md").open("a", encoding="utf-8") as log:
        log.write("- by hand, without a stamp\n\n  and in two lines\n")
    (root / "GENOME.md").write_bytes(b"# Genome\n\xff\xfe is no UTF-8\n")
    (root / "memory" / "economics.json").write_text("{}")
    (root / "transcripts").mkdir()
    (root / "transcripts" / "one.jsonl").write_text("{}\n")
    return root


def exported(root: Path, target: Path) -> Path:
    with working(root) as store:
        return moved(store, target)


def moved(store: Store, target: Path) -> Path:
    return Path(export(store, datetime.now(UTC)).path).rename(target)


def files_of(path: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and modification time (ns) of each file in an archive."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, content, mtime_ns FROM files")
        return {name: (content, mtime_ns) for name, content, mtime_ns in rows}


def members(path: Path) -> dict[str, bytes]:
    """Return an archive's content without the manifest: its files, and the rows of its tables."""
    found = {name: content for name, (content, _) in files_of(path).items()}
    with closing(sqlite3.connect(path)) as connection:
        for name in layouts_of(connection).keys() - {"files", "manifest"}:
            found[name] = repr(connection.execute(f"SELECT * FROM {name}").fetchall()).encode()  # noqa: S608
    return found


def changed(archive: Path, target: Path, *statements: str, unchecked: bool = False) -> Path:
    """Copy the archive, run these statements on it, and update its manifest, if it still has one, to match."""
    unsealed(archive, target, *statements, unchecked=unchecked)
    # With another schema no digest can be computed; import refuses such an archive earlier.
    with closing(sqlite3.connect(target, isolation_level=None)) as connection, suppress(sqlite3.Error, ValueError):
        connection.execute("UPDATE manifest SET sha256 = ?", (digest_of(connection),))
    return target


def unsealed(archive: Path, target: Path, *statements: str, unchecked: bool = False) -> Path:
    """Copy the archive and run these statements on it, leaving its manifest as it was."""
    shutil.copy(archive, target)
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        if unchecked:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)
    return target


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports archives into an otherwise empty folder."""

    folder: Path

    def refuses(self, archive: Path, *said: str) -> str:
        """Assert that the archive is refused with these words and leaves nothing behind; return the message."""
        with pytest.raises(ArchiveError) as caught:
            import_archive(archive, self.folder / "there")
        assert [word for word in said if word not in str(caught.value)] == [], str(caught.value)
        assert "\n" not in str(caught.value)
        assert list(self.folder.iterdir()) == []
        return str(caught.value)
