"""Parser fuzz: whatever dreamd reads, mutated.

Each parser returns or raises a DreamdError, within a time in proportion to what it reads, in bounded memory, and
nothing is written outside of the room that it is given. What breaks that is kept as a file, which is named.
"""

import json
import os
import random
import resource
import shutil
import sqlite3
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from daemon.config.settings import load
from daemon.ingest.formats.reading import readings
from daemon.upkeep.import_ import import_archive
from daemon.workspace.adoption import open_workspace
from state.codec import decode
from state.document.document import complete, parse, render
from state.document.markdown import units
from state.dream import Dream
from state.errors import DreamdError, StorageError
from state.scratch import decode as scratch_text
from state.scratch import parse_notes, render_note
from state.stores.database.copies import make_copy
from state.stores.database.opening import open_database
from state.stores.database.table import unpacked
from state.stores.disk.disk import Disk
from state.stores.disk.places import PLACE, new_id, read_place
from state.stores.repair.check import damage_of
from tests.support.archives import changed, exported, files_of, lived

REPOSITORY = Path(__file__).parents[2]
NOW = datetime(2026, 3, 12, tzinfo=UTC)
# For what is opened at all, and for each byte.
_SECONDS, _SECONDS_PER_BYTE = 8.0, 100e-6
_MOST_MEMORY = 4 * 1024**3
_MOST_BYTES = 256 * 1024
_SIGNS = (
    b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x80\xa8", b"\r",
    b"\r\n", b"\n\n", b"\x0b", b"\x1c", b"\x85", b"\t", b"```\n", b"~~~~", b"<!--", b"-->", b"## The Bond\n",
    b"- ", b"> ", b"# ", b"\xf0\x9f\x93\x8c", b"\\ud800", b"\\u0000", b"[" * 500, b"{" * 500, b'{"a":' * 300,
    b"]" * 500, b'"', b"\\", b"null", b"NaN", b"-1", b"1e999", b"9" * 400, b"0" * 40, b"9999-99-99T99:99:99Z",
    b"-0001-01-01", b"[importance: nan]", b"& * ! %YAML", b"!!python/object:os.system", b"*a", b"&a [*a, *a]",
    b"../../", b"/etc/passwd", b"/dev/zero", b"~root", b"**/", b"search: `", "→".encode(), "é".encode() * 50,
    b"\xcc\x81" * 300, b"a" * 5_000, b" " * 5_000, b"(" * 800, b"<" * 2_000, b"&amp;" * 200, b"PK\x03\x04",
    b"PK\x05\x06", b"SQLite format 3\x00", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parser:
    """What reads: from which samples, and how, in an empty room of its own."""

    name: str
    samples: tuple[bytes, ...]
    read: Callable[[bytes, Path], object]


def parsers(folder: Path) -> Iterator[Parser]:
    """All of them, with samples from a workspace that has lived, which is made in this folder."""
    os.environ |= _home(folder)
    root = lived(folder / "lived")
    archive = exported(root, folder / "backup.db")
    documents = tuple(path.read_bytes() for path in (root / "MEMORY.md", REPOSITORY / "docs/example/MEMORY.md"))
    logs = tuple(
        path.read_bytes()
        for path in (*root.rglob("*.md"), open_workspace(root).inbox)
        if "scratch" in path.name or path.name == "inbox.md"
    )
    with closing(sqlite3.connect(open_workspace(root).database)) as connection:
        records = tuple(unpacked(row[0]).encode() for row in connection.execute("SELECT record FROM versions"))
    yield Parser("document", documents, lambda content, _: _document(content))
    yield Parser("scratch", (*logs, (REPOSITORY / "docs/example/memory/scratch.md").read_bytes()), _scratch)
    yield Parser("transcript", _transcripts(), _transcript)
    yield Parser("record", records, lambda content, _: decode(Dream, content))
    yield Parser("archive", (archive.read_bytes(),), _archive)
    yield Parser("file", tuple(content for content, _ in files_of(archive).values()), partial(_file, archive))
    yield Parser("database", tuple(_databases(root)), _database)
    yield Parser(
        "config", ((REPOSITORY / "config.yaml").read_bytes(), b"daemon: {workspaces: [~/a, '/b/*']}\n"), _config
    )
    yield Parser("place", (b"folder 1 2 kept\n/srv/a\0\n/srv/a\0\n", b"repository 1 2 left\n/a\0\n/b\0\n"), _place)


def _home(folder: Path) -> dict[str, str]:
    """Environment variables for a user's own folders in this one."""
    return {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("DATA", "STATE")}


def fuzz(seconds: float, seed: int) -> str:
    """Try all of them in turns, in bounded memory; what went wrong first. Of a seed a parser's tries are the same."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, resource.RLIM_INFINITY))
    tried = Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        spent = dict.fromkeys(parsers(folder), 0.0)
        while sum(spent.values()) < seconds:
            parser = min(spent, key=lambda one: spent[one])  # as long for each, so the quick ones try more
            began = time.monotonic()
            wrong = _tried(parser, random.Random(f"{seed} {parser.name} {tried[parser.name]}"), folder)
            spent[parser] += time.monotonic() - began
            tried[parser.name] += 1
            if wrong:
                return wrong
    print("tried", ", ".join(f"{count:,} of {name}" for name, count in tried.items()))
    return ""


def _mutated(chance: random.Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples with up to eight changes."""
    content = bytearray(chance.choice(samples))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.choice((1, 4, 16, 100, 4_096)))
        change = chance.randrange(9)
        if change == 0 and content:
            content[min(at, len(content) - 1)] ^= 1 << chance.randrange(8)
        elif change == 1:
            content[at:end] = chance.randbytes(end - at)
        elif change == 2:
            del content[at:end]
        elif change == 3:
            content[at:at] = chance.choice(_SIGNS)
        elif change == 4:
            content[at:end] = chance.choice(_SIGNS)
        elif change == 5:
            content[at:at] = content[at:end] * chance.choice((1, 2, 50, 2_000))
        elif change == 6:
            other = chance.choice(samples)
            content[at:] = other[chance.randrange(len(other) + 1) :]
        elif change == 7:
            del content[at:]
        else:
            content[at:end] = bytes(reversed(content[at:end]))
        del content[_MOST_BYTES:]
    return bytes(content)


