"""Prose: Markdown, paragraphs, or speakers' lines, whose blocks become turns; the file is the session.

A text is read as a whole: who speaks, and under which heading, depends on everything above. A label such as `User:`
is ordinary text, which a quoted page may contain as well. So once a tool or a page has spoken, nothing below it gets
more than a tool's trust; and a label that is fenced, indented or quoted never counts. Formats with a structure of
their own (JSON) need none of this.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from io import BytesIO

from daemon.ingest.formats.cleaning import clean
from daemon.ingest.formats.conversation import Problem, Reading, Turn, Watermark
from daemon.ingest.formats.lines import CALL_PROBLEMS, CALL_TURNS, LINE_BYTES, Line, lines_from
from state.crystals.crystal import Source
from state.errors import DocumentError
from state.trust import AGENT_NAMES, Trust, least_trust

MARKDOWN, SPEECHES, PARAGRAPHS = "Markdown", "speakers' lines", "plain text"
TEXT_BYTES = 16 * 1024 * 1024
_BLOCK_CHARACTERS = 64 * 1024
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(\S.*?)\s*#*\s*$")
_ITEM = re.compile(r" {0,1}(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_RULE = re.compile(r" {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")
_SPEECH = re.compile(r"(?:\[[^\]\n]{1,40}\]\s*)?([^\W\d][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s+(?=\S)")

_USERS = {"human", "me", "owner", "user", "you"}
# A speaker whose first word is one of these is no person; the second set are also ordinary words of documents.
_TOOLS = {"function", "tool", "tools", "toolresult", "webfetch", "websearch", "observation", "stdout", "stderr"}
_TOOLS_IN_CHATS = {
    *("bash", "browser", "console", "email", "fetch", "file", "http", "mail", "output", "page", "response", "result"),
    *("results", "search", "shell", "site", "snippet", "system", "terminal", "web", "webpage", "website", "document"),
}
_BETWEEN = {"call", "content", "from", "the", "of", "output", "read", "text", "article"}
_PART = re.compile(r"[^\W_]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LABEL = re.compile(
    r"(?:(#{1,6})\s+)?(?:[-*+]\s+(?=[*_]))?[*_]{0,3}([^\W\d][\w .-]{0,40}?)[*_]{0,3}"
    r"(?:\s?\([^)\n]{0,60}\))?\s?(?:(:)[*_]{0,3}(?=\s|$)|$)"
)


@dataclass(slots=True)
class _Block:
    """A paragraph, a list item, a code block or one speech: its lines, and the content of each."""

    heading: str = ""
    speaker: str = ""
    trust: Trust = Trust.OWNER
    lines: list[Line] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, line: Line, text: str) -> None:
        """Add a line and its content."""
        self.lines.append(line)
        self.said.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        """Return the whole content; "" if it has no word."""
        text = clean("\n".join(self.said))
        return text if any(letter.isalnum() for letter in text) else ""


def read(content: bytes, name: str, changed: datetime, start: Watermark, kind: str) -> Iterator[Reading]:
    """Yield the blocks of a text that were not read before, about one call's worth at a time.

    The last block may still grow, so reading a longer file later begins with it again. Raise DocumentError at a line
    that is not UTF-8.
    """
    carry = json.dumps({"as": kind, "undated": True})
    if start.memory().get("as", kind) != kind:  # its beginning is parsed differently now
        start = Watermark()
    turns, problems = list[Turn](), list[Problem]()
    mark = replace(start, bytes_read=len(content), digest=_digest(content), carry=carry)
    lines = _lines(content, name, start.lines, problems)
    blocks = _speeches(lines) if kind == SPEECHES else _parts(lines, is_markdown=kind == MARKDOWN)
    said = ((block, text) for block in blocks if (text := block.text))
    for position, (block, text) in enumerate(said):
        if position < start.turns:
            continue
        first = block.lines[0]
        if len(turns) >= CALL_TURNS:
            read_now = content[: first.start]
            before = Watermark(len(read_now), first.start, first.number - 1, position, _digest(read_now), carry)
            yield Reading(tuple(turns), before, tuple(problems), complete=False)
            turns.clear()
            problems.clear()
        source = Source(name, first.number, block.lines[-1].number, _digest(b"".join(one.raw for one in block.lines)))
        said_by = (text, block.speaker, block.trust, changed, name, position, source, block.heading)
        turns.append(Turn(*said_by, dated=False))
        mark = replace(mark, resume=first.start, lines=first.number - 1, turns=position)
    yield Reading(tuple(turns), mark, tuple(problems))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _lines(content: bytes, name: str, known: int, problems: list[Problem]) -> Iterator[tuple[Line, str]]:
    """Yield the lines with their texts; lines that are too long are skipped, and problems beyond line `known`."""
    for line in lines_from(BytesIO(content)):
        try:
            text = "" if line.too_long else line.decoded().rstrip("\r\n")
        except UnicodeDecodeError as error:
            what = f"{name}:{line.number}: byte 0x{line.raw[error.start]:02x} is not UTF-8"
            raise DocumentError(what, "convert the file to UTF-8, or leave it out") from error
        if not line.too_long:
            yield line, text
        elif line.number > known and len(problems) < CALL_PROBLEMS:
            problems.append(Problem(name, line.number, f"longer than {LINE_BYTES // 2**20} MiB"))


def is_heading(line: str) -> bool:
    """Return whether the line is an ATX heading."""
    return bool(_HEADING.match(line[:400]))


def is_conversation(lines: Sequence[str]) -> bool:
    """Return whether six in ten lines begin with a name that recurs; "Host: …" in a list does not."""
    texts = [line for line in lines if line.strip()]
    names = Counter(label[1] for line in texts if (label := _SPEECH.match(line[:120])))
    named = names.total()
    return named >= 4 and named >= 0.6 * len(texts) and named >= 2 * len(names)


def _parts(lines: Iterator[tuple[Line, str]], *, is_markdown: bool) -> Iterator[_Block]:
    """Yield the blocks of Markdown under their headings, or the paragraphs of a text."""
    path, floor, block = list[tuple[int, str]](), Floor(), _Block()
    for line, text in lines:
        is_fenced = is_markdown and bool(floor.fence)
        is_given = floor.heard(text) and floor.trust is not block.trust
        begins = not is_fenced and (not text.strip() or (is_markdown and _begins(text)))
        if begins or is_given or block.size >= _BLOCK_CHARACTERS:
            yield block
            block = _Block(_under(path), trust=floor.trust)
        if begins:
            if is_markdown and (heading := _HEADING.match(text[:400])):
                level = len(heading[1])
                path = [*(above for above in path if above[0] < level), (level, heading[2])]
                block.heading = _under(path)
            elif first := _without_mark(text):
                block.add(line, first)
            continue
        block.add(line, text if is_markdown else text.strip())
        if is_fenced and not floor.fence:
            yield block
            block = _Block(_under(path), trust=floor.trust)
    yield block


def _begins(text: str) -> bool:
    """Return whether a line ends the block before it: a fence, a heading, a rule or an item."""
    match = _FENCE.match(text) or _HEADING.match(text[:400]) or _RULE.match(text[:80]) or _ITEM.match(text)
    return bool(match)


def _without_mark(text: str) -> str:
    """Return the content of the first line of a block; "" for a blank line or a rule."""
    if _RULE.match(text[:80]) or not text.strip():
        return ""
    item = _ITEM.match(text)
    return text[item.end() :] if item else text


def _under(path: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in path)


def _speeches(lines: Iterator[tuple[Line, str]]) -> Iterator[_Block]:
    """Yield each speech, up to the next name."""
    floor, block = Floor(), _Block()
    for line, text in lines:
        label = _SPEECH.match(text) if floor.is_open(text) else None
        if label:
            floor.given_to(label[1])
        if label or block.size >= _BLOCK_CHARACTERS:
            yield block
            block = _Block(speaker=label[1] if label else block.speaker, trust=floor.trust)
        block.add(line, text[label.end() if label else 0 :].strip())
    yield block


# Who said what


def trust_of(speaker: str) -> Trust:
    """Return a speaker's trust: agents and tools have known names; people and a document's text are the owner's."""
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
    """Who speaks in a file that is read line by line, according to its labels, as far as they can be trusted.

    `tool_spoke`: a tool or a page has spoken.
    """

    speaker: Trust = Trust.OWNER
    tool_spoke: bool = False
    chat: bool = False
    fence: str = ""

    @property
    def trust(self) -> Trust:
        """Return the trust of the next line."""
        return least_trust([self.speaker, Trust.TOOL]) if self.tool_spoke else self.speaker

    def given_to(self, speaker: str) -> None:
        """Make somebody the current speaker."""
        self.speaker = trust_of(speaker)
        self.tool_spoke |= self.speaker.rank < Trust.AGENT.rank

    def is_open(self, text: str) -> bool:
        """Return whether a label on this line would count; updates the fence, so call it once per line."""
        marks = _FENCE.match(text)
        if self.fence:
            if marks and marks[1].startswith(self.fence) and text.strip() == marks[1]:
                self.fence = ""
            return False
        if marks:
            self.fence = marks[1]
            return False
        return not text[:1].isspace()

    def heard(self, text: str) -> bool:
        """Read a line of a document; return whether a label on it changes the speaker."""
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
