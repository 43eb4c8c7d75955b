"""state.db in an archive: only rows of the tables that there are come out of it, whatever else is in it."""

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from daemon.ingest.formats.turn import Watermark
from daemon.upkeep.import_ import import_archive
from daemon.workspace.adoption import open_workspace
from state.codec import encode
from state.crystals.crystal import Crystal, Origin, crystal_id
from state.errors import DreamdError
from state.stores.backup.database import rebuilt, snapshot
from state.stores.backup.manifest import DATABASE
from state.stores.database.connection import MIGRATIONS, SCHEMA_VERSION, open_database, to_text
from tests.support.archives import Importer, forged, members
from tests.support.long_variants import examples
from tests.support.running import ROOT
from tests.support.working import AT, SECRET, add, working


def changed(archive: Path, folder: Path, *statements: str, unchecked: bool = False) -> Path:
    """The archive with these statements done to its state.db."""
    path = folder / "changed.db"
    path.write_bytes(members(archive)[DATABASE])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if unchecked:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)
    target = folder / "changed.tar.gz"
    forged(archive, target, {DATABASE: path.read_bytes()})
    path.unlink()
    return target


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
HALF_FORGOTTEN = '{"targets": [["tea"]], "cut": "sentences", "renamed": {}, "keywords": [], "rows": []}'
OTHER_SCHEMAS = (
    "CREATE TABLE cargo (text TEXT)",
    "CREATE VIEW cargo AS SELECT * FROM crystals",
    "CREATE INDEX cargo ON crystals (text)",
    "CREATE TRIGGER cargo AFTER INSERT ON crystals BEGIN DELETE FROM lines; END",
    "CREATE TEMP TABLE cargo (text TEXT)",
    "CREATE VIRTUAL TABLE cargo USING fts5 (text)",
    "ALTER TABLE crystals ADD COLUMN cargo TEXT",
    "ALTER TABLE crystals ADD COLUMN cargo TEXT AS (text || text)",
    "DROP INDEX crystals_by_kind",
    "DROP TRIGGER item_events_stay",
    "DROP TABLE skills",
)


@pytest.mark.parametrize("statement", OTHER_SCHEMAS)
def test_a_schema_that_is_another_one_is_refused(
    archive: Path, importer: Importer, tmp_path: Path, statement: str
) -> None:
    path = changed(archive, tmp_path, statement)
    if "TEMP" in statement:  # it was never in the file
        import_archive(path, importer.folder / "there")
    else:
        importer.refuses(path, "its tables are not those of schema")


def test_a_trigger_with_a_tables_name_is_another_schema(archive: Path, importer: Importer, tmp_path: Path) -> None:
    """A table and a trigger may have one name: both are looked at, whichever comes last."""
    for name in ("skills", "words_data"):
        hidden = f"CREATE TRIGGER {name} AFTER INSERT ON crystals BEGIN DELETE FROM lines; END"  # noqa: S608
        again = f"UPDATE sqlite_master SET rowid = 10000 WHERE type = 'table' AND name = '{name}'"  # noqa: S608
        for statements in ((hidden,), (hidden, again)):
            path = changed(archive, tmp_path, *statements, unchecked=True)
            importer.refuses(path, "its tables are not those of schema")


def test_what_an_owner_has_analysed_is_left_behind(archive: Path, tmp_path: Path) -> None:
    import_archive(changed(archive, tmp_path, "ANALYZE"), tmp_path / "there")
    with closing(sqlite3.connect(open_workspace(tmp_path / "there").database)) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'sqlite_stat%'").fetchone() is None


