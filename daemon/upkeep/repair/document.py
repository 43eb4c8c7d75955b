"""Document repair: a damaged MEMORY.md is replaced by the last committed version.

The file that was found is kept aside. Whole lines that its owner wrote since are taken over from it.
"""

import difflib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from daemon.upkeep.repair.jobs import Job, RepairContext
from state.document.document import Edit, SectionName, complete, parse, render
from state.document.editing import edited
from state.document.merge import is_conflicted
from state.dream import FOUND
from state.errors import DreamdError
from state.stores.database.connection import open_unmigrated
from state.stores.database.copies import copies_of
from state.stores.database.table import unpacked
from state.stores.history.memory import displaced_files

# A line that is so much like one that is missing is that one, damaged.
_ALIKE = 0.8
# One that is so much like one of the version's, but for bytes that are no text, is that one.
_SAME = 0.95
# So many of its rows may be no UTF-8 in a file that is a text.
_FEW = 0.1
_REPLACED = "�"


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
    if found and (readable := _readable(found, wanted)) is not None and not wanted.startswith(readable):
        action = f"all that can be read stays, and what it lacks comes from version {context.last}"
        action += "; what was found is kept aside"
        yield Job("MEMORY.md", f"MEMORY.md {wrong}", action, partial(_replace, context, _filled(readable, wanted)))
        return
    text, saved = _with_lines_of(wanted, found or b"")
    action = f"version {context.last} takes its place"
    if found:
        action += ", and what was found is kept aside"
    if saved:
        action += f"; {len(saved)} lines that were written since are taken over"
    yield Job("MEMORY.md", f"MEMORY.md {wrong}", action, partial(_replace, context, text))


def wrong_with(found: bytes | None, wanted: str | None) -> str:
    """Why these bytes are no MEMORY.md; empty when they are one. `wanted` is the last version, if there is one."""
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
    """Why this text is only a part of a MEMORY.md; empty when it is whole."""
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
            partial(context.aside.move, path),
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


def _readable(found: bytes, wanted: str) -> str | None:
    """Return the file as text, if at most a few rows are no UTF-8; else None.

    A row that is not UTF-8 is a row of the version with a byte that has changed, else it is in an older encoding.
    """
    rows = found.split(b"\n")
    bad = [number for number, row in enumerate(rows) if row.decode(errors="ignore").encode() != row]
    if b"\0" in found or len(bad) > max(1, len(rows) * _FEW):
        return None
    known = wanted.split("\n")
    read = [row.decode("utf-8", "ignore") for row in rows]
    for number in bad:
        same = difflib.get_close_matches(read[number], known, 1, _SAME)
        read[number] = same[0] if same else rows[number].decode("cp1252", "replace")
    if not found.endswith(b"\n") and read[-1] and any(row.startswith(read[-1]) for row in known):
        read[-1] = ""  # it breaks off in a row of the version
    return "\n".join(read)


def _filled(text: str, wanted: str) -> str:
    """Return the text with the sections it lacks, each with the version's lines that are nowhere else in the text."""
    document = parse(text)
    lacking = document.missing
    present_keys = {block.key for part in document.parts for block in part.lines}
    edits = [
        Edit(section, (), block.text)
        for section, block in parse(wanted).lines()
        if section in lacking and block.key not in present_keys
    ]
    return render(edited(complete(document), edits)[0])


def _with_lines_of(wanted: str, found: bytes) -> tuple[str, Sequence[str]]:
    """Return the version with the whole lines that only the file has; and those lines."""
    base, torn = parse(wanted), parse(found.decode("utf-8", "replace").replace("\0", _REPLACED))
    present_keys = {block.key for _, block in base.lines()}
    blocks = [(section, block) for section, block in torn.lines() if section is not SectionName.POINTERS]
    if blocks and not found.endswith(b"\n"):
        blocks.pop()  # it may go on where the file breaks off
    present = {block.key for _, block in blocks}
    gone = sorted(present_keys - present)
    new = [
        (section, block.text)
        for section, block in blocks
        if block.key not in present_keys
        and _REPLACED not in block.text
        and block.text.isprintable()
        and not difflib.get_close_matches(block.key, gone, 1, _ALIKE)
    ]
    document, _ = edited(base, [Edit(section, (), text) for section, text in new])
    return render(document), [text for _, text in new]


def _replace(context: RepairContext, text: str) -> None:
    path = context.workspace.document
    if os.path.lexists(path):
        context.aside.keep(path)
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
