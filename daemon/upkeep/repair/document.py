"""Document repair: a damaged MEMORY.md is replaced by the last committed version.

The file that was found is kept aside. Whole lines that its owner wrote since are taken over from it.
"""

import difflib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from daemon.upkeep.repair.jobs import Job, RepairContext
from state.document.document import Block, Edit, SectionName, complete, parse, render
from state.document.editing import edited
from state.document.merge import is_conflicted
from state.dream import FOUND
from state.errors import DreamdError
from state.stores.database.connection import open_unmigrated
from state.stores.database.copies import copies_of
from state.stores.database.table import unpacked
from state.stores.history.memory import displaced_files

_ALIKE = 0.8
# One that is so much like one of the version's, but for bytes that are no text, is that one.
_SAME = 0.95
# So many of its rows may be no UTF-8 in a file that is a text.
_FEW = 0.1


def document(context: RepairContext) -> Iterator[Job]:
    """Find damage to MEMORY.md; a link in its place is left alone."""
    path, disk = context.workspace.document, context.disk
    if path.is_symlink():
        return
    is_file = path.is_file() or not os.path.lexists(path)
    found = disk.read_optional(path) if is_file else b""
    wanted = _committed(context)
    wrong = "is no file" if not is_file else wrong_with(found, wanted)
    if not wrong:
        return
    if wanted is None:
        yield from _without_version(context, found, wrong)
        return
    text, is_read = _mended(found or b"", wanted)
    action = f"version {context.last} takes its place"
    if is_read:
        action = f"all that can be read stays, and what it lacks comes from version {context.last}"
    action += "; what was found is kept aside" if found else ""
    yield Job("MEMORY.md", f"MEMORY.md {wrong}", action, partial(_replace, context, text))


def wrong_with(found: bytes | None, wanted: str | None) -> str:
    """Return why these bytes are no MEMORY.md; empty when they are one. `wanted`: the last version, if any."""
    if found is None or not found.strip():
        state = "is missing" if found is None else "is empty"
        return state if wanted is not None else ""
    try:
        text = found.decode()
    except UnicodeDecodeError as error:
        return f"is no text: byte {error.start} is not UTF-8"
    if "\0" in text:
        return "holds NUL bytes"
    if wanted is None or text == wanted or is_conflicted(text):
        return ""
    return _torn(text, wanted)


def _torn(text: str, wanted: str) -> str:
    """Return why this text is only a part of a MEMORY.md; empty when it is whole."""
    if not text.endswith("\n") and wanted.startswith(text):
        return "breaks off"
    missing = parse(text).missing if parse(wanted).has_schema else ()
    lacking = [name for name in missing if name not in parse(wanted).missing]
    return f"lacks its sections ({', '.join(lacking)})" if lacking else ""


def displaced(context: RepairContext) -> Iterator[Job]:
    """Find what swaps of MEMORY.md took out, when no commit knows of them any more: state.db is an older one."""
    for path in displaced_files(context.workspace) if context.rebuilt else ():
        yield Job(
            "MEMORY.md",
            f"{path} was left by a commit that was interrupted",
            "it is kept aside: it may hold a save of yours",
            partial(context.put_aside, path),
        )


def _committed(context: RepairContext) -> str | None:
    """Return the text of the last version; None without one. While state.db is damaged, a copy has it."""
    path = context.workspace.database
    for one in (path, *copies_of(path)):
        with suppress(sqlite3.Error, DreamdError, ValueError), open_unmigrated(one, "rw") as connection:
            row = connection.execute(
                "SELECT text FROM versions WHERE cause <> ? ORDER BY number DESC LIMIT 1", (FOUND,)
            ).fetchone()
            return unpacked(row["text"]) or None if row else None
    return None


def _mended(found: bytes, wanted: str) -> tuple[str, bool]:
    """Return what is to stand in the place of a damaged file, and whether that is the file, mended.

    A row that is not UTF-8 is a row of the version with a byte that has changed, else it is in an older encoding: so
    the file is read, and the sections that it lacks come from the version. In a file that is torn such a row is
    noise: the version takes its place, with the whole lines that only the file has.
    """
    known, rows = wanted.split("\n"), found.split(b"\n")
    bad = [number for number, row in enumerate(rows) if row.decode(errors="ignore").encode() != row or b"\0" in row]
    is_torn = not found.strip() or b"\0" in found or len(bad) > max(1, len(rows) * _FEW)
    is_torn = is_torn or wanted.startswith(found.decode("utf-8", "replace"))
    read = [row.decode("utf-8", "ignore") for row in rows]
    for number in bad:
        same = difflib.get_close_matches(read[number], known, 1, _SAME)
        read[number] = same[0] if same else "" if is_torn else rows[number].decode("cp1252", "replace")
    if is_torn or any(row.startswith(read[-1]) for row in known):  # it may go on where the file breaks off
        read[-1] = ""
    document, base = parse("\n".join(read)), parse(wanted)
    onto, other = (base, document) if is_torn else (complete(document), base)
    present, there = ({block.key for part in one.parts for block in part.lines} for one in (onto, other))
    lost = sorted(present - there)

    def is_lacking(section: SectionName, block: Block) -> bool:
        if not is_torn:
            return section in document.missing
        # A line that is so much like one that is missing is that one, damaged.
        is_line = section is not SectionName.POINTERS and block.text.isprintable()
        return is_line and not difflib.get_close_matches(block.key, lost, 1, _ALIKE)

    new = [(section, block) for section, block in other.lines() if block.key not in present]
    edits = [Edit(section, (), block.text) for section, block in new if is_lacking(section, block)]
    return render(edited(onto, edits)[0]), not is_torn


def _replace(context: RepairContext, text: str) -> None:
    path = context.workspace.document
    if os.path.lexists(path):
        context.keep_copy(path)
    context.check()
    context.disk.write_atomic(path, text.encode(), mode=0o644)


def _without_version(context: RepairContext, found: bytes | None, wrong: str) -> Iterator[Job]:
    """Before the first version: restore the copy from before the first dream, if there is one."""
    try:
        backup = (context.disk.read_optional(context.workspace.backup) or b"").decode()
    except (DreamdError, UnicodeDecodeError):
        return
    if not backup.strip() or "\0" in backup:
        return
    action = "MEMORY.md.seed-backup takes its place" + (", and what was found is kept aside" if found else "")
    yield Job("MEMORY.md", f"MEMORY.md {wrong}", action, partial(_replace, context, backup))
