"""Leave a receipt in bootstraps.jsonl each time that an agent is given the memory, without any of its words.

Every reader of the memory appends one, without the workspace's lock. A receipt that cannot be written costs the agent
nothing. `state.stores.history.bootstraps` reads them; it is separate so that session starts need not load it.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from state.agents import AGENTS, OTHER
from state.bootstrap import Bootstrap
from state.reading import row_digests
from state.stores.disk.workspace import Workspace

RECEIPTS = "bootstraps.jsonl"
_WAIT_SECONDS = 0.5
_HEX = frozenset("0123456789abcdef-")
_LONGEST_SESSION = 64


def path_of(workspace: Workspace) -> Path:
    """Return the file of the receipts."""
    return workspace.state / RECEIPTS


def is_id(session: str) -> bool:
    """Return whether a text has the form of an agent's session id."""
    return len(session) <= _LONGEST_SESSION and _HEX.issuperset(session)


def leave_receipt(
    workspace: Workspace,
    ready: Bootstrap,
    budget: int,
    at: datetime,
    how: str,
    session: str = "",
    *,
    agent: str = "",
) -> None:
    """Append a receipt for what an agent was given now: one row of JSON with the fields of a `BootstrapReceipt`.

    A session that does not look like an id is left out. The row is not synced, so a power failure may lose it. Raise
    StorageError or BusyError.
    """
    from state.text.chunks import tokens  # imported late: the agent already has its memory

    given = [digest for part in (ready.everywhere, ready.memory) for digest in row_digests(part)]
    known = {*given, *ready.dropped}
    row = {
        "at": at.astimezone(UTC).isoformat(timespec="seconds"),
        "how": how,
        "session": session if is_id(session) else "",
        "version": ready.version,
        "characters": len(ready.text),
        "budget": budget,
        "notes": len(ready.notes),
        "left_out": ready.left_out,
        "more": ready.more,
        "truncated": ready.truncated,
        "agent": agent if agent in AGENTS else OTHER,
        "lines": ready.lines,
        "tokens": tokens(ready.text),
        "most": ready.most,
        "cut": dict(ready.cut),
        "given": given,
        "left": [digest for digest in row_digests(ready.whole) if digest not in known],
        "dropped": ready.dropped,
    }
    entry = f"{json.dumps(row)}\n".encode()
    workspace.disk().append_locked(path_of(workspace), entry, b"", durable=False, wait_seconds=_WAIT_SECONDS)