def test_a_view_or_a_virtual_table_in_the_place_of_a_table_is_never_asked(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, x, x, x, x, x FROM n"
    for statement in (f"CREATE VIEW skills AS {endless}", "CREATE VIRTUAL TABLE skills USING fts5 (place, pattern)"):
        importer.refuses(changed(archive, tmp_path, "DROP TABLE skills", statement), "its tables are not those")


def test_other_versions_and_another_programs_database_are_refused(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    for version, said in ((99, "schema 99"), (0, "no schema"), (-7, "no schema"), (1, "the manifest says")):
        importer.refuses(changed(archive, tmp_path, f"PRAGMA user_version = {version}"), said)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    importer.refuses(
        forged(archive, tmp_path / "x.tar.gz", {DATABASE: other.read_bytes()}), "its tables are not those"
    )


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE crystals SET text = CAST(x'fffe' AS TEXT)", "UTF-8"),
        ("UPDATE crystals SET text = x'00'", "of crystals hold what they cannot hold"),
        ("UPDATE crystals SET accesses = 'many'", "of crystals hold what they cannot hold"),
        ("UPDATE crystals SET importance = 'high'", "of crystals hold what they cannot hold"),
        ("UPDATE crystals SET created_at = 'yesterday'", "of crystals hold what they cannot hold"),
        ("UPDATE crystals SET created_at = '2026-03-01T12:00:00'", "of crystals hold what they cannot hold"),
        ("UPDATE items SET content = x'00'", "of items hold"),
        ("UPDATE occurrences SET crystal = crystal + 777", "rows of occurrences lead to rows that are not there"),
        pytest.param("UPDATE meta SET value = zeroblob(70000000)", "too big", marks=pytest.mark.full),
        ("UPDATE crystals SET trust = 'zzz'", "of crystals hold what they cannot hold"),
        ("UPDATE crystals SET parents = '[['", "of crystals hold"),
        ("UPDATE crystals SET lifecycle = 'x'", "of crystals hold"),
        ("UPDATE crystals SET importance = 9e999", "of crystals hold"),
        ("UPDATE crystals SET text = 'another'", "of crystals hold"),
        ("UPDATE lines SET section = 'Nope'", "of lines hold"),
        ("UPDATE items SET metadata = '[1'", "of items hold"),
        ("UPDATE sessions SET config = '{{{'", "of sessions hold"),
        ("UPDATE sessions SET policy = 'zzz'", "of sessions hold"),
        ("INSERT INTO hormones VALUES (1, 0, 0, 0, '2026-03-01T12:00:00+00:00', '[')", "of hormones hold"),
        ("INSERT INTO watermarks VALUES ('x.md', 1, 1, '[]')", "of watermarks hold"),
        ("INSERT INTO meta VALUES ('forgotten_salt', 'zz')", "of meta hold"),
        ("INSERT INTO meta VALUES ('forgotten_withheld', 'many')", "of meta hold"),
        ("INSERT INTO meta VALUES ('forgettings', '[{}]')", "of meta hold"),
        ("INSERT INTO meta VALUES ('session_ended', 'yesterday')", "of meta hold"),
        ("UPDATE meta SET value = '{\"1\": [1]}' WHERE name = 'notes_read'", "of meta hold"),
        # It would be carried out here.
        ("INSERT INTO meta VALUES ('forgetting', '{}')", "of meta hold"),
        (f"INSERT INTO meta VALUES ('forgetting', '{HALF_FORGOTTEN}')", "forgetting has not ended"),  # noqa: S608
        ("INSERT INTO hormones VALUES (2, 0, 0, 0, '2026-03-01T12:00:00+00:00', '{}')", "CHECK constraint"),
    ],
)
def test_rows_that_no_dreamd_writes_are_refused(
    archive: Path, importer: Importer, tmp_path: Path, statement: str, said: str
) -> None:
    more = ("INSERT OR IGNORE INTO meta VALUES ('x', 'y')",)
    importer.refuses(changed(archive, tmp_path, *more, statement, unchecked=True), "state.db", said)


