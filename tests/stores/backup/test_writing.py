"""Writing an archive: what is in it, and what is not, while everybody writes."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Origin
from state.stores.backup.archive import write_archive
from state.stores.database.connection import to_text
from tests.support.running import ROOT
from tests.support.working import AT, working

_WRITER = """
import sys
from pathlib import Path
from state.stores.database.connection import open_database, transaction
connection = open_database(Path(sys.argv[1]))
for number in range(1_000_000):
    with transaction(connection):
        connection.execute("INSERT INTO meta VALUES (?, 'x')", (f"n{number}",))
        connection.execute("INSERT INTO tombstones VALUES (?, ?)", (f"n{number}", sys.argv[2]))
"""


def written(store: Store, target: Path) -> None:
    """Write an archive of the workspace."""
    write_archive(store.workspace, store.disk, target, "0.1.0", AT)


def rows_of(path: Path, tables: Iterable[str]) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return [row for table in tables for row in connection.execute(f"SELECT * FROM {table}").fetchall()]  # noqa: S608


def test_an_archive_holds_no_word_of_a_full_text_index(tmp_path: Path) -> None:
    """An index keeps the words of what was deleted until it is merged; an archive has none of them."""
    with working(tmp_path / "here") as store:
        note = Crystal("the password of the lighthouse is zwetschgenknoedel", Origin.SCRATCH, AT)
        store.crystals.upsert([note])
        store.crystals.connection.execute("DELETE FROM crystals WHERE id = ?", (note.id,))
        indexed = [bytes(row[0]) for row in store.crystals.connection.execute("SELECT block FROM words_data")]
        assert b"zwetschgenknoedel" in b"".join(indexed)
        written(store, tmp_path / "archive.db")
    assert b"zwetschgenknoedel" not in (tmp_path / "archive.db").read_bytes()


def test_an_archive_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    """Two tables that are written in one transaction agree in every archive; rows come back as they were."""
    with working(tmp_path / "here") as store:
        database = store.workspace.database
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(database), to_text(AT)], cwd=ROOT) as writer:
            counts: set[int] = set()
            try:
                while len(counts) < 5:
                    assert writer.poll() is None
                    target = tmp_path / "archive.db"
                    written(store, target)
                    names = {row[0] for row in rows_of(target, ["meta"]) if str(row[0])[1:].isdigit()}
                    assert names == {row[0] for row in rows_of(target, ["tombstones"])}
                    counts.add(len(names))
                    target.unlink()
            finally:
                writer.kill()
