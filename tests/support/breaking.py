"""A used workspace to damage: known facts, kinds of damage, and checks of the repaired workspace."""

import json
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from daemon import sessions
from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import absorb_transcripts
from daemon.upkeep.repair import Repair, repair
from daemon.workspace.adoption import init_workspace
from daemon.workspace.retention import copy_if_due
from daemon.workspace.searching import searched_in
from daemon.workspace.stores import open_exclusive, open_readonly, utc_now
from daemon.workspace.vector_index import Embedding
from state.document.document import parse
from state.document.sections import SectionName
from state.dream import Reason
from state.stores.crystals.search import search
from state.stores.database.opening import PAGE_BYTES, open_database
from state.stores.disk.disk import Disk
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace
from tests.support import committing
from tests.support.copies import copy_of
from tests.support.faults import Unsynced
from tests.support.lived import everything
from tests.support.notes import pending_notes
from tests.support.working import noted

WORDS_ONLY = committing.WORDS_ONLY
_PLACES = "harbour bakery library museum orchard quarry railway stadium temple vineyard airport brewery".split()
_WHO = "Ada Grace Linus Barbara Edsger".split()
_DEEDS = ("painted the door of the", "lost a glove in the", "bought eleven lamps for the", "plays chess in the")
NOTED = tuple(f"{who} {deed} {place}" for deed in _DEEDS for who in _WHO for place in _PLACES)[:120]
LONG = "The minutes of the meeting in the lighthouse: " + " ".join(f"item {n} was adjourned" for n in range(600))
SAID = tuple(f"My neighbour {who} keeps {n + 2} goats behind the {place}" for n, (who, place) in enumerate(
    (who, place) for who in _WHO for place in _PLACES))  # fmt: skip
PENDING = ("The ferry leaves at seven from the pier", "Do not feed the parrot of the captain")
UNREAD = "The spare sail hangs in the boat shed"  # only in scratch.md, not absorbed yet
BY_HAND = "The password hint is the name of the second ship"
REMEMBERED = tuple(f"step {n} of the plan was tried by {_WHO[n % 5]}" for n in range(60))


def lived(folder: Path, *, embedding: Embedding | None = WORDS_ONLY) -> Workspace:
    """Create three versions, the last newer than both copies; a line by hand, a transcript, sessions, notes."""
    workspace = init_workspace(folder)
    chat = workspace.root / "transcripts" / "chat.jsonl"
    chat.parent.mkdir()
    chat.write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in SAID))
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.connection.execute("PRAGMA synchronous = OFF")
        store.memory.disk.system = Unsynced()
        noted(store, *NOTED[:60])
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        text = workspace.document.read_text()
        heading = f"## {SectionName.BOND.value}\n"
        workspace.document.write_text(text.replace(heading, f"{heading}- {BY_HAND}\n", 1))
        noted(store, *NOTED[60:90], LONG)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        absorb_transcripts(store, [chat], utc_now())
        copy_if_due(store, utc_now(), timedelta())
        noted(store, *NOTED[90:])
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        for n, text in enumerate(REMEMBERED):
            sessions.add(store, f"session {n % 3}", sessions.Draft(text, "medium"), utc_now())
        noted(store, *PENDING)
        absorb_notes(store, utc_now())
        noted(store, UNREAD)
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return workspace


def copied(workspace: Workspace, folder: Path) -> Workspace:
    return copy_of(workspace.root, folder)


def repaired(workspace: Workspace, disk: Disk | None = None, embedding: Embedding = WORDS_ONLY) -> Repair:
    with acquire(workspace, "a repair") as lock:
        return repair(workspace, Config(), lock.check, embedding, disk=disk or workspace.disk(Unsynced()))


def about(done: Repair) -> set[str]:
    return {mend.about for mend in done.mends}


def content(workspace: Workspace) -> dict[str, bytes]:
    """Return every byte of a workspace, except files that a repair set aside."""
    return {name: found for name, found in everything(workspace.root).items() if "/broken/" not in name}


# ------------------------------------------------------------------------- damage

Chance = random.Random


