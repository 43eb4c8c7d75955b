"""Agents: the names of the programs that read the memory, and how much output of a hook each accepts.

None has a window of its own: who can read the whole file is given the whole file, as dreams write it.
"""

from typing import NamedTuple

# Claude Code gives the model only a preview of a hook's output longer than 10,000 characters.
HOOK_CHARACTERS = 9_500
OTHER = "other"
# With this environment variable a hook is only tested: it leaves no receipt and starts no dream.
TRIED = "DREAMD_TRIED"


class Reader(NamedTuple):
    """How an agent reads: the most characters its hook may output, and `size`, the same in bytes of UTF-8."""

    characters: int = HOOK_CHARACTERS
    size: int | None = None


# Codex takes 2,500 tokens of a hook's output, and counts one per four bytes.
_NAMES = "claude-code codex cursor gemini opencode vscode claude-desktop windsurf zed cline inspector".split()
READERS = {name: Reader() for name in (*_NAMES, OTHER)} | {"codex": Reader(size=9_500)}
AGENTS = ("", *READERS)
# Part of the name by which an MCP client introduces itself; the first match counts.
_CALLED = {name: name for name in READERS if name != OTHER} | {
    "claude": "claude-desktop",
    "visual-studio-code": "vscode",
    "copilot": "vscode",
}
_LOOKED_AT = 100
COMMAND = "command:"
"""Begins a `model.name` that is a program, followed by its arguments."""


def agent_called(name: str) -> str:
    """Return the member of AGENTS that an MCP client's name means, so that no foreign text is kept; "" if unnamed."""
    said = "-".join("".join(char if char.isalnum() else " " for char in name[:_LOOKED_AT].lower()).split())
    return said and next((agent for part, agent in _CALLED.items() if f"-{part}-" in f"-{said}-"), OTHER)


def reader_of(agent: str) -> Reader:
    """Return how a member of AGENTS reads."""
    return READERS.get(agent, READERS[OTHER])
