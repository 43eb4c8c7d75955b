"""Agent caps: how much of its own file each agent takes, as their makers have published it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cap:
    """How much of a file its agent takes."""

    lines: int
    bytes: int


# Claude Code: "target under 200 lines per CLAUDE.md", more costs adherence; of its MEMORY.md it loads "the first 200
# lines or 25KB, whichever comes first" (code.claude.com/docs/en/memory). It loads a CLAUDE.md up to 4 MiB.
# Codex: `project_doc_max_bytes`, 32 KiB, for all AGENTS.md from the root of the repository down together; what is
# above that is cut off without a word (developers.openai.com/codex/guides/agents-md). No limit of lines.
# Cursor: "keep rules under 500 lines" (cursor.com/docs/context/rules); it reads AGENTS.md.
# VS Code, Gemini CLI, opencode and Zed publish no limit: they have that of Codex, whose AGENTS.md they read too.
_NO_LIMIT = 1_000
CAPS: Mapping[str, Cap] = {
    "claude-code": Cap(200, 25_000),
    "codex": Cap(_NO_LIMIT, 32 * 1024),
    "cursor": Cap(500, 32 * 1024),
    "gemini": Cap(_NO_LIMIT, 32 * 1024),
    "opencode": Cap(_NO_LIMIT, 32 * 1024),
    "vscode": Cap(_NO_LIMIT, 32 * 1024),
    "zed": Cap(_NO_LIMIT, 32 * 1024),
}
