"""Small and large workspace folders for generations, and their contents for comparison."""

import os
import sqlite3
import zlib
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from state.fleet import Place
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.generations.versions import DATABASES, belongs

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
PLACE = Place(42, 7, "acme", "notes")
PREFIX = PLACE.prefix


def make_folder(root: Path, rows: int = 20) -> Path:
    """Create the files of a workspace that a generation contains."""
    for name in ("memory", ".dreamd/checkpoints", ".dreamd/index"):
        (root / name).mkdir(parents=True)
    (root / "MEMORY.md").write_text("# Memory\n\n- tea\n")
    (root / "memory" / "scratch.md").write_text("# Scratch\n\n- a note\n")
    (root / ".dreamd" / "inbox.md").write_text("- a note\n")
    for name in DATABASES:
        with closing(sqlite3.connect(root / name)) as made, made:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT)")
    write_rows(root, [f"row {number}" for number in range(rows)])
    return root


def put(generations: Generations, root: Path, number: int, *, whole: bool = False) -> int:
    """Commit the folder's current state as this generation; return its number."""
    return generations.put(generations.take(root, whole=whole), PLACE, number)


def bring_up(objects: Objects, folder: Path, number: int) -> None:
    """Make the folder be this generation."""
    generations = Generations(objects, PREFIX)
    generations.bring_up(folder, generations.version(number))
    generations.close()


def write_rows(root: Path, texts: list[str]) -> None:
    with closing(sqlite3.connect(root / ".dreamd" / "state.db")) as made, made:
        made.execute("PRAGMA secure_delete = ON")
        made.executemany("INSERT INTO texts (text) VALUES (?)", [(text,) for text in texts])


def grow(root: Path, megabytes: int) -> None:
    """Add about this many megabytes of distinct rows to state.db."""
    with closing(sqlite3.connect(root / ".dreamd" / "state.db")) as made, made:
        made.executemany(
            "INSERT INTO texts (text) VALUES (?)", ((os.urandom(3000).hex(),) for _ in range(megabytes * 170))
        )


def contents(root: Path) -> dict[str, object]:
    """Return the bytes of each file of a generation, and the rows of its databases."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink() or not path.is_file() or not belongs(name):
            continue
        found[name] = rows(path) if name in DATABASES else path.read_bytes()
    return found


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute("SELECT * FROM texts ORDER BY id").fetchall()


def files(root: Path) -> set[str]:
    """Return the paths of all files and links below the folder."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir()}


def held_in(path: Path) -> bytes:
    """Return a file's content, decompressed if it is an object of a generation; b"" if it has gone."""
    try:
        content = path.read_bytes()
        return zlib.decompress(content)
    except FileNotFoundError:
        return b""  # it was removed while it was looked for
    except zlib.error:
        return content


def everything(objects: Objects, prefix: str = PREFIX) -> dict[str, str]:
    """Return the content of each object as text, undecodable bytes replaced."""
    contents = {one.key: objects.get(one.key) for one in objects.list(prefix)}
    return {key: zlib.decompress(content).decode(errors="replace") for key, content in contents.items()}
