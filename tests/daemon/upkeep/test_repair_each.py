"""Each thing that may be broken is found, said, mended, and kept aside; what is whole is left alone."""

import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.upkeep.doctor import examine
from daemon.upkeep.examine import Finding, Level, check_stores
from daemon.upkeep.repair.run import Repair
from daemon.workspace.stores import open_exclusive
from state.stores.database.connection import open_database
from state.stores.disk.workspace import Workspace
from tests.support import breaking
from tests.support.breaking import (
    PENDING,
    WORDS_ONLY,
    about,
    assert_works,
    content,
    lost,
    repaired,
)
from tests.support.copies import place_of
from tests.support.long_variants import spread
from tests.support.running import Caller

Spoil = Callable[[Workspace], object]


# ------------------------------------------------------------- one thing after the other


def test_a_whole_workspace_is_left_as_it_is_and_the_exit_status_says_so(
    here: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    dreamd = Caller(capsys)
    before = content(here)
    assert repaired(here) == Repair()
    assert content(here) == before
    assert dreamd("doctor", here.root, "--repair").status == 3
    assert dreamd("doctor", here.root, "--repair", "--dry-run").status == 3
    assert dreamd("doctor", here.root, "--dry-run").status == 2


def row_changed(statement: str) -> Spoil:
    def spoil(workspace: Workspace) -> None:
        with closing(open_database(workspace.database)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(statement)

    return spoil


def written(name: str, text: bytes) -> Spoil:
    def spoil(workspace: Workspace) -> None:
        path = place_of(workspace, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)

    return spoil


def a_folder(name: str) -> Spoil:
    def spoil(workspace: Workspace) -> None:
        path = place_of(workspace, name)
        path.unlink(missing_ok=True)
        path.mkdir()
        (path / "inside").write_text("somebody's")

    return spoil


def a_file(name: str) -> Spoil:
    def spoil(workspace: Workspace) -> None:
        folder = place_of(workspace, name)
        folder.rename(workspace.root / "gone")
        folder.write_text("somebody's")

    return spoil


def examined(workspace: Workspace) -> list[Finding]:
    """What `dreamd doctor` finds."""

    def look() -> list[Finding]:
        with open_exclusive(workspace, Config(), "test", embedding=WORDS_ONLY) as store:
            return list(check_stores(store))

    return list(examine(workspace, Config, lambda: (), look))


SPOILS: dict[str, tuple[str, Spoil]] = {
    "an index is missing": ("state.db", row_changed("DROP INDEX crystals_by_kind")),
    "an index is another one": (
        "state.db",
        row_changed(
            "UPDATE sqlite_schema SET sql = replace(sql, 'kind, key', 'key') WHERE name = 'crystals_by_kind'"
        ),
    ),
    "a foreign key leads nowhere": (
        "state.db",
        row_changed("UPDATE occurrences SET crystal = 4711 WHERE crystal = 3"),
    ),
    "a column holds what it cannot": (
        "state.db",
        row_changed("UPDATE crystals SET lifecycle = 'gone' WHERE key = 5"),
    ),
    "a text is not its id's": ("state.db", row_changed("UPDATE crystals SET text = text || '?' WHERE key = 7")),
    "the schema number is wrong": ("state.db", row_changed("PRAGMA user_version = 77")),
    "no database": ("state.db", written(".dreamd/state.db", b"no database " * 1_000)),
    "a folder": ("state.db", a_folder(".dreamd/state.db")),
    "words": ("word index", row_changed("DELETE FROM words_docsize WHERE id < 9")),
    "checkpoints": ("checkpoints", written(".dreamd/checkpoints/dreams.db", b"\xff" * 9_000)),
    "scratch.md is a folder": ("notes", a_folder("memory/scratch.md")),
    "NUL in MEMORY.md": ("MEMORY.md", written("MEMORY.md", b"# Working Memory State\n" + bytes(4_000))),
    "MEMORY.md is no text": ("MEMORY.md", written("MEMORY.md", b"\xff\xfe\x00tea")),
    "MEMORY.md is a folder": ("MEMORY.md", a_folder("MEMORY.md")),
    "MEMORY.md lacks sections": (
        "MEMORY.md",
        written("MEMORY.md", b"# Working Memory State\n\n## The Bond\n\n- tea\n"),
    ),
    "index is a file": ("folders", a_file(".dreamd/index")),
}


@pytest.mark.parametrize("name", spread(SPOILS, 5))
def test_what_is_broken_is_found_said_mended_and_kept(
    here: Workspace, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    topic, spoil = SPOILS[name]
    spoil(here)
    before = content(here)
    planned = Caller(capsys)("doctor", here.root, "--repair", "--dry-run")
    if topic != "word index":  # that shows when it is open
        assert f"broken   {topic}" in planned.out, planned
        assert content(here) == before
        told = [one for one in examined(here) if one.about == topic and one.level is not Level.OK]
        assert told != []
        assert topic == "folders" or any("run 'dreamd doctor --repair'" in one.advice for one in told), told
    done = repaired(here)
    assert topic in about(done), done
    for kept in done.kept:
        assert stat.S_IMODE((here.root / kept).stat().st_mode) & 0o077 == 0
    gone = lost(here)
    assert gone.said == ()
    assert gone.items == () or topic == "state.db"
    assert set(gone.notes) <= (set(PENDING) | {breaking.UNREAD} if topic == "notes" else set())
    assert repaired(here).mends == ()
    assert_works(here)


@pytest.mark.parametrize("name", [".dreamd/state.db", "MEMORY.md"])
def test_a_link_in_the_place_of_a_file_is_said_and_not_followed(here: Workspace, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("somebody else's")
    path = place_of(here, name)
    path.unlink()
    path.symlink_to(outside)
    done = repaired(here)
    assert any(one.about == "links" and str(path) in one.what for one in done.left), done.left
    assert path.is_symlink()
    assert outside.read_text() == "somebody else's"
    assert stat.S_IMODE(outside.stat().st_mode) != 0o600
