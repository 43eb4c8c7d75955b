"""Bootstrap receipts: when, how and how much memory an agent was given each time, without its words.

Receipts are JSON lines in bootstraps.jsonl, appended by `state.stores.history.leave_receipt`. The workspace's owner
keeps only the last ones, and archives leave them out.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from state.agents import AGENTS
from state.codec import decode
from state.errors import BusyError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.stores.history.leave_receipt import RECEIPTS, is_id, path_of

KEPT = 200
HOW = ("command line", "hook", "MCP", "HTTP")
# No receipt is shorter, so a file up to KEPT times as long need not be counted.
_LEAST_BYTES = 150


@dataclass(frozen=True, slots=True)
class Cut:
    """How much was not given, by reason: rows of MEMORY.md and the global one, except blank ones and headings.

    `budget`: rows of MEMORY.md beyond the budget. `host`, `host_notes`: rows and notes beyond the limit of whatever
    carries the text, though within the budget. `everywhere`: lines of the global workspace beyond its share. `same`:
    lines of it that the project has too. `forgotten`: notes and lines that hold a forgotten text.
    """

    budget: int = 0
    host: int = 0
    host_notes: int = 0
    everywhere: int = 0
    same: int = 0
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class BootstrapReceipt:
    """What an agent was given, and when. `how` is one of HOW, `agent` one of AGENTS.

    `session` is the agent's own id for its session, if a hook passed one. `version` is the last version of MEMORY.md
    and `budget` its budget in characters; `characters` counts the whole text, including its `notes`. `left_out`
    counts older pending notes; `more` says that there were even older ones. `lines` counts the rows and notes given,
    `tokens` is an estimate, and `most` is the carrier's limit in characters (0: none). `cut` says how much was
    not given and why. `given` are the lines that were, of MEMORY.md and the global one, by
    `state.reading.line_digest`, `left` those without room, `dropped` those that made room for more important ones.
    """

    at: datetime
    how: str
    session: str
    version: int
    characters: int
    budget: int
    notes: int
    left_out: int
    more: bool
    truncated: bool
    agent: str = ""
    lines: int = 0
    tokens: int = 0
    most: int = 0
    cut: Cut = field(default_factory=Cut)
    given: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()

    @property
    def in_short(self) -> "BootstrapReceipt":
        """Return the receipt without its digests."""
        return replace(self, given=(), left=(), dropped=())


def receipts(workspace: Workspace) -> Iterator[BootstrapReceipt]:
    """Yield the last receipts, newest first, skipping rows that are none. Raise StorageError."""
    found = map(_receipt_in, reversed(_rows(workspace.disk().read_optional(path_of(workspace)))))
    return islice((one for one in found if one is not None), KEPT)


def holds_receipts_alone(content: bytes) -> bool:
    """Return whether a file with this content holds receipts only, and so nobody's text."""
    return all(_receipt_in(row) is not None for row in _rows(content))


def keep_last(workspace: Workspace, disk: Disk) -> None:
    """Shorten the file to the last receipts, on behalf of the workspace's owner. Raise StorageError."""
    path = path_of(workspace)
    if path.is_file() and path.stat().st_size > KEPT * _LEAST_BYTES:
        with suppress(BusyError), disk.locked(path, b"", wait_seconds=0.0):
            rows = _rows(disk.read_optional(path))
            if len(rows) > KEPT:
                kept = [row for row in rows if _receipt_in(row) is not None][-KEPT:]
                disk.write_atomic(path, "".join(f"{row}\n" for row in kept).encode())


def _rows(content: bytes | None) -> list[str]:
    return [row for row in (content or b"").decode("utf-8", "replace").split("\n") if row.strip()]


def _receipt_in(row: str) -> BootstrapReceipt | None:
    """Parse the receipt in a row; return None if the row is torn or not dreamd's own."""
    with suppress(StorageError):
        one = decode(BootstrapReceipt, row, RECEIPTS)
        is_own = one.how in HOW and one.agent in AGENTS and is_id(one.session)
        return one if one.at.tzinfo and is_own else None
    return None
