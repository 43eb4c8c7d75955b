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
    """How an agent reads: the most characters its hook may output, and `size`, the same in bytes of UTF-8.

    `file_lines` and `file_bytes`: the limits its makers publish for its own file.
    """

    characters: int = HOOK_CHARACTERS
    size: int | None = None
    file_lines: int = 1_000
    file_bytes: int = 32 * 1024


# Codex takes 2,500 tokens of a hook's output, and counts one per four bytes. Its `project_doc_max_bytes`, 32 KiB,
# covers all AGENTS.md from the root of the repository down; the excess is cut off silently
# (developers.openai.com/codex/guides/agents-md). Claude Code loads "the first 200 lines or 25KB, whichever comes
# first" of its MEMORY.md (code.claude.com/docs/en/memory). Cursor: "keep rules under 500 lines"
# (cursor.com/docs/context/rules). Others publish no limit and get that of Codex, whose AGENTS.md they read too.
READERS = {
    "claude-code": Reader(file_lines=200, file_bytes=25_000),
    "codex": Reader(size=9_500),
    "cursor": Reader(file_lines=500),
    "gemini": Reader(),
    "opencode": Reader(),
    "vscode": Reader(),
    "claude-desktop": Reader(),
    "windsurf": Reader(),
    "zed": Reader(),
    "cline": Reader(),
    "inspector": Reader(),
    OTHER: Reader(),
}
AGENTS = ("", *READERS)
# Part of the name by which an MCP client introduces itself; the first match counts.
_CALLED = {name: name for name in READERS if name != OTHER} | {
    "claude": "claude-desktop",
    "visual-studio-code": "vscode",
    "copilot": "vscode",
}
_LOOKED_AT = 100


def agent_called(name: str) -> str:
    """Return the member of AGENTS that an MCP client's name means, so that no foreign text is kept; "" if unnamed."""
    said = "-".join("".join(char if char.isalnum() else " " for char in name[:_LOOKED_AT].lower()).split())
    return said and next((agent for part, agent in _CALLED.items() if f"-{part}-" in f"-{said}-"), OTHER)


def reader_of(agent: str) -> Reader:
    """Return how a member of AGENTS reads."""
    return READERS.get(agent, READERS[OTHER])