def flipped(path: Path, chance: Chance) -> None:
    """Flip one bit in each of one to forty bytes."""
    content = bytearray(path.read_bytes())
    for _ in range(min(len(content), chance.choice((1, 1, 3, 40)))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def zeroed(path: Path, chance: Chance) -> None:
    """Overwrite one to four pages with zeros."""
    _spoilt(path, chance, bytes)


def noisy(path: Path, chance: Chance) -> None:
    """Overwrite one to four pages with random bytes."""
    _spoilt(path, chance, chance.randbytes)


def half_zeroed(path: Path, chance: Chance) -> None:
    """Overwrite one sector of 512 bytes with zeros."""
    _spoilt(path, chance, bytes, 512, 1)


def _spoilt(path: Path, chance: Chance, filling: Callable[[int], bytes], size: int = 0, times: int = 0) -> None:
    content = bytearray(path.read_bytes())
    size = size or (PAGE_BYTES if len(content) > 8 * PAGE_BYTES else max(1, len(content) // 8))
    for _ in range(times or chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(content) // size + 1) * size
        end = min(len(content), start + size)
        content[start:end] = filling(end - start)
    path.write_bytes(content)


def swapped(path: Path, chance: Chance) -> None:
    """Swap two pages."""
    content = bytearray(path.read_bytes())
    pages = len(content) // PAGE_BYTES
    if pages < 2:
        return
    one, other = (chance.randrange(pages) * PAGE_BYTES for _ in range(2))
    content[one : one + PAGE_BYTES], content[other : other + PAGE_BYTES] = (
        content[other : other + PAGE_BYTES],
        content[one : one + PAGE_BYTES],
    )
    path.write_bytes(content)


def truncated(path: Path, chance: Chance) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def emptied(path: Path, chance: Chance) -> None:
    os.truncate(path, 0)


def removed(path: Path, chance: Chance) -> None:
    path.unlink()


def unnoticed(workspace: Workspace) -> None:
    """Damage a table that no dream reads, so that only copying the database detects it."""
    with closing(open_database(workspace.database)) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'rejections'").fetchone()[0]
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with workspace.database.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xee" * PAGE_BYTES)


DAMAGE = (flipped, zeroed, noisy, half_zeroed, swapped, truncated, emptied, removed)


# ----------------------------------------------------------- checks afterwards


@dataclass(frozen=True, slots=True)
class Lost:
    """Facts that are missing, by where they were."""

    notes: tuple[str, ...]
    said: tuple[str, ...]
    items: tuple[str, ...]


def lost(workspace: Workspace) -> Lost:
    """Return the facts that are in neither MEMORY.md nor a crystal nor the ledger."""
    with closing(sqlite3.connect(workspace.database)) as connection:
        crystals = {row[0] for row in connection.execute("SELECT text FROM crystals")}
        # A flipped bit in MEMORY.md looks like an edit, but the ledger still has the line.
        lines = {row[0] for row in connection.execute("SELECT text FROM lines")}
        items = {row[0] for row in connection.execute("SELECT content FROM items")}
    known = crystals | lines | {block.text for _, block in parse(workspace.document.read_text()).lines()}
    known |= {note.text for note in pending_notes(workspace)}
    return Lost(
        tuple(text for text in (*NOTED, LONG, BY_HAND, *PENDING, UNREAD) if text not in known),
        tuple(text for text in SAID if text not in crystals),
        tuple(text for text in REMEMBERED if text not in items),
    )


def found(workspace: Workspace, texts: tuple[str, ...]) -> list[str]:
    """Return those of the texts that a search does not find."""
    with open_readonly(workspace, Config(), WORDS_ONLY) as store:
        return [
            text
            for text in texts
            if all(text != hit.crystal.text for hit in search(searched_in(store), text, utc_now(), limit=8).hits)
        ]


def assert_works(workspace: Workspace) -> None:
    """Assert that the workspace opens, MEMORY.md is complete, and a dream absorbs pending notes."""
    with open_exclusive(workspace, Config(), "test", embedding=WORDS_ONLY) as store:
        document = parse(workspace.document.read_bytes().decode())
        assert document.missing == ()
        assert document.doubled == ()
        noted(store, "A new sail was sewn in the loft")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert "A new sail was sewn in the loft" in workspace.document.read_text()
