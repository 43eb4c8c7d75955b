"""Conversation: the turns of a file as its reader reports them, and what it takes to continue later."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from daemon.ingest.formats.answers import Questions, answers, questions_of
from daemon.ingest.formats.cleaning import capped, clean, one_line
from daemon.ingest.formats.own_answers import is_own_answer, is_own_call
from daemon.ingest.formats.own_words import PLAIN, pieces, without_passages
from state.crystals.crystal import Source
from state.trust import Trust, is_web, least_heard
from state.zone import instant

Record = dict[str, object]

# Outside these bounds a number is not a time of a conversation (a counter, a nanosecond clock, zero).
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_STRANGERS = (Trust.TOOL, Trust.WEB)
_MOST_SESSIONS, _MOST_CALLS, _MOST_SEEN = 64, 256, 512
_CALL_CHARACTERS, _RESULT_CHARACTERS = 160, 4_000
_SPEAKERS = {Trust.OWNER: "user", Trust.AGENT: "assistant", Trust.TOOL: "tool", Trust.WEB: "tool"}
_OWN = ""  # in place of the tool's name
_TELLING_ARGUMENTS = ("command", "cmd", "file_path", "path", "url", "query", "pattern", "prompt", "description")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation, or one block of a document.

    `session` is the one named in the file, else the file's path. `position` orders the turns of one file; `heading`
    is the path of headings above a block of a document; `call` marks a tool call, something done rather than said.
    `heard` is what an agent had read since its owner's last message. A turn that is not `dated` has the file's time.
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
    dated: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that could not be read. It was skipped, and what follows it was read."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}; the line is skipped"


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a file was read, with enough to notice if it is another file now.

    Everything before `bytes_read` was read. `resume` is the offset where reading continues; in prose, the start of
    the last block, which may still grow. `lines` and `turns` count those before `resume`. `digest` is the SHA-256 of
    the last bytes before `bytes_read`; of a document, of all of them. `carry` is the reader's state as JSON.
    """

    bytes_read: int = 0
    resume: int = 0
    lines: int = 0
    turns: int = 0
    digest: str = ""
    carry: str = "{}"

    def memory(self) -> Record:
        """Return the reader's state; {} if it was not an object."""
        value = json.loads(self.carry)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Reading:
    """One call's worth of a transcript. `complete` is False if more can be read right away."""

    turns: tuple[Turn, ...]
    watermark: Watermark
    problems: tuple[Problem, ...] = ()
    complete: bool = True


class RecordError(ValueError):
    """A record does not match its format; the message completes "the record ..."."""


