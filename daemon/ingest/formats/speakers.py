"""Speakers: who said what in a chat that was written down as plain text or Markdown.

A label such as `User:` is text like any other: what a page says may hold one. So once a tool or a page has spoken,
nothing further down in the file counts more than a tool's word; and a label that is fenced, indented or quoted never
is one. Formats with a structure of their own (JSON) need none of this.
"""

import re
from dataclasses import dataclass

from state.trust import AGENT_NAMES, Trust, least_trust

_USERS = {"human", "me", "owner", "user", "you"}
# Whoever has one of these first is no person; the others are words of documents too.
_TOOLS = {"function", "tool", "tools", "toolresult", "webfetch", "websearch", "observation", "stdout", "stderr"}
_TOOLS_IN_CHATS = {
    *("bash", "browser", "console", "email", "fetch", "file", "http", "mail", "output", "page", "response", "result"),
    *("results", "search", "shell", "site", "snippet", "system", "terminal", "web", "webpage", "website", "document"),
}
_BETWEEN = {"call", "content", "from", "the", "of", "output", "read", "text", "article"}
_PART = re.compile(r"[^\W_]+")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LABEL = re.compile(
    r"(?:(#{1,6})\s+)?(?:[-*+]\s+(?=[*_]))?[*_]{0,3}([^\W\d][\w .-]{0,40}?)[*_]{0,3}"
    r"(?:\s?\([^)\n]{0,60}\))?\s?(?:(:)[*_]{0,3}(?=\s|$)|$)"
)


def trust_of(speaker: str) -> Trust:
    """Return whose word it is: agents and tools have usual names; people, and a document's text, are the owner's."""
    if speaker.casefold() in AGENT_NAMES:
        return Trust.AGENT
    return Trust.TOOL if _is_tool(speaker, _TOOLS | _TOOLS_IN_CHATS) else Trust.OWNER


def _is_tool(speaker: str, names: set[str]) -> bool:
    words = _PART.findall(speaker.casefold())
    if not words or not set(words) & names:
        return False
    return words[0] in _TOOLS or set(words) <= names | _BETWEEN


@dataclass(slots=True)
class Floor:
    """Who has the floor in a file that is read line by line: what its labels say, as far as they can be believed.

    `tool_spoke`: a tool or a page has spoken.
    """

    speaker: Trust = Trust.OWNER
    tool_spoke: bool = False
    chat: bool = False
    fence: str = ""

    @property
    def trust(self) -> Trust:
        """Whose word the next line is."""
        return least_trust([self.speaker, Trust.TOOL]) if self.tool_spoke else self.speaker

    def given_to(self, speaker: str) -> None:
        """Give the floor to somebody who begins to speak."""
        self.speaker = trust_of(speaker)
        self.tool_spoke |= self.speaker.rank < Trust.AGENT.rank

    def is_open(self, text: str) -> bool:
        """Tell whether a label on this line would be one; the line is read, so call it once for each."""
        marks = FENCE.match(text)
        if self.fence:
            if marks and marks[1].startswith(self.fence) and text.strip() == marks[1]:
                self.fence = ""
            return False
        if marks:
            self.fence = marks[1]
            return False
        return not text[:1].isspace()

    def heard(self, text: str) -> bool:
        """Take in a line of a document; return whether a role's label on it gives the floor to somebody."""
        label = _LABEL.match(text[:200]) if self.is_open(text) else None
        if label is None or not (label[1] or label[3]):
            return False
        name = label[2].strip()
        if name.casefold() in _USERS | AGENT_NAMES:
            # An agent's name alone may be a field of a document.
            given = self.chat or name.casefold() in _USERS
            self.chat |= given
        else:
            given = _is_tool(name, _TOOLS | (_TOOLS_IN_CHATS if self.chat else set()))
        if given:
            self.given_to(name)
        return given
