"""Conversation: the turns of a file as its reader finds them, and what must be known to read on later."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from daemon.ingest.formats.cleaning import capped, clean, one_line, without_passages
from daemon.ingest.formats.own_answers import is_own_answer, is_own_call
from state.crystals.crystal import Source
from state.trust import Trust, is_web, least_heard

Record = dict[str, object]

# Outside these a number is no time of a conversation (a counter, a nanosecond clock, zero).
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_STRANGERS = (Trust.TOOL, Trust.WEB)
_MOST_SESSIONS, _MOST_CALLS, _MOST_SEEN = 64, 256, 512
_CALL_CHARACTERS, _RESULT_CHARACTERS = 160, 4_000
_OWN = ""  # in place of the tool's name
_TELLING_ARGUMENTS = ("command", "cmd", "file_path", "path", "url", "query", "pattern", "prompt", "description")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation, or one block of a document.

    `session` is the one that the file names, else the file's path. `position` orders the turns of one file; `heading`
    is the path of headings above a block of a document; `call` marks a tool call, something done rather than said.
    `heard` says what an agent had read since its owner's last word.
    """

    text: str
    speaker: str
    trust: Trust
    at: datetime
    session: str
    position: int
    source: Source
    heading: str = ""
    call: bool = False
    heard: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be read. It was skipped; what follows it was read."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}; the line is skipped"


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a file was read, and enough to notice that it is another file now.

    `bytes_read`: everything before it was read. `resume`: the offset where reading goes on; of a text the start of
    its last block, which may still grow. `lines`, `turns`: how many stand before `resume`. `digest`: SHA-256 of the
    last bytes before `bytes_read`, of a document all of them. `carry`: what the reader must know to go on, as JSON.
    """

    bytes_read: int = 0
    resume: int = 0
    lines: int = 0
    turns: int = 0
    digest: str = ""
    carry: str = "{}"

    def memory(self) -> Record:
        """Return what was carried; nothing if that was damaged."""
        value = json.loads(self.carry)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Reading:
    """One call's worth of a transcript. `complete` is False when there is more to read at once."""

    turns: tuple[Turn, ...]
    watermark: Watermark
    problems: tuple[Problem, ...] = ()
    complete: bool = True


class RecordError(ValueError):
    """A record is not what its format says; the message completes "the record ..."."""


