"""Trust: whose words a text consists of, from a web page up to the owner."""

import re
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Tools that return other people's words: pages, mail, issues.
_WEB_TOOL = re.compile(
    r"web|fetch|brows|chrome|playwright|puppeteer|crawl|scrap|tavily|http|url|mail|slack|issue|github|gitlab|jira",
    re.IGNORECASE,
)
_WEB_COMMAND = re.compile(r"(?:^|[\s|;&(\"'])(?:curl|wget|lynx|w3m|https?|xh|gh|glab)\s")

# Names of agents in written-down conversations.
AGENT_NAMES = frozenset(
    ("agent", "ai", "assistant", "bot", "chatgpt", "claude", "codex", "copilot", "gemini", "gpt", "model")
)


class Trust(StrEnum):
    """Who said something. A derived text has the least trust of its sources."""

    WEB = "web"
    TOOL = "tool"
    AGENT = "agent"
    OWNER = "owner"

    @property
    def rank(self) -> int:
        """Return the rank, from 0 for the least trusted (web) to 3 (owner)."""
        return _RANKS[self]


def least_heard(heard: "Iterable[str]") -> str:
    """Return the least trusted kind of source that was heard ("web", "tool"); empty if none was."""
    return min(filter(None, heard), key=lambda one: Trust(one).rank, default="")


_RANKS = {trust: rank for rank, trust in enumerate(Trust)}


def least_trust(trusts: "list[Trust] | tuple[Trust, ...]") -> Trust:
    """Return the trust of something derived from all of these; OWNER if there are none."""
    return min(trusts, key=lambda trust: trust.rank, default=Trust.OWNER)


def is_web(tool: str, argument: str) -> bool:
    """Return whether strangers wrote the result: it comes from a web tool, or a command that fetches."""
    return bool(_WEB_TOOL.search(tool) or _WEB_COMMAND.search(argument))
