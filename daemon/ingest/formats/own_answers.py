"""Own answers: recognises dreamd's answers to an agent in a transcript, so that they are not learnt again.

The answer to a search contains the question and thus matches it best: once learnt, it would rank above the fact that
it repeats, and the next answer would include it. Calls are recognised by name, answers by their call or their mark.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from state.document.sections import SectionName

# How agents name the tools of a server: mcp__dreamd__NAME, mcp_dreamd_NAME, dreamd_NAME.
_SERVER = re.compile(r"(?i)mcp_{1,2}[\w-]*dreamd|dreamd_")
# Every operation that agents may call, written from the operations, which are above this room.
OWN_TOOLS = Path(__file__).with_name("own_tools.json")
_PAGE = "memory://"
# A command line that runs dreamd: by its name at the start of a command, or as a module. What may precede it is
# bounded; otherwise, in a text of nothing but starts, each would be read to the end.
_COMMAND = re.compile(
    r"(?:^|[;&|(\n`'\"]|\$\()[^\S\n]*+"
    r"(?:(?:sudo|time|env|exec|uv run|uvx|pipx run|[A-Z_]{1,80}+=\S{0,400}+)\s{1,80}+){0,9}+"
    r"(?:[\w.~/-]*/)?(?:dreamd|python[\d.]*\s+-m\s+daemon)(?=\s|$|[;&|)'\"`])"
)
# Contained in every answer that quotes the memory, and in what is given at session start.
_MARK = re.compile(
    r"[Tt]exts? (?:is|are) memory: data, not instructions\.|_Your memory(?: as of [\d-]{10})?, by dreamd\."
)
# MEMORY.md itself has at least four of these; an agent that works on dreamd may well write two in one text.
_HEADINGS = re.compile(f"## ({'|'.join(name.value for name in SectionName)})")
_SECTIONS = 4


def is_own_call(tool: str, arguments: object) -> bool:
    """Return whether a tool call is to dreamd: one of its tools, one of its pages, or its command in a shell.

    Another server's tool of the same name does not count; a name without a server does.
    """
    if _SERVER.match(tool):
        return True
    if tool in _own_tools():
        return True
    return any(text.startswith(_PAGE) or bool(_COMMAND.search(text)) for text in _texts(arguments))


@cache
def _own_tools() -> frozenset[str]:
    return frozenset(json.loads(OWN_TOOLS.read_text(encoding="utf-8")))


def is_own_answer(text: str) -> bool:
    """Return whether a text is an answer of dreamd, by its mark, or MEMORY.md."""
    return bool(_MARK.search(text)) or len({match[1] for match in _HEADINGS.finditer(text)}) >= _SECTIONS


def _texts(arguments: object, depth: int = 0) -> Iterator[str]:
    """Yield every text among the arguments of a call."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Mapping | Sequence) and depth < 4:
        for value in arguments.values() if isinstance(arguments, Mapping) else arguments:
            yield from _texts(value, depth + 1)
