"""History repair: the records of the journal that cannot be read, and what is lost with them."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from daemon.upkeep.repair.jobs import Job, RepairContext
from state.document.markdown import is_stamp
from state.dream import Dream, decode_record
from state.errors import DreamdError, StorageError

_RECORD = re.compile(r"(\d{6,})\.json")
_MERGING = re.compile(r"(\d{6,})\.merging")


def read_records(context: RepairContext) -> None:
    """Read every record of the journal into the context."""
    folder = context.workspace.history
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _RECORD.fullmatch(path.name)
        if match is None or path.is_symlink():
            continue
        number = int(match[1])
        try:
            context.records[number] = _read(context, path, number)
        except DreamdError as error:
            context.unreadable[number] = error.what


def _read(context: RepairContext, path: Path, number: int) -> Dream:
    record = decode_record(context.disk.read_bytes(path), str(path))
    if record.number != number:
        raise StorageError(f"{path}: it is the record of version {record.number}")
    return record


def is_under_way(context: RepairContext, number: int) -> bool:
    """Whether the commit of this version, which state.db does not have, is to be finished.

    It is done when MEMORY.md is its version, or derived from it.
    """
    if displaced(context).exists() or merging(context, number).exists():
        return True
    record = context.records[number]
    try:
        text = (context.disk.read_optional(context.workspace.document) or b"").decode(errors="replace")
    except DreamdError:
        return False
    stamp = next((row for row in record.after.splitlines() if is_stamp(row)), None)
    return stamp is not None and stamp not in text and stamp not in record.before and bool(text.strip("\0 \n"))


def displaced(context: RepairContext) -> Path:
    """The path of a text that a swap of MEMORY.md displaced and no commit has settled."""
    document = context.workspace.document
    return document.with_name(f".{document.name}.displaced")


def merging(context: RepairContext, number: int) -> Path:
    """The path of the record that becomes a version's once MEMORY.md has its text."""
    return context.workspace.history / f"{number:06d}.merging"


def unreadable_records(context: RepairContext) -> Iterator[Job]:
    """Find records that cannot be read; they are kept aside."""
    for number, why in sorted(context.unreadable.items()):
        path = context.workspace.history / f"{number:06d}.json"
        if number > context.last:
            action = "it is kept aside; its notes and crystals are input for the next dream again"
        else:
            action = f"it is kept aside; version {number} cannot be shown or restored any more, its lines are there"
        yield Job("history", why, action, partial(_set_aside, context, path, number))
    yield from _unsettled(context)


def _set_aside(context: RepairContext, path: Path, number: int) -> None:
    context.aside.move(path)
    context.unreadable.pop(number)


def _unsettled(context: RepairContext) -> Iterator[Job]:
    """Find files of interrupted commits that no commit will finish."""
    workspace = context.workspace
    next_number = context.last + 1
    for path in sorted(workspace.history.iterdir()) if workspace.history.is_dir() else ():
        match = _MERGING.fullmatch(path.name)
        if match is None:
            continue
        number = int(match[1])
        record = None
        with suppress(DreamdError):
            record = _read(context, path, number)
        if number != next_number or number not in context.records or record is None:
            what = f"{path} was left by a commit that was interrupted, and no commit takes it up"
            yield Job("history", what, "it is kept aside", partial(context.aside.move, path))
    path = displaced(context)
    if not path.exists():
        return
    content = context.disk.read_optional(path) or b""
    text = content.decode(errors="replace")
    is_text = text.encode() == content and "\0" not in text
    if next_number in context.records and is_text:
        return  # the commit that left it is finished as the workspace is opened
    known = {record.before for record in context.every} | {record.after for record in context.every}
    known |= {record.merged or "" for record in context.every}
    known |= {(context.disk.read_optional(workspace.document) or b"").decode(errors="replace")}
    what = f"{path} was left by a commit that is done"
    if is_text and text in known:
        yield Job("history", what, "it is removed: its text is in the history", partial(context.disk.remove, path))
    else:
        yield Job("history", what, "it is kept aside: it may hold a save of yours", partial(context.aside.move, path))
