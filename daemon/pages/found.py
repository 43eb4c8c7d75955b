"""Found: what a search finds, the list of every memory, one memory, and what an agent has in mind in a session."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from daemon.api.operations import sessions
from daemon.api.operations.crystals import crystal, crystals, supersede
from daemon.api.operations.request import Request
from daemon.api.operations.search import SearchHit, memory_search
from daemon.api.words import origin_words, trust_words
from daemon.pages.page import Act, Ask, Beside, Cursor, Day, Done, Page, Undo, start_of_day
from daemon.pages.templates import short
from state.crystals.crystal import Kind, Origin
from state.crystals.supersession import Cause
from state.stores.crystals.listing import Sort
from state.text.words import normalise
from state.trust import Trust

_FEW, _MOST, _STEP = 10, 50, 15
_LISTED = 30
# Why a result is there, by its signals.
_REASONS: Mapping[str, str] = {
    "cosine": "it says what was asked for",
    "near": "the words stand in or about it",
    "beside": "what was said around it says what was asked for",
    "session": "the words stand elsewhere in its conversation",
    "speaker": "who was named said it",
    "period": "it is of the time that was asked for",
    "instruction": "it tells your agent what to do whenever something is asked",
    "reply": "an agent's reply is no answer to what a person said: it counts less",
}
_VOICES: Mapping[str, str] = {one: trust_words(one) for one in Trust}
_ORIGINS: Mapping[str, str] = {one: origin_words(one) for one in Origin}
_FINDERS: Mapping[str, str] = {
    Cause.DREAM: "a dream",
    Cause.SESSION: "what was said in a conversation",
    Cause.NOTE: "a note",
    Cause.OWNER: "you",
}
_WORDS = {"voices": _VOICES, "origins": _ORIGINS, "finders": _FINDERS}
_KINDS: Mapping[str, str] = {one: one.replace("_", " ") for one in Kind}
_SORTS: Mapping[str, str] = {
    Sort.CREATED_AT: "the latest",
    Sort.IMPORTANCE: "the most important",
    Sort.ACCESSES: "the most used",
    Sort.FADES_AT: "what fades last",
}
Named = Annotated[str | None, Field(max_length=1_000)]


class Chosen(Request):
    """What a search asks, or without a question which memories are listed."""

    query: str = Field(default="", max_length=2_000)
    limit: int = Field(default=_FEW, ge=1, le=_MOST)
    origin: Origin | None = None
    kind: Kind | None = None
    trust: Trust | None = None
    session: Named = None
    speaker: Named = None
    since: Day | None = None
    until: Day | None = None
    as_of: Day | None = None
    all: bool = Field(default=False, description="With a question leave nothing out, without one list every memory")
    archived: bool = False
    sort: Sort = Sort.CREATED_AT
    cursor: Cursor = ""

    @property
    def among(self) -> dict[str, Any]:
        """Return the filters of memories."""
        named = {"origin": self.origin, "kind": self.kind, "trust": self.trust}
        days = {"since": self.since, "until": self.until}
        times = {name: start_of_day(day) if day else None for name, day in days.items()}
        return {**named, "session": self.session, "speaker": self.speaker, **times}

    @property
    def is_filtered(self) -> bool:
        """Return whether only some memories are meant."""
        return self.archived or any(one is not None for one in self.among.values())

    @property
    def is_asked(self) -> bool:
        """Return whether memories are wanted, and not the file."""
        return bool(self.query.strip() or self.all or self.cursor or self.is_filtered)


def found(ask: Ask, chosen: Chosen) -> Beside:
    """Search, or without a question list the memories; what stands in MEMORY.md comes first."""
    choices = {"origin": _ORIGINS, "kind": _KINDS, "trust": _VOICES, "sort": _SORTS}
    is_filtered = chosen.is_filtered or chosen.as_of is not None
    beside = {**_WORDS, "reasons": _REASONS, "choices": choices, "filtered": is_filtered, "reply": None}
    if not chosen.query.strip():
        listed = ask(crystals, **chosen.among, sort=chosen.sort, limit=_LISTED, cursor=chosen.cursor)
        return beside | {"listed": listed}
    known = start_of_day(chosen.as_of + timedelta(days=1)) if chosen.as_of else None
    more: dict[str, Any] = {"all": chosen.all, "archived": chosen.archived, "explain": True, "look": True}
    reply = ask(memory_search, chosen.query, chosen.limit, **chosen.among, as_of=known, **more)
    standing, others = _apart(reply.hits)
    next_limit = min(_MOST, chosen.limit + _STEP) if chosen.limit <= len(reply.hits) < _MOST else None
    return beside | {"reply": reply, "standing": standing, "others": others, "more": next_limit}


def _apart(hits: Iterable[SearchHit]) -> tuple[list[SearchHit], list[SearchHit]]:
    """Return the lines of MEMORY.md among the hits, each once, and the other hits that say something else."""
    standing, others = dict[str, SearchHit](), list[SearchHit]()
    for one in hits:
        if one.line:
            standing.setdefault(one.line, one)
        else:
            others.append(one)
    said = {normalise(one.text) for one in standing.values()}
    return list(standing.values()), [one for one in others if normalise(one.text) not in said]


def _crystal(ask: Ask, id: Annotated[str, Field(min_length=8, max_length=32, pattern="^[0-9a-f]+$")]) -> Beside:
    found = ask(crystal, id=id)
    others = (*found.superseded_by, *found.supersedes)
    holding = {other.crystal.id for other in others if other.undone_at is None}
    undone = {other.crystal.id: other.crystal for other in others if other.crystal.id not in holding}
    return {
        **_WORDS,
        "found": found,
        "one": found.crystal,
        "values": [  # without those that the owner took back
            (title, is_newer, [other for other in each if other.undone_at is None])
            for title, is_newer, each in (
                ("What holds now in its place", True, found.superseded_by),
                ("What it took the place of", False, found.supersedes),
            )
        ],
        "undone": list(undone.values()),
    }


Which = Annotated[str, Field(min_length=1, max_length=10_000)]


def _supersede(ask: Ask, older: Which, newer: Which, undo: Literal["true", "false"] = "false") -> Done:
    """Say which of two memories holds now; with `undo` that both do."""
    done = ask(supersede, older, newer, undo == "true")
    pair = {"older": older, "newer": newer}
    # What an owner names by its words stays out of the ledger.
    names = [one[:12] if set(one) <= set("0123456789abcdef") else "one named by its words" for one in pair.values()]
    if undo == "true":
        return Done("Both hold.", f"both hold: {' and '.join(names)}", undo=Undo("supersede", pair))
    back = {"older": newer, "newer": older} if done.turned else {**pair, "undo": "true"}
    said = "Only the later one holds now. The next dream sees to the lines that rest on the other."
    return Done(said, f"superseded: {' by '.join(names)}", undo=Undo("supersede", back))


CRYSTAL = Page("crystal", "A memory", _crystal, acts=(Act(_supersede, "supersede"),), under="memory")


# ------------------------------------------------------------------------------------------------ a session

_MEMORIES, _LEAVING, _LEFT = 15, 8, 5
# Why a thing leaves, by the beginning of its reason.
_LEFT_FOR: Mapping[str, str] = {
    "capacity_exceeded": "no more room",
    "hard_limit": "no more room",
    "soft_limit": "little room left",
    "token_limit": "no more room",
    "expired": "its time is over",
    "ttl_exceeded": "its time is over",
}
Session = Annotated[str, Field(min_length=1, max_length=10_000)]
Thing = Annotated[str, Field(min_length=1, max_length=1_000)]


def _session(ask: Ask, session_id: Session, cursor: Cursor = "", left: Cursor = "") -> Beside:
    """Read a session: from which memory on, and from which that left."""
    of = {"session_id": session_id}
    ask(sessions.session_summary, **of)
    ask(sessions.stats, **of)
    every = {"include_expired": True, "include_promoted": True}
    ask(sessions.list_memories, **of, limit=_MEMORIES, cursor=cursor, **every)
    ask(sessions.preview, **of, limit=_LEAVING)
    ask(sessions.session_archive, **of, limit=_LEFT, cursor=left)
    return {"why": _reason}


def _reason(reason: str) -> str:
    """Return a reason in words."""
    known = (words for beginning, words in _LEFT_FOR.items() if reason.startswith(beginning))
    return next(known, reason.replace("_", " "))


def _change_memory(
    ask: Ask, session_id: Session, memory_id: Thing, verdict: Literal["promote", "forget", "restore"]
) -> Done:
    """Promote, softly forget or restore a memory. The ledger gets its number: its id holds words of it."""
    memory = {"session_id": session_id, "memory_id": memory_id}
    numbers = [event.seq for event in ask(sessions.events, **memory, limit=1).events]
    about = f"{verdict} memory {', '.join(map(str, numbers))} of {_called(session_id)}"
    undo = None
    if verdict == "promote":
        ask(sessions.promote, **memory)
        said = "It is remembered for good: a search finds it."
    elif verdict == "forget":
        ask(sessions.forget, session_id=session_id, instruction=f"id:{memory_id}", mode="soft")
        said = "It is hidden, and the first to leave."
        undo = Undo("change", {**memory, "verdict": "restore"})
    else:
        done = ask(sessions.restore, **memory)
        gone = f" {len(done.evicted)} had to leave for it: {done.evicted[0].reason}." if done.evicted else ""
        said = f"It is in the session again.{gone}" if done.restored else "There was no place for it: it left again."
    return Done(said, about, undo=undo)


def _sweep(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.sweep, session_id=session_id)
    said = f"Swept: {done.archived} to the archive, {done.promoted} remembered for good, {done.refused} refused."
    return Done(said, f"{_called(session_id)}: {done.archived} archived, {done.promoted} promoted")


def _close(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.close, session_id=session_id)
    said = f"The session is closed: {done.archived} left for the archive, and the next dream takes in what mattered."
    return Done(said, f"{_called(session_id)}: {done.archived} archived")


def _called(session_id: str) -> str:
    """Return what the ledger calls a session."""
    return f"session {short(session_id, 60)}"


_MINDING = (Act(_change_memory, "change"), Act(_sweep, "sweep"), Act(_close, "close"))
SESSION = Page("session", "Session", _session, acts=_MINDING, live=True, under="memory")