class Conversation:
    """The content of a file: for each record, a reader reports who said, called or answered what.

    The reader sets `places`, where a person's words stand in its format, and `prompted`, the time of the last prompt
    in a format that has no other times. A watermark carries it, and the questions of calls that await a result.

    Turns collect in `turns`. As far as it is valid, state carried by a watermark is taken over: the session, whether
    a subagent speaks, the calls that await a result and its trust, the latest ids in a file that repeats its
    messages, and what each session has read since its owner's last message ("web" or "tool"). `kin` are the sessions
    whose history the file says that it has, its own first; `undated`: a turn had no time of its own.
    """

    def __init__(
        self, name: str, changed: datetime, carried: Record | None = None, first: int = 0, zone: tzinfo = UTC
    ) -> None:
        carried = carried or {}
        self.name, self.turns, self._changed, self._first = name, list[Turn](), changed, first
        self.session, self.is_side = str(carried.get("session") or ""), carried.get("side") is True
        self.source = Source(name, 1, 1, "")
        kin = carried.get("kin")
        self.kin, self.undated = list(map(str, kin)) if isinstance(kin, list) else [], carried.get("undated") is True
        self._at, self._dated, self._place, self._zone = changed, False, name, zone
        calls, seen, heard = (carried.get(key) for key in ("calls", "seen", "heard"))
        self._calls: dict[str, tuple[str, Trust]] = {
            str(call): (str(known[0]), Trust(known[1]))
            for call, known in (calls.items() if isinstance(calls, dict) else ())
            if isinstance(known, list) and len(known) == 2 and known[1] in set(Trust)
        }
        self._seen = dict.fromkeys(map(str, seen)) if isinstance(seen, list) else {}
        self.places, self.prompted = PLAIN, str(carried.get("prompted") or "")
        asked = carried.get("asked")
        self._asked: dict[str, Questions] = {
            str(call): [(str(one[0]), str(one[1])) for one in questions if isinstance(one, list) and len(one) == 2]
            for call, questions in (asked.items() if isinstance(asked, dict) else ())
            if isinstance(questions, list)
        }
        heard = heard.items() if isinstance(heard, dict) else ()
        self._heard = {str(session): kind for session, kind in heard if kind in _STRANGERS}

    def carry(self) -> Record:
        """Return the state that is needed to continue after the last turn."""
        calls = {call: [name, trust.value] for call, (name, trust) in self._calls.items()}
        known = {"session": self.session, "side": self.is_side, "prompted": self.prompted, "calls": calls}
        asked = {call: list(map(list, questions)) for call, questions in self._asked.items()}
        copied = {"kin": self.kin, "undated": self.undated}
        return {**known, **copied, "asked": asked, "seen": list(self._seen), "heard": dict(self._heard)}

    def begin(self, head: Record, unnamed: str = "") -> None:
        """Read the head of a session."""
        named = (head.get(key) for key in ("sessionId", "id", "session_id", "conversation_id"))
        self.session = str(next(filter(None, named), unnamed))
        self.is_side = head.get("kind") == "subagent" or bool(head.get("parentID"))

    def descends_from(self, *sessions: object) -> None:
        """Add sessions, as far as they are named, whose turns the file may repeat."""
        self.kin = list(dict.fromkeys((*self.kin, *(one for one in sessions if isinstance(one, str) and one))))

    def at(self, time: object, session: object = None) -> None:
        """Set time and session of the next turns; the defaults are the file's time and the current session."""
        own = moment(time, self._zone)
        self._at, self._dated = own or self._changed, own is not None
        self._place = str(session or self.session or self.name)

    def is_new(self, key: str) -> bool:
        """Record a key; return whether it is new, as far back as keys are kept."""
        if key in self._seen:
            return False
        self._seen[key] = None
        _trim(self._seen, _MOST_SEEN)
        return True

    def forget(self, key: str) -> bool:
        """Drop a key; return whether it was recorded."""
        return key in self._seen and self._seen.pop(key) is None

    def is_known(self, key: str) -> bool:
        """Return whether the key was recorded."""
        return key in self._seen

    def user(
        self, content: object, *, trust: Trust = Trust.OWNER, is_typed: bool = False, is_side: bool | None = None
    ) -> None:
        """Add what a user's record says: the owner's words as theirs, what stands in wrappers as a tool's.

        `trust` is lower if the record itself names another author. A subagent's user is the agent that started it.
        """
        said = pieces(texts_of(content), self.places, is_typed=is_typed)
        owner = "\n\n".join(piece.text for piece in said if piece.is_owner)
        other = "\n\n".join(piece.text for piece in said if not piece.is_owner)
        if trust is Trust.OWNER and (self.is_side if is_side is None else is_side):
            trust = Trust.AGENT
        if said and said[-1].is_owner:
            self._told(other)
        self._say(clean(owner), _SPEAKERS[trust], trust)
        if said and not said[-1].is_owner:
            self._told(other)

    def _told(self, text: str) -> None:
        """Add what neither the owner nor the agent said."""
        if (text := clean(text)) and not is_own_answer(text):
            self._say(capped(text, _RESULT_CHARACTERS), _SPEAKERS[Trust.TOOL], Trust.TOOL)

    def read(self, trust: Trust) -> None:
        """Note that the agent has read something of this trust, which the file does not contain."""
        self._say("", _SPEAKERS[trust], trust)

    def agent(self, text: str) -> None:
        """Add what the agent said."""
        self._say(clean(text), "assistant", Trust.AGENT)

    def call(
        self, call: object, name: object, arguments: object, trust: Trust = Trust.AGENT, *, is_new: bool = True
    ) -> None:
        """Register a call and, if it is new, add a line for it: the tool's name and its most telling argument.

        Nothing is added for a call to dreamd itself, nor for its result.
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
            if questions := questions_of(self.places, tool, given):
                self._asked[call] = questions
                _trim(self._asked, _MOST_CALLS)
        if is_new:
            self._say(line, "assistant", trust, is_call=True)

    def result(
        self, call: object, result: str, name: object = None, *, answer: object = None, reasons: Sequence[str] = ()
    ) -> None:
        """Add the result of a call, capped, under the tool's name; `name` is the tool of an unknown call.

        If it holds a person's words, these are added instead: the answers to the agent's questions (`answer`, or the
        result itself), or the `reasons` of a refusal. A person answers a subagent, too.
        """
        named = name if isinstance(name, str) and name else "tool"
        tool, trust = self._calls.pop(str(call), (named, Trust.WEB if is_web(named, "") else Trust.TOOL))
        questions = self._asked.pop(str(call), ())
        said = [*(answers(questions, result if answer is None else answer) if questions else ()), *reasons]
        for words in said:
            self._say(clean(words), _SPEAKERS[Trust.OWNER], Trust.OWNER)
        text = clean(without_passages(result))
        if not said and tool != _OWN and not is_own_call(tool, None) and not is_own_answer(text):
            self._say(capped(text, _RESULT_CHARACTERS), tool, trust)

    def _say(self, text: str, speaker: str, trust: Trust, *, is_call: bool = False) -> None:
        """Add a turn if it has text (a screenshot has none), and update what its session has heard."""
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
            self.turns.append(Turn(*said, call=is_call, heard=heard, dated=self._dated))
            self.undated |= not self._dated


def _trim(known: dict[str, Any], most: int) -> None:
    """Drop the oldest entries beyond `most`."""
    while len(known) > most:
        del known[next(iter(known))]


def moment(value: object, zone: tzinfo = UTC) -> datetime | None:
    """Parse a time: ISO 8601, or seconds, milliseconds or microseconds since 1970.

    A time without an offset is one of `zone`. Return None for anything that is not a time between 1990 and 2200.
    """
    try:
        if isinstance(value, str):
            at = instant(datetime.fromisoformat(value.strip()), zone)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
            at = datetime.fromtimestamp(value / 1000 ** max(0, (int(math.log10(value)) - 9) // 3), UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return at if _EARLIEST <= at <= _LATEST else None


def _given(arguments: object) -> object:
    """Return the arguments of a call, parsed if they are JSON in a string, as in OpenAI's formats."""
    with suppress(ValueError, RecursionError):
        if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
            return json.loads(arguments)
    return arguments


def telling(arguments: object) -> str:
    """Return the argument that best describes a call: a command, a path, a query, else the first text."""
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
    """Return the text of a message's content: a string, or the text parts of a list as paragraphs."""
    return content if isinstance(content, str) else "\n\n".join(texts_of(content))


def texts_of(content: object) -> list[str]:
    """Return the texts of a message's content: a string, or the text parts of a list.

    Pictures, files, thinking and parts of unknown kinds are left out.
    """
    kinds = ("text", "input_text", "output_text")
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type", "text") in kinds else part
        for part in (content if isinstance(content, list) else (content,))
    ]
    return [text for text in texts if isinstance(text, str) and text.strip()]
