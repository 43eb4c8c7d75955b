"""Archives that nobody's dreamd wrote: only rows and files that there may be come out, whatever else is in one."""

import os
import random
import shutil
import sqlite3
import tracemalloc
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from daemon.ingest.formats.conversation import Watermark
from daemon.upkeep import import_
from daemon.upkeep.import_ import import_archive
from daemon.workspace.adoption import find_or_make, find_workspace, open_workspace
from state.codec import encode
from state.errors import DreamdError, UsageError
from state.stores.backup.archive import ArchiveError, digest_of, place
from state.stores.backup.reading import open_foreign, rebuild, unpack
from state.stores.database import schema
from state.stores.database.opening import open_database, unlike_schema
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.archives import HOSTILE_NAMES, Importer, changed
from tests.support.lived import everything
from tests.support.long_variants import examples
from tests.support.repository import git
from tests.support.upgrade import SECOND, made_older

OTHER_SCHEMAS = (
    "CREATE TABLE cargo (text TEXT)",
    "CREATE VIEW cargo AS SELECT * FROM crystals",
    "CREATE INDEX cargo ON crystals (text)",
    "CREATE TRIGGER cargo AFTER INSERT ON crystals BEGIN DELETE FROM lines; END",
    "CREATE TRIGGER files AFTER INSERT ON meta BEGIN DELETE FROM files; END",
    "CREATE VIRTUAL TABLE cargo USING fts5 (text)",
    *(
        f"ALTER TABLE {table} ADD COLUMN cargo TEXT{made}"
        for table in ("crystals", "files")
        for made in ("", " AS (1 || 2)")
    ),
    "DROP INDEX crystals_by_kind",
    "DROP TRIGGER item_events_stay",
    *(f"DROP TABLE {table}" for table in ("notes", "files", "manifest")),
)
HALF_FORGOTTEN = '{"targets": [{"words": ["tea"], "kept": false}], "cut": "sentences"}'


def test_a_trigger_with_a_tables_name_is_another_schema(archive: Path, importer: Importer, tmp_path: Path) -> None:
    """A table and a trigger may have one name: both are looked at, whichever comes last."""
    for name in ("to_index", "words_data"):
        hidden = f"CREATE TRIGGER {name} AFTER INSERT ON crystals BEGIN DELETE FROM lines; END"  # noqa: S608
        again = f"UPDATE sqlite_master SET rowid = 10000 WHERE type = 'table' AND name = '{name}'"  # noqa: S608
        for statements in ((hidden,), (hidden, again)):
            path = changed(archive, tmp_path / "x.db", *statements, unchecked=True)
            importer.refuses(path, "its tables are not those of schema")


def test_other_versions_and_another_programs_database_are_refused(
    archive: Path, importer: Importer, tmp_path: Path
) -> None:
    first = schema.FIRST_SCHEMA
    for version, said in ((99, "schema 99"), (first - 1, "never released"), (0, "no schema"), (-7, "no schema")):
        importer.refuses(changed(archive, tmp_path / "x.db", f"PRAGMA user_version = {version}"), said)
    assert "upgrade" in importer.refuses(changed(archive, tmp_path / "x.db", "PRAGMA user_version = 99"))
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION}")
    importer.refuses(other, "its tables are not those")


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
        ("UPDATE versions SET text = x'00'", "of versions hold"),
        ("UPDATE versions SET text = substr(text, 1, 20) WHERE length(text) > 20", "of versions hold"),
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
        ("INSERT INTO watermarks VALUES ('x.md', 1, 1, '[]')", "of watermarks hold"),
        ("INSERT INTO meta VALUES ('forgotten_salt', 'zz')", "of meta hold"),
        ("INSERT INTO meta VALUES ('forgotten_withheld', 'many')", "of meta hold"),
        ("INSERT INTO meta VALUES ('session_ended', 'yesterday')", "of meta hold"),
        # It would be carried out here.
        ("INSERT INTO meta VALUES ('forgetting', '{}')", "of meta hold"),
        (f"INSERT INTO meta VALUES ('forgetting', '{HALF_FORGOTTEN}')", "forgetting has not ended"),  # noqa: S608
        ("INSERT INTO index_state VALUES (2, '', '')", "CHECK constraint"),
        ("INSERT INTO files VALUES ('MEMORY.md', x'00', 0)", "in it twice"),
        ("INSERT INTO files VALUES (x'4D454D4F52592E6D64', x'00', 0)", "no file of a workspace"),
        ("INSERT INTO files VALUES (7, x'00', 0)", "no file of a workspace"),
        ("UPDATE files SET content = 'text'", "is no file"),
        ("UPDATE files SET content = 9.5", "is no file"),
        ("UPDATE files SET mtime_ns = -1", "of no time"),
        ("UPDATE files SET mtime_ns = 9223372036854775807", "of no time"),
        ("UPDATE files SET mtime_ns = 'yesterday'", "of no time"),
        ("DELETE FROM manifest", "its manifest"),
        ("INSERT INTO manifest SELECT * FROM manifest", "its manifest"),
        ("UPDATE manifest SET at = 'yesterday'", "no time"),
        ("UPDATE manifest SET at = '2026-03-01T12:00:00'", "no time"),
        ("UPDATE manifest SET at = x'00'", "no time"),
        *((statement, "its tables are not those of schema") for statement in OTHER_SCHEMAS),
    ],
)
def test_what_no_dreamd_writes_is_refused(
    archive: Path, importer: Importer, tmp_path: Path, statement: str, said: str
) -> None:
    more = ("INSERT OR IGNORE INTO meta VALUES ('x', 'y')",)
    importer.refuses(changed(archive, tmp_path / "x.db", *more, statement, unchecked=True), said)


