"""Agents: the names of the programs that read the memory, and how much each takes of what a hook gives it."""

from typing import NamedTuple

# Of what a hook answers, Claude Code gives the model a preview alone when it is longer than 10,000 characters.
HOOK_CHARACTERS = 9_500
OTHER = "other"
# With this variable a hook is only tried: no receipt is left of it, and no dream begun.
TRIED = "DREAMD_TRIED"


class Reader(NamedTuple):
    """How an agent reads: for which context window it is written, in tokens, and how much its hook may answer.

    `size`: in bytes of UTF-8. Of its own file it takes so many lines and bytes, as its makers have published it.
    """

    window: int | None = None
    characters: int = HOOK_CHARACTERS
    size: int | None = None
    file_lines: int = 1_000
    file_bytes: int = 32 * 1024


# Codex takes 2,500 tokens of a hook's answer, and counts one for every four bytes. Its `project_doc_max_bytes`,
# 32 KiB, are for all AGENTS.md from the root of the repository down; what is above is cut off without a word
# (developers.openai.com/codex/guides/agents-md). Of its MEMORY.md Claude Code loads "the first 200 lines or 25KB,
# whichever comes first" (code.claude.com/docs/en/memory). Cursor: "keep rules under 500 lines"
# (cursor.com/docs/context/rules). Others publish no limit: they have that of Codex, whose AGENTS.md they read too.
READERS = {
    "claude-code": Reader(128_000, file_lines=200, file_bytes=25_000),
    "codex": Reader(64_000, size=9_500),
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
# What MCP clients call themselves, by a part of it; the first that fits.
_CALLED = {name: name for name in READERS if name != OTHER} | {
    "claude": "claude-desktop",
    "visual-studio-code": "vscode",
    "copilot": "vscode",
}
_LOOKED_AT = 100


def agent_called(name: str) -> str:
    """Return the agent of AGENTS that calls itself so: no word of somebody else's is kept. "" for no name."""
    said = "-".join("".join(char if char.isalnum() else " " for char in name[:_LOOKED_AT].lower()).split())
    return said and next((agent for part, agent in _CALLED.items() if f"-{part}-" in f"-{said}-"), OTHER)


def reader_of(agent: str) -> Reader:
    """Return how an agent of AGENTS reads."""
    return READERS.get(agent, READERS[OTHER])
