"""Bootstraps: a receipt for each time that an agent was given the memory: when, how, how much. None of its words.

One JSON object a line in bootstraps.jsonl. Whoever reads the memory appends one without the workspace's lock; its
owner keeps the last ones. A receipt is no memory: one that the disk refuses costs the agent nothing, and no archive
has it.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from state.agents import AGENTS, OTHER
from state.bootstrap import Bootstrap, Cut
from state.codec import decode
from state.errors import BusyError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace

RECEIPTS = "bootstraps.jsonl"
KEPT = 200
HOW = ("command line", "hook", "MCP", "HTTP")
# No receipt is shorter: so many bytes are not too many receipts.
_LEAST_BYTES = 150
_WAIT_SECONDS = 0.5
_HEX = frozenset("0123456789abcdef-")
_LONGEST_SESSION = 64


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


def path_of(workspace: Workspace) -> Path:
    """Return the file of the receipts."""
    return workspace.state / RECEIPTS


def receipt_of(
    ready: Bootstrap, budget: int, at: datetime, how: str, session: str = "", *, agent: str = ""
) -> BootstrapReceipt:
    """Return the receipt of what an agent was given now. A session of another form than an id's is left out."""
    from state.text.chunks import tokens  # the agent has its memory already

    return BootstrapReceipt(
        at=at,
        how=how,
        session=session if _is_id(session) else "",
        version=ready.version,
        characters=len(ready.text),
        budget=budget,
        notes=len(ready.notes),
        left_out=ready.left_out,
        more=ready.more,
        truncated=ready.truncated,
        agent=agent if agent in AGENTS else OTHER,
        lines=ready.lines,
        tokens=tokens(ready.text),
        most=ready.most,
        cut=ready.cut,
        digest=ready.digest,
    )


def leave_receipt(
    workspace: Workspace,
    ready: Bootstrap,
    budget: int,
    at: datetime,
    how: str,
    session: str = "",
    disk: Disk | None = None,
    *,
    agent: str = "",
) -> None:
    """Append the receipt of what an agent was given now, as one row of JSON.

    Not synced: a loss of power may cost it. Raises StorageError, BusyError.
    """
    row = asdict(receipt_of(ready, budget, at, how, session, agent=agent))
    row["at"] = at.astimezone(UTC).isoformat(timespec="seconds")
    entry = f"{json.dumps(row)}\n".encode()
    (disk or workspace.disk()).append_locked(
        path_of(workspace), entry, b"", durable=False, wait_seconds=_WAIT_SECONDS
    )


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
        is_own = one.how in HOW and one.agent in AGENTS and all(_is_id(text) for text in (one.session, one.digest))
        return one if one.at.tzinfo and is_own else None
    return None


def _is_id(session: str) -> bool:
    return len(session) <= _LONGEST_SESSION and _HEX.issuperset(session)