def test_the_form_of_the_file_must_be_right(archive: Path, importer: Importer, tmp_path: Path) -> None:
    whole = archive.read_bytes()
    wal = bytearray(whole)
    wal[18:20] = b"\2\2"
    for content, said in (
        (b"", "no archive"),
        (b"x" * 4096, "no archive"),
        (b"PK\3\4" + whole, "no archive"),
        (b"\x1f\x8b" + whole, "no archive"),
        (whole[:4096], "cut off"),
        (whole + bytes(4096), "cut off"),
        (bytes(wal), "journal"),
    ):
        (tmp_path / "x.db").write_bytes(content)
        importer.refuses(tmp_path / "x.db", said)


def test_what_is_no_file_is_never_opened_and_a_link_is_followed(archive: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(UsageError, match="is no regular file"):
            import_archive(path, tmp_path / "there")
    (tmp_path / "latest.db").symlink_to(archive)
    assert import_archive(tmp_path / "latest.db", tmp_path / "there").version == 4


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_only_names_that_a_workspace_has_are_let_in(
    archive: Path, importer: Importer, tmp_path: Path, name: str
) -> None:
    assert place(contained(tmp_path), name) is None
    row = f"INSERT INTO files VALUES (CAST(x'{name.encode().hex()}' AS TEXT), x'00', 0)"  # noqa: S608
    importer.refuses(changed(archive, tmp_path / "x.db", row), "is no file of a workspace")


@pytest.mark.full
def test_a_long_file_is_never_read_whole(archive: Path, tmp_path: Path) -> None:
    grow = "UPDATE files SET content = zeroblob(200000000) WHERE name = 'GENOME.md'"
    path, workspace = changed(archive, tmp_path / "x.db", grow), init_workspace(contained(tmp_path / "there"))
    tracemalloc.start()
    unpack(path, workspace, System())
    assert tracemalloc.get_traced_memory()[1] < 40_000_000
    tracemalloc.stop()
    assert workspace.genome.stat().st_size == 200_000_000


spoils = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8)


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spoils, st.none() | st.floats(0, 1))
def test_a_damaged_archive_is_refused_or_gives_the_same(
    archive: Path,
    honest: dict[str, bytes],
    importer: Importer,
    tmp_path: Path,
    spoiled: list[tuple[float, int]],
    cut: float | None,
) -> None:
    content = bytearray(archive.read_bytes())
    for at, value in spoiled:
        content[int(at * len(content))] = value
    (tmp_path / "x.db").write_bytes(content if cut is None else content[: int(cut * len(content))])
    with suppress(ArchiveError):
        import_archive(tmp_path / "x.db", importer.folder / "there")
        assert everything(importer.folder / "there") == honest
        shutil.rmtree(importer.folder / "there")
    assert list(importer.folder.iterdir()) == []


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_damaged_pages_that_its_maker_agrees_with_are_refused_or_are_other_rows(
    archive: Path, tmp_path: Path, seed: int, count: int
) -> None:
    """Never a crash, never an endless search, and what is let in is a sound database of ours."""
    content, rng = bytearray(archive.read_bytes()), random.Random(seed)
    used = [page for page in range(len(content) // 4096) if any(content[page * 4096 : page * 4096 + 4096])]
    for _ in range(count):
        page = rng.choice(used)
        content[page * 4096 + rng.choice([rng.randrange(16), rng.randrange(4096)])] = rng.randrange(256)
    (tmp_path / "spoiled.db").write_bytes(content)
    for path in tmp_path.glob("out.db*"):
        path.unlink()
    refusal = ""
    try:
        with open_foreign(tmp_path / "spoiled.db") as source:
            rebuild(source, tmp_path / "out.db")
    except DreamdError as error:
        refusal = str(error)
    assert "\n" not in refusal
    if not refusal:
        with closing(open_database(tmp_path / "out.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall()[0][0] == "ok"


def test_what_was_read_outside_the_workspace_is_nobodys_here(archive: Path, tmp_path: Path) -> None:
    """A row that names a file of the machine would have it read, by a repair, with the owner's trust."""
    record = encode(Watermark())
    foreign = ("../x.md", "a/../../x.md", "/etc/passwd", "//etc/passwd", "..", "", ".dreamd/state.db", "a\0b")
    own = ("chats/one.jsonl", "a..b/..c.md")
    rows = (f"(CAST(x'{name.encode().hex()}' AS TEXT), -1, 0, '{record}')" for name in (*foreign, *own))
    statement = f"INSERT INTO watermarks VALUES {', '.join(rows)}"  # noqa: S608
    path = changed(archive, tmp_path / "x.db", statement, "UPDATE occurrences SET file = '/etc/x'")
    there = tmp_path / "there"
    assert import_archive(path, there).foreign == len(foreign)
    database = open_workspace(there).database
    with closing(sqlite3.connect(database)) as connection:
        assert sorted(str(row[0]) for row in connection.execute("SELECT file FROM watermarks")) == sorted(own)
    assert b"/etc/passwd" not in database.read_bytes()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        # Nothing of what a foreign file says is ever carried out.
        ("CREATE TRIGGER hostile AFTER UPDATE ON crystals BEGIN DELETE FROM crystals; END", ""),
        ("DROP TABLE lines; CREATE VIEW lines AS SELECT * FROM crystals", ""),
        ("INSERT INTO crystals (text) VALUES ('a text with nothing else')", "NOT NULL"),
        ("DROP TABLE crystals", f"its tables are not those of schema {schema.FIRST_SCHEMA}"),
        ("INSERT INTO shown_inputs VALUES ('x', 'y', 3)", "shown_inputs hold what they cannot hold"),
    ],
)
def test_an_archive_of_an_earlier_release_is_brought_to_this_one_unless_its_rows_are_others(
    archive: Path, importer: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    old = Path(shutil.copy(archive, tmp_path / "old.db"))
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        made_older(connection)
        bare = "CREATE TABLE bare AS SELECT * FROM crystals; DROP TABLE crystals; ALTER TABLE bare RENAME TO crystals"
        connection.executescript(f"{bare}; {statement}; VACUUM")
        connection.execute("UPDATE manifest SET sha256 = ?", (digest_of(connection),))
    monkeypatch.setattr(schema, "SCHEMA_VERSION", SECOND)
    monkeypatch.setattr(schema, "UPGRADES", (("INSERT INTO meta SELECT 'had', count(*) FROM before_crystals",),))
    if said:
        importer.refuses(old, said)
        return
    there = importer.folder / "there"
    crystals = import_archive(old, there).crystals
    with closing(open_database(open_workspace(there).database)) as connection:
        assert unlike_schema(connection) == []
        assert connection.execute("SELECT value FROM meta WHERE name = 'had'").fetchone()[0] == str(crystals)
        assert connection.execute("SELECT rowid FROM words WHERE words MATCH 'coffee'").fetchall()


@pytest.mark.usefixtures("own_folders")
def test_a_memory_that_a_note_makes_meanwhile_is_not_replaced(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet", tmp_path / "project")
    made, built = list[Workspace](), import_._built

    def meanwhile(*told: Any) -> Any:
        made.append(find_or_make(tmp_path / "project"))
        return built(*told)

    monkeypatch.setattr(import_, "_built", meanwhile)
    with pytest.raises(UsageError, match="has a memory already"):
        import_archive(archive, tmp_path / "project")
    assert [find_workspace(tmp_path / "project")] == made
    assert [one.name for one in made[0].state.parent.iterdir() if one.is_dir()] == [made[0].state.name]