def test_what_a_hostile_schema_says_is_nothing_that_a_terminal_obeys(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    bad = "UPDATE sqlite_master SET sql = 'CREATE \x1b]0;owned\x07 \u202e' || char(10) WHERE name = 'skills'"
    said = importer.refuses(changed(archive, tmp_path, bad, unchecked=True), "state.db")
    assert said.isprintable()


def test_the_form_of_the_file_must_be_right(archive: Path, importer: Importer, tmp_path: Path) -> None:
    whole = members(archive)[DATABASE]
    wal = bytearray(whole)
    wal[18:20] = b"\2\2"
    for number, (content, said) in enumerate(
        (
            (b"", "no database"),
            (b"x" * 4096, "no database"),
            (whole[:4096], "cut off"),
            (whole + bytes(4096), "cut off"),
            (bytes(wal), "journal"),
        )
    ):
        importer.refuses(forged(archive, tmp_path / f"{number}.tar.gz", {DATABASE: content}), said)


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_damaged_pages_are_refused_or_are_other_rows(archive: Path, tmp_path: Path, seed: int, count: int) -> None:
    """Never a crash, never an endless search, and what is let in is a sound database of ours."""
    content, rng = bytearray(members(archive)[DATABASE]), random.Random(seed)
    used = [page for page in range(len(content) // 4096) if any(content[page * 4096 : page * 4096 + 4096])]
    for _ in range(count):
        page = rng.choice(used)
        content[page * 4096 + rng.choice([rng.randrange(16), rng.randrange(4096)])] = rng.randrange(256)
    incoming, target = tmp_path / "in.db", tmp_path / "out.db"
    incoming.write_bytes(content)
    for path in tmp_path.glob("out.db*"):
        path.unlink()
    refusal = ""
    try:
        rebuilt(incoming, target, SCHEMA_VERSION)
    except DreamdError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if refusal:
        return
    with closing(open_database(target)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall()[0][0] == "ok"


def test_what_was_read_outside_the_workspace_is_nobodys_here(archive: Path, tmp_path: Path) -> None:
    """A row that names a file of the machine would have it read, by a repair, with the owner's trust."""
    record = encode(Watermark())
    foreign = ("../x.md", "a/../../x.md", "/etc/passwd", "//etc/passwd", "..", "", ".dreamd/state.db", "a\0b")
    own = ("chats/one.jsonl", "a..b/..c.md")
    rows = (f"(CAST(x'{name.encode().hex()}' AS TEXT), -1, 0, '{record}')" for name in (*foreign, *own))
    statement = f"INSERT INTO watermarks VALUES {', '.join(rows)}"  # noqa: S608
    path = changed(archive, tmp_path, statement, "UPDATE occurrences SET file = '/etc/x'")
    there = tmp_path / "there"
    assert import_archive(path, there).foreign == len(foreign)
    database = open_workspace(there).database
    assert sorted(str(row[0]) for row in rows_of(database, ["watermarks"])) == sorted(own)
    assert b"/etc/passwd" not in database.read_bytes()


def rows_of(path: Path, tables: Iterable[str]) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return [row for table in tables for row in connection.execute(f"SELECT * FROM {table}").fetchall()]  # noqa: S608


@pytest.mark.full
def test_every_older_schema_is_brought_to_this_one(archive: Path, importer: Importer, tmp_path: Path) -> None:
    for version in range(1, SCHEMA_VERSION + 1):
        old = tmp_path / f"{version}.db"
        with closing(sqlite3.connect(old)) as connection:
            connection.create_function("faded_at", 5, lambda *_: None, deterministic=True)
            connection.create_function("normalised", 1, str, deterministic=True)
            for script in MIGRATIONS[:version]:
                connection.executescript(script)
            connection.execute(
                "INSERT INTO crystals (id, text, origin, kind, importance, trust, lifecycle, created_at)"
                " VALUES (?, 'the harbour wall', 'scratch', 'general', 0.7, 'agent', 'activated', ?)",
                (crystal_id(Origin.SCRATCH, "the harbour wall"), to_text(AT)),
            )
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'to_embed'").fetchone():
                connection.execute("INSERT INTO to_embed (crystal) SELECT key FROM crystals")
            connection.execute(f"PRAGMA user_version = {version}")
            connection.commit()
        path = forged(
            archive,
            tmp_path / f"{version}.tar.gz",
            {DATABASE: old.read_bytes()} | {name: None for name in members(archive) if name.startswith("history/")},
            lambda said, version=version: said.update(schema=version),  # type: ignore[misc]
        )
        there = importer.folder / str(version)
        assert import_archive(path, there).crystals == 1
        with closing(open_database(there / ".dreamd" / "state.db")) as connection:
            assert connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
            found = connection.execute("SELECT rowid FROM words WHERE words MATCH 'harbour'").fetchall()
            assert len(found) == 1


def test_a_snapshot_carries_no_page_of_what_was_deleted(tmp_path: Path) -> None:
    with working(tmp_path / "here") as store:
        add(store, f"the password of the lighthouse {SECRET[:3]} marzipan", priority="critical")
        connection = store.crystals.connection
        connection.execute("DELETE FROM items")
        assert b"marzipan" in b"".join(
            path.read_bytes() for path in store.workspace.state.glob("state.db*") if path.is_file()
        )
        snapshot(store.workspace.database, tmp_path / "snapshot.db")
    assert b"marzipan" not in (tmp_path / "snapshot.db").read_bytes()


def test_a_snapshot_holds_no_word_of_a_full_text_index(tmp_path: Path) -> None:
    """An index keeps the words of what was deleted until it is merged; an archive has none of them."""
    with working(tmp_path / "here") as store:
        note = Crystal("the password of the lighthouse is zwetschgenknoedel", Origin.SCRATCH, AT)
        store.crystals.upsert([note])
        store.crystals.connection.execute("DELETE FROM crystals WHERE id = ?", (note.id,))
        indexed = [bytes(row[0]) for row in store.crystals.connection.execute("SELECT block FROM words_data")]
        assert b"zwetschgenknoedel" in b"".join(indexed)
        snapshot(store.workspace.database, tmp_path / "snapshot.db")
    assert b"zwetschgenknoedel" not in (tmp_path / "snapshot.db").read_bytes()


def test_a_snapshot_of_the_same_rows_is_the_same_file(tmp_path: Path) -> None:
    """Neither what the file went through nor how its indexes were built shows in it."""
    with working(tmp_path / "here") as store:
        connection = store.crystals.connection
        store.crystals.upsert([Crystal(f"note {number}", Origin.SCRATCH, AT) for number in range(50)])
        snapshot(store.workspace.database, tmp_path / "1.db")
        connection.execute("CREATE TABLE cargo (text)")
        connection.execute("DROP TABLE cargo")
        connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
        connection.execute("VACUUM")
        snapshot(store.workspace.database, tmp_path / "2.db")
    assert (tmp_path / "1.db").read_bytes() == (tmp_path / "2.db").read_bytes()


def test_a_snapshot_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    """Two tables that are written in one transaction agree in every snapshot; rows come back as they were."""
    with working(tmp_path / "here") as store:
        database = store.workspace.database
        with subprocess.Popen([sys.executable, "-c", _WRITER, str(database), to_text(AT)], cwd=ROOT) as writer:
            counts: set[int] = set()
            try:
                while len(counts) < 5:
                    assert writer.poll() is None
                    target = tmp_path / "snapshot.db"
                    snapshot(database, target)
                    names = {row[0] for row in rows_of(target, ["meta"]) if str(row[0])[1:].isdigit()}
                    assert names == {row[0] for row in rows_of(target, ["tombstones"])}
                    counts.add(len(names))
                    target.unlink()
            finally:
                writer.kill()
