"""Session: what an agent has in mind in one session, what leaves next, and what left."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.operations import sessions
from daemon.pages.page import Act, Ask, Cursor, Done, Page, Undo
from daemon.pages.templates import short
from daemon.pages.today import Beside

_MEMORIES, _LEAVING, _LEFT = 15, 8, 5
# Why a thing leaves, by the beginning of its reason.
_REASONS: Mapping[str, str] = {
    "capacity_exceeded": "no more room",
    "hard_limit": "no more room",
    "soft_limit": "little room left",
    "token_limit": "no more room",
    "expired": "its time is over",
    "ttl_exceeded": "its time is over",
}
Session = Annotated[str, Field(min_length=1, max_length=10_000)]
Memory = Annotated[str, Field(min_length=1, max_length=1_000)]


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
    known = (words for beginning, words in _REASONS.items() if reason.startswith(beginning))
    return next(known, reason.replace("_", " "))


def _change_memory(
    ask: Ask, session_id: Session, memory_id: Memory, verdict: Literal["promote", "forget", "restore"]
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
    return Done(said, about, undo=undo, query={"session_id": session_id})


def _sweep(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.sweep, session_id=session_id)
    said = f"Swept: {done.archived} to the archive, {done.promoted} remembered for good, {done.refused} refused."
    about = f"{_called(session_id)}: {done.archived} archived, {done.promoted} promoted"
    return Done(said, about, query={"session_id": session_id})


def _close(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.close, session_id=session_id)
    said = f"The session is closed: {done.archived} left for the archive, and the next dream takes in what mattered."
    return Done(said, f"{_called(session_id)}: {done.archived} archived", query={"session_id": session_id})


def _called(session_id: str) -> str:
    """Return what the ledger calls a session."""
    return f"session {short(session_id, 60)}"


_MINDING = (Act(_change_memory, "change"), Act(_sweep, "sweep"), Act(_close, "close"))
SESSION = Page("session", "Session", _session, acts=_MINDING, live=True, under="memory")
