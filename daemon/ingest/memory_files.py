"""Memory files: turns instructions and memories from before dreamd into crystals, each with its author's trust.

A file is taken in line by line, verbatim. Left out are headers that programs write; lines that only import another
file; and in Codex's memory of all projects, what applies to others. A line that is left out is replaced by an empty
one, so that all others keep their numbers.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from daemon.ingest.existing_memory import CODEX_APPLIES, CODEX_HEADER, LONGEST_FILE, LONGEST_HEADER, applies
from daemon.ingest.formats import prose
from daemon.ingest.formats.conversation import Watermark
from daemon.ingest.transcripts import name_of, turn_crystals
from daemon.workspace.redaction import learnable
from daemon.workspace.stores import Store
from state.errors import DocumentError
from state.stores.disk.disk import Disk, opened, read_whole
from state.stores.disk.places import project_of
from state.stores.disk.syscalls import storage_errors
from state.trust import Trust, least_trust

# Somebody chose to write it down, as in an old MEMORY.md; that does not make a stranger's word more important.
_IMPORTANCE = {Trust.OWNER: 0.75, Trust.AGENT: 0.7}
_RULE, _GROUP = b"---", b"# Task Group"
_CODE = re.compile(rb"\s{0,3}(```|~~~)")
_IMPORT = re.compile(rb"(?<![\w@./`-])@(?:~?/|\.{1,2}/)?[\w.-]+(?:/[\w.-]+)*\.\w+")
_ONLY_IMPORT = re.compile(rb"\s*(?:[-*+]\s+)?" + _IMPORT.pattern + rb"\s*")


@dataclass(frozen=True, slots=True)
class TakenIn:
    """The number of new crystals, of parts of the file, and of files that it imports."""

    crystals: int
    parts: int
    imports: int
    problems: tuple[str, ...] = ()


def absorb_memory_file(store: Store, path: Path, trust: Trust, belongs: Callable[[str], bool]) -> TakenIn:
    """Make a crystal of each new part of a file, in one transaction; the file is only read.

    `trust` is the highest trust of its text. A known crystal stays as it is unless the file has more trust. Raise
    StorageError or DocumentError if the file cannot be read, or if it is a link in the workspace that leads out of it
    or to hidden files.
    """
    around = (root for root in (store.workspace.root, project_of(store.workspace)) if path.is_relative_to(root))
    real = Disk(root).target(path) if (root := next(around, None)) is not None else path
    with storage_errors(path), opened(real) as file:
        changed = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
        content = read_whole(file, path, LONGEST_FILE)
    try:
        text, imports = memory_text(content, belongs)
    except DocumentError as error:
        raise DocumentError(f"{path}: {error.what}", error.advice) from error
    found = list(prose.read(text, str(path), changed, Watermark(), prose.MARKDOWN))
    turns = [turn for reading in found for turn in reading.turns]
    problems = [str(problem) for reading in found for problem in reading.problems]
    spoken = [replace(turn, trust=least_trust([turn.trust, trust])) for turn in turns]
    made = turn_crystals(store, spoken, name_of(store.workspace, path))
    worthy = [replace(one, importance=max(one.importance, _IMPORTANCE.get(one.trust, 0.0))) for one in made]
    crystals = {crystal.id: crystal for crystal in store.crystals.with_stored_ids(learnable(store.crystals, worthy))}
    for known in store.crystals.get(crystals):
        if known.trust.rank >= crystals[known.id].trust.rank:
            del crystals[known.id]
    new = sum(one.is_new for one in store.crystals.learn(crystals.values()))
    return TakenIn(new, len(turns), imports, tuple(store.config.redaction.of(problem) for problem in problems))


def memory_text(content: bytes, belongs: Callable[[str], bool]) -> tuple[bytes, int]:
    """Return the bytes with non-content lines emptied, and the number of files they import.

    `belongs` says whether a folder belongs to this project. Raise DocumentError if this is no text.
    """
    if b"\0" in content:
        raise DocumentError("it has a NUL byte: this is no text", "leave it out, or save it as UTF-8 text")
    lines = _of_this_project(content.split(b"\n"), belongs)
    for number in range(_head(lines)):
        lines[number] = b""
    imports, fence = 0, b""
    for number, line in enumerate(lines):
        code = _CODE.match(line)
        if code:
            fence = b"" if fence == code[1] else fence or code[1]
        elif not fence and (found := len(_IMPORT.findall(line))):
            imports += found
            if _ONLY_IMPORT.fullmatch(line):
                lines[number] = b""
    return b"\n".join(lines), imports


def _of_this_project(lines: list[bytes], belongs: Callable[[str], bool]) -> list[bytes]:
    """Empty Codex's task groups that apply to other projects, or name none."""
    groups = [number for number, line in enumerate(lines) if line.startswith(_GROUP)]
    for start, end in pairwise((*groups, len(lines))):
        is_ours = applies(lines[start:end], belongs)
        for number in range(start, end):
            if not is_ours or lines[number].startswith((CODEX_APPLIES, b"scope:")):
                lines[number] = b""
    return lines


def _head(lines: list[bytes]) -> int:
    """Return the number of lines of front matter, or of Codex's header, at the beginning."""
    bare = [line.rstrip() for line in lines[:LONGEST_HEADER]]
    if bare[0].removeprefix(b"\xef\xbb\xbf") == _RULE and _RULE in bare[1:]:
        return bare.index(_RULE, 1) + 1
    return next((number for number, line in enumerate(bare) if not CODEX_HEADER.match(line)), len(bare))