def _tried(parser: Parser, chance: random.Random, folder: Path) -> str:
    content, room = _mutated(chance, parser.samples), folder / "room"
    room.mkdir()
    os.environ |= _home(room)
    outside = _listing(folder, room)
    began, wrong = time.monotonic(), ""
    try:
        with suppress(DreamdError):
            parser.read(content, room)
    except Exception:  # noqa: BLE001 - that is what is looked for
        wrong = traceback.format_exc(limit=-8)
    took = time.monotonic() - began
    if not wrong and took > _SECONDS + len(content) * _SECONDS_PER_BYTE:
        wrong = f"took {took:.1f} s for {len(content):,} bytes"
    if not wrong and _listing(folder, room) != outside:
        wrong = f"wrote outside of its room: {_listing(folder, room) ^ outside}"
    try:
        shutil.rmtree(room)
    except RecursionError:
        wrong = wrong or "made folders in folders in folders"
    if wrong:
        kept = Path(tempfile.mkdtemp(prefix="parser-fuzz-")) / parser.name
        kept.write_bytes(content)
        wrong = f"{parser.name}: {wrong}\nkept: {kept}"
    return wrong


def _document(content: bytes) -> None:
    text = content.decode("utf-8", "replace")
    document = parse(text)
    assert render(document) == text
    render(complete(document))
    units(text.splitlines())


def _scratch(content: bytes, _: Path) -> None:
    for note in parse_notes(scratch_text(content), NOW):
        render_note(note)


def _transcripts() -> tuple[bytes, ...]:
    examples = tuple(path.read_bytes() for path in sorted((REPOSITORY / "docs/example/transcripts").iterdir()))
    rows = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}]
    gemini = [
        {"sessionId": "s", "projectHash": "p"},
        {"id": "m", "type": "user", "content": "hello"},
        {"id": "n", "type": "gemini", "content": "yes", "toolCalls": [{"id": "c", "name": "x", "result": []}]},
    ]
    opencode = {
        "info": {"id": "s"},
        "messages": [
            {"info": {"role": "user"}, "parts": [{"type": "text", "text": "hello"}, {"type": "tool", "state": {}}]}
        ],
    }
    return (
        *examples,
        json.dumps(rows).encode(),
        "".join(json.dumps(row) + "\n" for row in rows).encode(),
        json.dumps({"messages": rows}).encode(),
        "".join(json.dumps(row) + "\n" for row in gemini).encode(),
        json.dumps(opencode).encode(),
        b"# Day one\n\n**Ada:** we keep the ledger in SQLite\n\n> quoted\n\n- a list\n\n```\ncode\n```\n",
        b"Ada: hello there\nBo: yes, hello\n\nAda: and so on\n",
    )


def _transcript(content: bytes, room: Path) -> None:
    for name in ("talk.jsonl", "talk.json", "talk.md", "talk.txt"):
        path = room / name
        path.write_bytes(content)
        try:
            for reading in readings(path):
                assert reading.watermark.bytes_read <= len(content)
        except DreamdError:
            continue


def _archive(content: bytes, room: Path) -> None:
    path = room / "backup"
    path.write_bytes(content)
    import_archive(path, room / "imported")


def _file(archive: Path, content: bytes, room: Path) -> None:
    name = random.Random(len(content)).choice(sorted(files_of(archive)))
    statement = f"UPDATE files SET content = x'{content.hex()}' WHERE name = '{name}'"  # noqa: S608
    import_archive(changed(archive, room / "changed.db", statement), room / "imported")


def _databases(root: Path) -> Iterator[bytes]:
    """A database, and one with its log behind it, from a sign on."""
    main = open_workspace(root).database.read_bytes()
    yield main
    copy = root.parent / "copy.db"
    copy.write_bytes(main)
    with closing(open_database(copy)) as connection:
        connection.execute("UPDATE crystals SET context = 'a harbour' || key")
        yield main + _SIGN + copy.with_name("copy.db-wal").read_bytes()


_SIGN = b"\n---- the log ----\n"


def _database(content: bytes, room: Path) -> None:
    path = room / "state.db"
    main, _, log = content.partition(_SIGN)
    path.write_bytes(main)
    if log:
        path.with_name("state.db-wal").write_bytes(log)
    damage_of(path, expected=True)
    with suppress(StorageError):
        copy = make_copy(path, Disk(room))
        assert damage_of(copy, expected=True) is not None
    with closing(open_database(path)):
        pass


def _config(content: bytes, room: Path) -> None:
    path = room / "config.yaml"
    path.write_bytes(content)
    load(path, {})


def _place(content: bytes, room: Path) -> None:
    path = room / (number := new_id("project")) / PLACE
    path.parent.mkdir()
    path.write_bytes(content)
    read_place(room, number)


def _listing(folder: Path, room: Path) -> frozenset[tuple[str, int]]:
    """Every file beside the room, and when it was changed."""
    return frozenset(
        (str(path), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and not path.is_relative_to(room)
    )
