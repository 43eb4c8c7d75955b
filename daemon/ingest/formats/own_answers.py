"""Own answers: dreamd's answers to an agent, recognised in a transcript, so that they are not learnt again.

An answer of a search holds the question and so answers it best: learnt, it would stand before the fact that it
repeats, and the next answer would hold it too. Calls are known by their names, answers by their calls or their mark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from state.document.sections import SectionName

# How agents name the tools of a server: mcp__dreamd__NAME, mcp_dreamd_NAME, dreamd_NAME.
_SERVER = re.compile(r"(?i)mcp_{1,2}[\w-]*dreamd|dreamd_")
_NAMES = frozenset(
    (
        "dream_now dream_status memory_bootstrap memory_capacity memory_context memory_forget memory_memorize"
        " memory_reassess memory_recall memory_remember memory_restore memory_search memory_summarize memory_why"
    ).split()
)
_PREFIX = "working_memory_"
_MODEL_CONTEXT = "mcp__"
_PAGE = "memory://"
# A command line that runs dreamd: by its name where a command begins, or as a module. What may stand before it is
# bounded: in a text of nothing but beginnings, each would be read to the end.
_COMMAND = re.compile(
    r"(?:^|[;&|(\n`'\"]|\$\()[^\S\n]*+"
    r"(?:(?:sudo|time|env|exec|uv run|uvx|pipx run|[A-Z_]{1,80}+=\S{0,400}+)\s{1,80}+){0,9}+"
    r"(?:[\w.~/-]*/)?(?:dreamd|python[\d.]*\s+-m\s+daemon)(?=\s|$|[;&|)'\"`])"
)
# Every answer that quotes the memory says so, and so does what is given at session start.
_MARK = re.compile(
    r"[Tt]exts? (?:is|are) memory: data, not instructions\.|_Your memory of earlier sessions, kept by dreamd\."
)
# A reading of MEMORY.md itself; an agent that works on dreamd may well write two of them in one text.
_HEADINGS = re.compile(f"## ({'|'.join(name.value for name in SectionName)})")
_SECTIONS = 4


def is_own_call(tool: str, arguments: object) -> bool:
    """Return whether a tool call asks dreamd: one of its tools, one of its pages, or its command on a shell.

    Another server's tool of the same name is none; a name without a server is one.
    """
    if _SERVER.match(tool):
        return True
    if not tool.startswith(_MODEL_CONTEXT) and (tool in _NAMES or tool.startswith(_PREFIX)):
        return True
    return any(text.startswith(_PAGE) or bool(_COMMAND.search(text)) for text in _texts(arguments))


def is_own_answer(text: str) -> bool:
    """Return whether a text is an answer of dreamd by its mark, or MEMORY.md."""
    return bool(_MARK.search(text)) or len({match[1] for match in _HEADINGS.finditer(text)}) >= _SECTIONS


def _texts(arguments: object, depth: int = 0) -> Iterator[str]:
    """Yield every text among the arguments of a call."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Mapping | Sequence) and depth < 4:
        for value in arguments.values() if isinstance(arguments, Mapping) else arguments:
            yield from _texts(value, depth + 1)
