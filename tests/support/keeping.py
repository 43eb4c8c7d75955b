"""A workspace with a memory and a pending note, and checks that hold whatever goes wrong."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import open_exclusive, open_readonly
from state.dream import Reason
from state.scratch import Note
from state.stores.history.inbox import NoteInbox
from tests.support.copies import copy_of
from tests.support.notes import pending_notes
from tests.support.running import Caller, Ended

KNOWN = ("Ada prefers tea over coffee in the morning", "The deployment runs on port 8443 behind nginx")
PENDING = "Lighthouses are the theme of the next release"

# Steps of a dream, notices, and an ingestion's progress.
_TALK = re.compile(r"  |notice: |\S+: [0-9,]+ turns$|[0-9,]+ crystals? to embed$")


def remembering(folder: Path) -> Path:
    """Create a workspace that has dreamt once, with a pending note written afterwards."""
    workspace = init_workspace(folder)
    for text in KNOWN:
        NoteInbox(workspace).append(Note(text, datetime.now(UTC)))
    with open_exclusive(workspace, Config(), "test") as store:
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        # Like a workspace that nobody has open, with everything in one file.
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    NoteInbox(workspace).append(Note(PENDING, datetime.now(UTC)))
    return workspace.root


def copied(origin: Path, folder: Path) -> Path:
    return copy_of(origin, folder).root


def pending(root: Path) -> list[str]:
    """Return the sorted texts of notes that no dream has consumed."""
    return sorted(note.text for note in pending_notes(open_workspace(root)))


def crystals(root: Path) -> set[str]:
    with open_readonly(open_workspace(root), Config()) as store:
        return {row[0] for row in store.connection.execute("SELECT text FROM crystals")}


def one_line(ended: Ended, status: int, *said: str) -> None:
    """Assert this exit status and a one-line reason on stderr, preceded at most by steps and notices."""
    assert ended.status == status, ended
    *talk, last = ended.err.splitlines()
    assert last.startswith("dreamd: "), ended.err
    assert [word for word in said if word not in last] == [], last
    assert [row for row in talk if not _TALK.match(row)] == []
    for never in ("Traceback", "a defect"):
        assert never not in ended.err


def refused(dreamd: Caller, root: Path, commands: Iterable[str], *said: str) -> None:
    """Assert that each command fails with a one-line reason."""
    for command in commands:
        one_line(dreamd(*command.split(), "-w", root), 1, *said)


def works_again(dreamd: Caller, root: Path, *notes: str) -> None:
    """Assert that a dream absorbs these notes and keeps the known facts."""
    ended = dreamd("dream", root)
    assert ended.status == 0, ended.err
    text = (root / "MEMORY.md").read_text(encoding="utf-8")
    assert [note for note in (*KNOWN, *notes) if note not in text] == []
    assert pending(root) == []
