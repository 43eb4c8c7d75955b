"""Turns: the values that reading a transcript gives: turns, the watermark, and problems."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from state.crystals.crystal import Source
from state.trust import Trust, least_heard

Record = dict[str, object]

# Outside these a number is no time of a conversation (a counter, a nanosecond clock, zero).
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_STRANGERS = (Trust.TOOL, Trust.WEB)
_SESSIONS = 64


@dataclass(frozen=True, slots=True)
class RawTurn:
    """One turn as a reader finds it: `at` and `session` may be unknown to the record itself.

    `call`: a tool call, something done rather than said.
    """

    text: str
    speaker: str
    trust: Trust
    at: datetime | None = None
    session: str = ""
    call: bool = False

    def as_turn(self, file_time: datetime, position: int, source: Source, heard: str) -> "Turn":
        """Return this as a turn of a file."""
        at = self.at or file_time
        return Turn(
            self.text, self.speaker, self.trust, at, self.session, position, source, call=self.call, heard=heard
        )


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


class Hearing:
    """What each session of a file has read since its owner's last word: a page ("web") or a tool's answer ("tool").

    Sessions beyond the latest 64 are let go.
    """

    def __init__(self, carried: object = None) -> None:
        known = carried.items() if isinstance(carried, dict) else ()
        self._sessions = {str(session): heard for session, heard in known if heard in _STRANGERS}

    def of(self, turn: RawTurn) -> str:
        """Take in the next turn; return what its session had heard, if it is the agent's."""
        heard = self._sessions.pop(turn.session, "")
        if turn.trust is Trust.OWNER and turn.text:
            return ""
        after = least_heard((heard, turn.trust.value)) if turn.trust in _STRANGERS else heard
        if after:
            self._sessions[turn.session] = after
        while len(self._sessions) > _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return heard if turn.trust is Trust.AGENT else ""

    def carry(self) -> Record:
        """Return what must be known to go on after this turn."""
        return dict(self._sessions)


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
