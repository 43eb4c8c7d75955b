"""The journal's records: which can be read, which cannot, and what that costs."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from daemon.upkeep.repair.jobs import Job, Repairing
from state.codec import decode
from state.crystals.crystal import Crystal
from state.document.markdown import is_stamp
from state.dream import Dream, decode_record
from state.errors import DocumentError, DreamdError, StorageError

_RECORD = re.compile(r"(\d{6,})\.json")
_CRYSTAL = re.compile(r'\{\s*"text"\s*:')
_REPLACED = "\ufffd"
_MERGING = re.compile(r"(\d{6,})\.merging")


def read_records(repairing: Repairing) -> None:
    """Read every record of the journal."""
    folder = repairing.workspace.history
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _RECORD.fullmatch(path.name)
        if match is None or path.is_symlink():
            continue
        number = int(match[1])
        try:
            repairing.records[number] = _read(repairing, path, number)
        except DreamdError as error:
            repairing.illegible[number] = error.what
            with suppress(DreamdError):
                repairing.pieces[number] = crystals_in(repairing.disk.read_bytes(path))


def _read(repairing: Repairing, path: Path, number: int) -> Dream:
    record = decode_record(repairing.disk.read_bytes(path), str(path))
    if record.number != number:
        raise StorageError(f"{path}: it is the record of version {record.number}")
    return record


def crystals_in(content: bytes) -> list[Crystal]:
    """The crystals of a damaged record that can still be read: each is a whole JSON object by itself."""
    text, found, reader = content.decode("utf-8", "replace"), list[Crystal](), json.JSONDecoder()
    for match in _CRYSTAL.finditer(text):
        with suppress(ValueError, RecursionError, DreamdError):
            value, end = reader.raw_decode(text, match.start())
            if _REPLACED not in text[match.start() : end]:
                found.append(decode(Crystal, json.dumps(value)))
    return found


def is_under_way(repairing: Repairing, number: int) -> bool:
    """Whether the commit of this version, of which state.db knows nothing any more, is to be finished.

    It is done when MEMORY.md is its version, or what somebody made of that.
    """
    if displaced(repairing).exists() or merging(repairing, number).exists():
        return True
    record = repairing.records[number]
    try:
        text = (repairing.disk.read_if_there(repairing.workspace.document) or b"").decode(errors="replace")
    except DreamdError:
        return False
    stamp = next((row for row in record.after.splitlines() if is_stamp(row)), None)
    return stamp is not None and stamp not in text and stamp not in record.before and bool(text.strip("\0 \n"))


def displaced(repairing: Repairing) -> Path:
    """What a swap of MEMORY.md took out and nobody has dealt with."""
    document = repairing.workspace.document
    return document.with_name(f".{document.name}.displaced")


def merging(repairing: Repairing, number: int) -> Path:
    """The record that becomes a version's once MEMORY.md has its text."""
    return repairing.workspace.history / f"{number:06d}.merging"


def illegible(repairing: Repairing) -> Iterator[Job]:
    """Records that cannot be read are kept aside, and what they held is said."""
    for number, why in sorted(repairing.illegible.items()):
        path = repairing.workspace.history / f"{number:06d}.json"
        if number > repairing.last:
            deed = "it is kept aside; its notes and crystals are input for the next dream again"
        else:
            deed = f"it is kept aside; version {number} cannot be shown or restored any more, its lines are there"
        yield Job("history", why, deed, partial(_set_aside, repairing, path, number))
    yield from _unsettled(repairing)


def _set_aside(repairing: Repairing, path: Path, number: int) -> tuple[str, ...]:
    repairing.aside.move(path)
    repairing.illegible.pop(number)
    return ()


def _unsettled(repairing: Repairing) -> Iterator[Job]:
    """What interrupted commits left that no commit will take up."""
    workspace = repairing.workspace
    next_number = repairing.last + 1
    for path in sorted(workspace.history.iterdir()) if workspace.history.is_dir() else ():
        match = _MERGING.fullmatch(path.name)
        if match is None:
            continue
        number = int(match[1])
        legible = True
        try:
            _read(repairing, path, number)
        except DreamdError:
            legible = False
        if number != next_number or number not in repairing.records or not legible:
            what = f"{path} was left by a commit that was interrupted, and no commit takes it up"
            yield Job("history", what, "it is kept aside", partial(_move, repairing, path))
    path = displaced(repairing)
    if not path.exists():
        return
    is_text = True
    content = repairing.disk.read_if_there(path) or b""
    try:
        _as_text(content)
    except DocumentError:
        is_text = False
    if next_number in repairing.records and is_text:
        return  # the commit that left it is finished as the workspace is opened
    known = {record.before for record in repairing.every} | {record.after for record in repairing.every}
    known |= {record.merged or "" for record in repairing.every}
    known |= {(repairing.disk.read_if_there(workspace.document) or b"").decode(errors="replace")}
    what = f"{path} was left by a commit that is done"
    if is_text and content.decode() in known:
        yield Job("history", what, "it is removed: its text is in the history", partial(_remove, repairing, path))
    else:
        yield Job("history", what, "it is kept aside: it may hold a save of yours", partial(_move, repairing, path))


def _as_text(content: bytes) -> str:
    with suppress(UnicodeDecodeError):
        text = content.decode()
        if "\0" not in text:
            return text
    raise DocumentError("it is no text")


def _move(repairing: Repairing, path: Path) -> tuple[str, ...]:
    repairing.aside.move(path)
    return ()


def _remove(repairing: Repairing, path: Path) -> tuple[str, ...]:
    repairing.disk.remove(path)
    return ()
