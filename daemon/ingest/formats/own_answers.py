"""Own answers: recognises dreamd's answers to an agent in a transcript, so that they are not learnt again.

The answer to a search contains the question and thus matches it best: once learnt, it would rank above the fact that
it repeats, and the next answer would include it. Calls are recognised by name, answers by their call or their mark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from state.document.sections import SectionName

# How agents name the tools of a server: mcp__dreamd__NAME, mcp_dreamd_NAME, dreamd_NAME.
_SERVER = re.compile(r"(?i)mcp_{1,2}[\w-]*dreamd|dreamd_")
# Every operation that agents may call; a test compares them, since the operations are above this room.
OWN_TOOLS = frozenset(
    (
        "dream_now dream_status memory_bootstrap memory_context memory_forget memory_recall memory_search"
        " memory_why session_close session_list session_open working_memory_add working_memory_bulk_promote"
        " working_memory_clear_session working_memory_expire working_memory_export working_memory_extend_ttl"
        " working_memory_get working_memory_list working_memory_list_expired working_memory_list_pending"
        " working_memory_list_promoted working_memory_note working_memory_promote working_memory_relation_add"
        " working_memory_search working_memory_stats"
    ).split()
)
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
    if tool in OWN_TOOLS:
        return True
    return any(text.startswith(_PAGE) or bool(_COMMAND.search(text)) for text in _texts(arguments))


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