class Conversation:
    """What is said in a file: a reader tells it for each record who said, called or answered what.

    Turns gather in `turns`. What a watermark carried is taken over as far as it makes sense: the session, whether a
    subagent speaks, the calls that await a result with the trust of that, the latest ids of a file that repeats its
    messages, and what each session has read since its owner's last word ("web" or "tool").
    """

    def __init__(self, name: str, changed: datetime, carried: Record | None = None, first: int = 0) -> None:
        carried = carried or {}
        self.name, self.turns, self._changed, self._first = name, list[Turn](), changed, first
        self.session, self.is_side = str(carried.get("session") or ""), carried.get("side") is True
        self.source = Source(name, 1, 1, "")
        self._at, self._place = changed, name
        calls, seen, heard = (carried.get(key) for key in ("calls", "seen", "heard"))
        self._calls: dict[str, tuple[str, Trust]] = {
            str(call): (str(known[0]), Trust(known[1]))
            for call, known in (calls.items() if isinstance(calls, dict) else ())
            if isinstance(known, list) and len(known) == 2 and known[1] in set(Trust)
        }
        self._seen = dict.fromkeys(map(str, seen)) if isinstance(seen, list) else {}
        heard = heard.items() if isinstance(heard, dict) else ()
        self._heard = {str(session): kind for session, kind in heard if kind in _STRANGERS}

    def carry(self) -> Record:
        """Return what must be known to go on after the last turn."""
        calls = {call: [name, trust.value] for call, (name, trust) in self._calls.items()}
        known = {"session": self.session, "side": self.is_side, "calls": calls}
        return {**known, "seen": list(self._seen), "heard": dict(self._heard)}

    def begin(self, head: Record, unnamed: str = "") -> None:
        """Take in the head of a session."""
        named = (head.get(key) for key in ("sessionId", "id", "session_id", "conversation_id"))
        self.session = str(next(filter(None, named), unnamed))
        self.is_side = head.get("kind") == "subagent" or bool(head.get("parentID"))

    def at(self, time: object, session: object = None) -> None:
        """Set when and in which session the next turns are said: by default at the file's time, in its session."""
        self._at = moment(time) or self._changed
        self._place = str(session or self.session or self.name)

    def is_new(self, key: str) -> bool:
        """Return whether this is seen for the first time, as far back as that is known."""
        if key in self._seen:
            return False
        self._seen[key] = None
        _trim(self._seen, _MOST_SEEN)
        return True

    def is_known(self, key: str) -> bool:
        """Return whether this was seen already."""
        return key in self._seen

    def human(self, text: str, *, is_side: bool | None = None) -> None:
        """Add what the user said; the user of a subagent is the agent that started it."""
        if self.is_side if is_side is None else is_side:
            self.agent(text)
        else:
            self._say(clean(text), "user", Trust.OWNER)

    def agent(self, text: str) -> None:
        """Add what the agent said."""
        self._say(clean(text), "assistant", Trust.AGENT)

    def call(
        self, call: object, name: object, arguments: object, trust: Trust = Trust.AGENT, *, is_new: bool = True
    ) -> None:
        """Remember a call, and add the line that stands for a new one: the tool's name and its telling argument.

        Of a call of dreamd's own nothing is said, neither here nor of what it gave.
        """
        tool = one_line(clean(name), 80) if isinstance(name, str) and name.strip() else "tool"
        given = _given(arguments)
        argument = telling(given)
        line = f"{tool}: {one_line(argument, _CALL_CHARACTERS)}" if argument else tool
        if is_own_call(tool, given):
            tool = line = _OWN
        if isinstance(call, str):
            self._calls[call] = (tool, Trust.WEB if is_web(tool, argument) else Trust.TOOL)
            _trim(self._calls, _MOST_CALLS)
        if is_new:
            self._say(line, "assistant", trust, is_call=True)

    def result(self, call: object, result: str, name: object = None) -> None:
        """Add what a call gave, capped, under the tool's name; `name` is that of an unknown call's tool."""
        named = name if isinstance(name, str) and name else "tool"
        tool, trust = self._calls.pop(str(call), (named, Trust.WEB if is_web(named, "") else Trust.TOOL))
        text = clean(without_passages(result))
        if tool != _OWN and not is_own_call(tool, None) and not is_own_answer(text):
            self._say(capped(text, _RESULT_CHARACTERS), tool, trust)

    def _say(self, text: str, speaker: str, trust: Trust, *, is_call: bool = False) -> None:
        """Add a turn, if it has text (a screenshot has none), and keep what its session has heard by then."""
        before = self._heard.pop(self._place, "")
        if trust is Trust.OWNER and text:
            before = ""
        elif after := least_heard((before, trust.value)) if trust in _STRANGERS else before:
            self._heard[self._place] = after
            _trim(self._heard, _MOST_SESSIONS)
        if text:
            heard = before if trust is Trust.AGENT else ""
            position = self._first + len(self.turns)
            said = (text, speaker, trust, self._at, self._place, position, self.source)
            self.turns.append(Turn(*said, call=is_call, heard=heard))


def _trim(known: dict[str, Any], most: int) -> None:
    """Let the oldest go."""
    while len(known) > most:
        del known[next(iter(known))]


def moment(value: object) -> datetime | None:
    """Return the time that a record gives: ISO 8601, or seconds, milliseconds or microseconds since 1970.

    A time without a zone is taken as UTC. What is no time between 1990 and 2200 is None.
    """
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value.strip())
            at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
            at = datetime.fromtimestamp(value / 1000 ** max(0, (int(math.log10(value)) - 9) // 3), UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return at if _EARLIEST <= at <= _LATEST else None


def _given(arguments: object) -> object:
    """Return the arguments of a call, read where they are JSON in a string, as OpenAI's formats have them."""
    with suppress(ValueError, RecursionError):
        if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
            return json.loads(arguments)
    return arguments


def telling(arguments: object) -> str:
    """Return the argument that tells what a call does: a command, a path, a query, else the first text."""
    if isinstance(arguments, str):
        return clean(arguments)
    if isinstance(arguments, Sequence):
        return clean(" ".join(part for part in arguments if isinstance(part, str)))
    if not isinstance(arguments, Mapping):
        return ""
    named = [arguments[key] for key in _TELLING_ARGUMENTS if key in arguments]
    for value in (*named, *arguments.values()):
        if isinstance(value, str) and value.strip():
            return clean(value)
        if isinstance(value, list) and any(isinstance(part, str) for part in value):
            return telling(value)
    return ""


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or the text parts of a list, one paragraph each.

    Pictures, files, thinking and parts of unknown kinds are left out.
    """
    if isinstance(content, str):
        return content
    kinds = ("text", "input_text", "output_text")
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type", "text") in kinds else part
        for part in (content if isinstance(content, list) else ())
    ]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
