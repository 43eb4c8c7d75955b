"""Bootstraps: a receipt for each time that an agent was given the memory: when, how, how much. None of its words.

One JSON object a line in bootstraps.jsonl, appended by `state.stores.history.leave_receipt`; the workspace's owner
keeps the last ones. No archive has them.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
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
# No receipt is shorter: so many bytes are not too many receipts.
_LEAST_BYTES = 150


@dataclass(frozen=True, slots=True)
class Cut:
    """What was not given, and why: rows of MEMORY.md, and of the global one, that are neither blank nor headings.

    `budget`: rows of MEMORY.md for which there was no room; `host` and `host_notes`: rows, and notes, for which there
    would have been some, had whoever carries the text not its own limit; `everywhere`: lines of the global workspace
    beyond its share; `same`: those that the project says itself; `forgotten`: notes and lines that hold what was
    forgotten.
    """

    budget: int = 0
    host: int = 0
    host_notes: int = 0
    everywhere: int = 0
    same: int = 0
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class BootstrapReceipt:
    """What an agent was given, and when. `how`: one of HOW; `agent`: one of AGENTS.

    `session` is the agent's own id of it, where a hook told one. Of MEMORY.md the `version` that was the last one
    and the `budget` in characters; `characters` are those of the whole text, with its `notes`. `left_out`: older
    pending notes; `more`: there were even older ones. `lines` are the rows and notes that were given, `tokens` about
    how many a model counts, `most` the characters that whoever carried it takes (0: no limit), and `cut` what was
    not given and why: with these and the text it can be computed again. `digest` tells which text MEMORY.md was, for
    its owner may have written it since that version. A receipt of an earlier dreamd has none of what follows
    `truncated`, or no digest.
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
    digest: str = ""


def receipts(workspace: Workspace) -> Iterator[BootstrapReceipt]:
    """Yield the last receipts, the newest first. What is no receipt is left out. Raises StorageError."""
    found = map(_receipt_in, reversed(_rows(workspace.disk().read_optional(path_of(workspace)))))
    return islice((one for one in found if one is not None), KEPT)


def holds_receipts_alone(content: bytes) -> bool:
    """Return whether a file of this content is one of receipts: it holds no text of anybody's."""
    return all(_receipt_in(row) is not None for row in _rows(content))


def keep_last(workspace: Workspace, disk: Disk) -> None:
    """Shorten the file to the last receipts, for the workspace's owner. Raises StorageError."""
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
    """Return the receipt in a row; None for a row that is torn, or holds another text than dreamd's own."""
    with suppress(StorageError):
        one = decode(BootstrapReceipt, row, RECEIPTS)
        is_own = one.how in HOW and one.agent in AGENTS and all(is_id(text) for text in (one.session, one.digest))
        return one if one.at.tzinfo and is_own else None
    return None
