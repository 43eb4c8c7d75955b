"""Replies: what dreamd answers, as frozen values. A field that this version does not know is left out."""

from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Note:
    """A note as durably written, without its secrets."""

    at: datetime
    importance: float
    text: str


@dataclass(frozen=True, slots=True)
class Wording:
    """What a line of MEMORY.md said before."""

    text: str
    at: datetime
    is_draft: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """A text that is near to a result, and was said after it."""

    id: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search. `score`: how likely it answers, in [0, 1]. `trust`: owner, agent, tool or web.

    `superseded_by`: the text that holds instead of it. `line`: the id of the line of MEMORY.md that says it, and
    `formerly` what that line said before.
    """

    id: str
    text: str
    score: float
    origin: str
    kind: str
    trust: str
    provenance: str
    age_days: float
    created_at: datetime
    importance: float
    context: str
    speaker: str
    session: str
    superseded_by: str = ""
    superseded_at: datetime | None = None
    line: str = ""
    formerly: tuple[Wording, ...] = ()
    later: Later | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The results of a search, best first. `good`: something answers the query well.

    `unlikely` and `over` count similar results that were left out, because they hardly answer and because they no
    longer hold. `questions`: what only asks the same.
    """

    query: str
    good: bool
    hits: tuple[Hit, ...]
    unlikely: int = 0
    over: int = 0
    questions: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What an agent reads at the start of a session: `text` has all of it, the other fields its parts."""

    text: str
    memory: str
    notes: tuple[str, ...]
    left_out: int
    truncated: bool
    everywhere: str = ""
    attention: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """MEMORY.md as it stands, without its secrets, and its last version."""

    text: str
    version: int
    read_at: datetime


@dataclass(frozen=True, slots=True)
class Written:
    """The change that wrote a line, by its name (12.3), its version, and why that was made."""

    name: str
    version: int
    at: datetime
    cause: str = ""
    reason: str = ""
    dream: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of MEMORY.md and where it comes from. `evidence` and `ending` are as /v1/openapi.json has them.

    `stands`: it is in MEMORY.md.
    """

    id: str
    section: str
    text: str
    trust: str = "owner"
    stands: bool = True
    writing: Written | None = None
    evidence: tuple[dict[str, Any], ...] = ()
    ending: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Lines:
    """At most five lines that match, those that still stand first."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A version that a dream wrote, or would write."""

    number: int
    id: str
    at: datetime
    before: str
    after: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a dream ended: its version, how many notes are left, and how many proposals wait for the owner."""

    dream: Version
    mode: str
    pending: int
    proposals: int = 0


@dataclass(frozen=True, slots=True)
class Dreamt:
    """How the dream ended; None if the daemon was only asked for it."""

    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class LastDream:
    """The last dream, and how it ended."""

    id: str
    at: datetime
    reason: str
    outcome: str
    detail: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Pending:
    """The notes that no dream has taken in yet."""

    notes: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs a person."""

    what: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """How a workspace is; `Client.call("dream_status")` has everything."""

    workspace: str
    at: datetime
    version: int
    characters: int
    last_dream: LastDream | None
    next_dream: str
    pending: Pending
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class SessionItem:
    """One item of a session's working memory."""

    id: str
    session_id: str
    content: str
    priority: str
    importance: float
    tags: tuple[str, ...]
    metadata: dict[str, str]
    token_count: int
    created_at: datetime
    expires_at: datetime | None
    state: str
    promoted_to_id: str | None = None


@dataclass(frozen=True, slots=True)
class Memorized:
    """An item as it was taken in. `stored`: it is in the set, and did not have to leave at once."""

    stored: bool
    memory: SessionItem
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Memories:
    """Items, and the cursor of the next page."""

    memories: tuple[SessionItem, ...]
    count: int
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The working memory as text for a prompt."""

    context: str
    token_count: int
    memory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LongTerm:
    """What an item became in the long-term memory."""

    id: str
    content: str
    crystal_id: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """What fits into a session, and what is left. None: its policy has no such limit."""

    policy: str
    items: int
    tokens: int
    max_items: int | None
    max_tokens: int | None
    utilisation: float
    status: str


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session, and how full it is."""

    session_id: str
    policy: str
    opened_at: datetime
    closed_at: datetime | None
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class SessionList:
    """Sessions, and the cursor of the next page."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


def decode(kind: Any, value: Any) -> Any:
    """Return JSON as this type, without the fields that the type does not have. Raise ValueError, TypeError."""
    if value is None or kind is Any:
        return value
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(
            **{one.name: decode(hints[one.name], value[one.name]) for one in fields(kind) if one.name in value}
        )
    if kind is datetime:
        return datetime.fromisoformat(value)
    if get_origin(kind) is tuple:
        return tuple(decode(get_args(kind)[0], one) for one in value)
    if NoneType in get_args(kind):
        return decode(next(one for one in get_args(kind) if one is not NoneType), value)
    return value
