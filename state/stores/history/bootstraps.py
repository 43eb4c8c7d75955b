"""Bootstraps: a receipt for each time that an agent was given the memory: when, how, how much. None of its words.

One JSON object a line in bootstraps.jsonl (0600). Whoever reads the memory appends one without the
workspace's lock; its owner keeps the last ones. A receipt is no memory: one that the disk refuses costs the agent
nothing, and no archive has it.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from state.agents import AGENTS, OTHER
from state.bootstrap import Bootstrap, Cut
from state.errors import BusyError, NotFoundError, StorageError
from state.stores.disk.disk import Disk, is_same_file, opened
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

RECEIPTS = "bootstraps.jsonl"
KEPT = 200
MOST_BYTES = 640
HOW = ("command line", "hook", "MCP", "HTTP")
# No receipt is shorter: so many bytes are not too many receipts.
_LEAST_BYTES = 150
_TRIES, _POLL_SECONDS = 20, 0.005
_HEX = frozenset("0123456789abcdef-")
_LONGEST_SESSION, _DIGEST = 64, 8
_REASONS = ("budget", "host", "host_notes", "everywhere", "same", "forgotten")
_WRITTEN = "%Y-%m-%dT%H:%M:%SZ"


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
    """The file of the receipts."""
    return workspace.state / RECEIPTS


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
    """Append the receipt of what an agent was given now.

    A session of another form than hexadecimal signs and dashes is left out. Raises StorageError, BusyError.
    """
    receipt = receipt_of(ready, budget, at, how, session, agent=agent)
    _append(workspace, disk or workspace.disk(), _line(receipt).encode())


def receipt_of(
    ready: Bootstrap, budget: int, at: datetime, how: str, session: str = "", *, agent: str = ""
) -> BootstrapReceipt:
    """The receipt of what an agent was given now. A session of another form than an id's is left out."""
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
        digest=ready.digest if _is_digest(ready.digest) else "",
    )


def receipt_text(receipt: BootstrapReceipt) -> str:
    """The receipt as JSON, for `carry_receipt`."""
    return _line(receipt).rstrip("\n")


def carry_receipt(workspace: Workspace, line: str) -> None:
    """Append a receipt that was left in a copy of this workspace; what is no receipt is left out.

    Raises StorageError, BusyError.
    """
    row = line.strip("\n").encode()
    if _receipt_in(row) is not None:
        _append(workspace, workspace.disk(), row + b"\n")


def receipts(workspace: Workspace) -> Iterator[BootstrapReceipt]:
    """The last receipts, the newest first. What is no receipt is left out.

    Raises StorageError when they cannot be read.
    """
    rows = _tail(path_of(workspace)).split(b"\n")
    found = (_receipt_in(row) for row in reversed(rows))
    return islice((one for one in found if one is not None), KEPT)


def holds_receipts_alone(content: bytes) -> bool:
    """Whether a file of this content is one of receipts, as dreamd writes them: it holds no text of anybody's."""
    return all(_receipt_in(row) is not None for row in content.split(b"\n") if row)


def keep_last(workspace: Workspace, disk: Disk) -> None:
    """Shorten the file to the last receipts, for the workspace's owner. Raises StorageError, BusyError."""
    path = path_of(workspace)
    try:
        if path.lstat().st_size <= KEPT * _LEAST_BYTES:
            return
    except OSError:  # there is none, or it cannot be reached: who reads it says so
        return
    with disk.locked(path, b"", wait_seconds=0.0) as fd:
        rows = [row + b"\n" for row in _tail(path).split(b"\n") if _receipt_in(row) is not None]
        if len(rows) > KEPT or os.fstat(fd).st_size != sum(map(len, rows)):
            disk.write_atomic(path, b"".join(rows[-KEPT:]))


def _append(workspace: Workspace, disk: Disk, line: bytes) -> None:
    """Append the line, whole. Not synced: a loss of power may cost it."""
    path = path_of(workspace)
    with storage_errors(path), _opened(disk, path) as fd:
        size = os.fstat(fd).st_size
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        block = b"\n" + line if torn else line
        if disk.system.write(fd, block) != len(block):
            raise StorageError(f"{path}: the disk is full", "free some space")


@contextmanager
def _opened(disk: Disk, path: Path) -> Iterator[int]:
    """The file for appending, shared with others that append, while nobody shortens it."""
    named = disk.target(path.parent) / path.name  # a link in its place is refused
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
    for _ in range(_TRIES):
        fd = disk.system.open(named, flags)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise StorageError(f"{path} is no regular file", "move it away")
            if _is_shared(fd) and is_same_file(named, fd):
                yield fd
                return
        finally:
            os.close(fd)
        time.sleep(_POLL_SECONDS)
    raise BusyError(f"{path} is locked by another process", f"end it or let it go on (fuser '{path}')")


def _is_shared(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _tail(path: Path) -> bytes:
    """The end of the file, as much as so many receipts can be and a row that is cut off; empty without a file."""
    if path.is_symlink():
        raise StorageError(f"{path} is a symbolic link, which is not followed", f"remove it: rm '{path}'")
    try:
        with storage_errors(path), opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            most = 2 * KEPT * MOST_BYTES
            file.seek(max(0, size - most))
            return file.read(most)
    except NotFoundError:
        return b""


def _line(receipt: BootstrapReceipt) -> str:
    """The receipt as it is written. By hand: `dreamd bootstrap` has no time to load json."""
    cut = ", ".join(f'"{name}": {getattr(receipt.cut, name):d}' for name in _REASONS)
    fields = [f'"agent": "{receipt.agent}"', *_numbers(receipt, "lines", "tokens", "most"), f'"cut": {{{cut}}}']
    fields += [f'"digest": "{receipt.digest}"'] if receipt.digest else []
    return f"{{{', '.join([*_first_fields(receipt), *fields])}}}\n"


def _first_fields(receipt: BootstrapReceipt) -> list[str]:
    """The fields that the first receipts had, which had no others."""
    texts = {"at": receipt.at.astimezone(UTC).strftime(_WRITTEN), "how": receipt.how, "session": receipt.session}
    fields = [f'"{name}": "{text}"' for name, text in texts.items()]
    fields += _numbers(receipt, "version", "characters", "budget", "notes", "left_out")
    return [
        *fields,
        *(f'"{name}": {"true" if getattr(receipt, name) else "false"}' for name in ("more", "truncated")),
    ]


def _numbers(receipt: BootstrapReceipt, *names: str) -> list[str]:
    return [f'"{name}": {getattr(receipt, name):d}' for name in names]


def _receipt_in(row: bytes) -> BootstrapReceipt | None:
    """The receipt in a row; None for a row that would be written otherwise, so that none holds another text."""
    import json

    if not row or len(row) > MOST_BYTES:
        return None
    try:
        fields = json.loads(row)
        cut = Cut(**fields.get("cut", {}))
        receipt = BootstrapReceipt(**{**fields, "at": datetime.fromisoformat(fields["at"]), "cut": cut})
        is_own = receipt.how in HOW and receipt.agent in AGENTS and (not receipt.session or _is_id(receipt.session))
        is_own &= not receipt.digest or _is_digest(receipt.digest)
        written = _line(receipt) if "agent" in fields else f"{{{', '.join(_first_fields(receipt))}}}\n"
        return receipt if is_own and written.encode() == row + b"\n" else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_id(session: str) -> bool:
    return 0 < len(session) <= _LONGEST_SESSION and _HEX.issuperset(session)


def _is_digest(digest: str) -> bool:
    return len(digest) == _DIGEST and (_HEX - {"-"}).issuperset(digest)
