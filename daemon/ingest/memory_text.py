"""Memory text: what of a file of instructions or memory is somebody's word, line by line, as it stands there.

Left out are dreamd's own block, which says what dreamd knows already; the heads that programs write; lines that only
import another file; and, of Codex's memory of all projects, what applies to others. A line that is left out is empty,
so that all others keep their numbers.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from state.document.fence import fenced
from state.errors import DocumentError

_LONGEST_HEAD = 60  # lines
_RULE = b"---"
_HEADER = re.compile(rb"(?:thread_id|updated_at|rollout_path|rollout_summary_file|cwd|git_branch): ")
_CODE = re.compile(rb"\s{0,3}(```|~~~)")
_IMPORT = re.compile(rb"(?<![\w@./`-])@(?:~?/|\.{1,2}/)?[\w.-]+(?:/[\w.-]+)*\.\w+")
_ONLY_IMPORT = re.compile(rb"\s*(?:[-*+]\s+)?" + _IMPORT.pattern + rb"\s*")
_GROUP = b"# Task Group"
_APPLIES = b"applies_to:"
_FOLDERS = re.compile(r"cwd=([^;]*)")


@dataclass(frozen=True, slots=True)
class MemoryText:
    """The bytes with empty lines in the place of what is no word of anybody's. `imports`: files that it names."""

    content: bytes
    imports: int


def memory_text(content: bytes, belongs: Callable[[str], bool]) -> MemoryText:
    """Return what is somebody's word; `belongs` says whether a folder is of this project.

    Raise DocumentError for what is no text, and where it is not clear what the block is.
    """
    if b"\0" in content:
        raise DocumentError("it has a NUL byte: this is no text", "leave it out, or save it as UTF-8 text")
    if (block := fenced(content)) is not None:
        content = block.with_block(b"\n" * block.block.count(b"\n"))
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
    return MemoryText(b"\n".join(lines), imports)


def applies(content: bytes, belongs: Callable[[str], bool]) -> bool:
    """Tell whether any task group of Codex's memory is of this project."""
    return any(_is_of(line, belongs) for line in content.split(b"\n") if line.startswith(_APPLIES))


def folder_of_summary(head: bytes) -> str:
    """Return the folder of the session whose summary begins so; "" where it does not say."""
    for line in head.split(b"\n")[:_LONGEST_HEAD]:
        if not _HEADER.match(line):
            break
        if line.startswith(b"cwd: "):
            return line.removeprefix(b"cwd: ").decode(errors="replace").strip()
    return ""


def _of_this_project(lines: list[bytes], belongs: Callable[[str], bool]) -> list[bytes]:
    """Empty the groups that apply to other projects, or do not say to which."""
    starts = [number for number, line in enumerate(lines) if line.startswith(_GROUP)]
    for start, end in pairwise((*starts, len(lines))):
        said = (line for line in lines[start:end] if line.startswith(_APPLIES))
        if not any(_is_of(line, belongs) for line in said):
            lines[start:end] = [b""] * (end - start)
        else:
            for number in range(start, end):
                if lines[number].startswith((_APPLIES, b"scope:")):
                    lines[number] = b""
    return lines


def _is_of(line: bytes, belongs: Callable[[str], bool]) -> bool:
    named = _FOLDERS.search(line.decode(errors="replace"))
    folders = re.split(r",| and ", named[1]) if named else ()
    return any(belongs(folder.strip(" \t\r`'\"")) for folder in folders)


def _head(lines: list[bytes]) -> int:
    """Return how many lines of front matter, or of Codex's header, it begins with."""
    bare = [line.rstrip() for line in lines[:_LONGEST_HEAD]]
    if bare[0].removeprefix(b"\xef\xbb\xbf") == _RULE and _RULE in bare[1:]:
        return bare.index(_RULE, 1) + 1
    return next((number for number, line in enumerate(bare) if not _HEADER.match(line)), len(bare))
