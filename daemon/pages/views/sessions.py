"""Sessions: those that were ever opened; and one of them live: what it has in mind, what leaves, what happened."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from daemon.api.operations import sessions
from daemon.pages.forms import Cursor
from daemon.pages.page import Act, Ask, Done, Page, Shown, Undo
from daemon.pages.templates import short

_MEMORIES, _LEAVING, _LEFT, _EVENTS = 15, 8, 5, 20
Session = Annotated[str, Field(min_length=1, max_length=10_000)]
Memory = Annotated[str, Field(min_length=1, max_length=1_000)]


def _read_list(ask: Ask, cursor: Cursor = "", limit: Annotated[int, Field(ge=1, le=100)] = 50) -> Shown:
    return Shown({"session_list": ask(sessions.session_list, limit=limit, cursor=cursor)})


def _read(
    ask: Ask,
    session_id: Session,
    cursor: Cursor = "",
    left: Cursor = "",
    before: Annotated[int | None, Field(ge=0, le=2**53)] = None,
) -> Shown:
    """Read a session: from which memory on, from which that left, and the events before which."""
    happened = ask(sessions.events, session_id=session_id, limit=_EVENTS, cursor=before)
    replies = {
        "session_summary": ask(sessions.session_summary, session_id=session_id),
        "working_memory_stats": ask(sessions.stats, session_id=session_id),
        "working_memory_list": ask(
            sessions.list_memories,
            session_id=session_id,
            limit=_MEMORIES,
            cursor=cursor,
            include_expired=True,
            include_promoted=True,
        ),
        "session_preview": ask(sessions.preview, session_id=session_id, limit=_LEAVING),
        "session_archive": ask(sessions.session_archive, session_id, limit=_LEFT, cursor=left),
        "session_events": happened,
    }
    return Shown(replies, {"earlier": happened.events[-1].key if len(happened.events) == _EVENTS else None})


def _query(session_id: str) -> Mapping[str, object]:
    return {"session_id": session_id}


def _name(session_id: str) -> str:
    """Return what the ledger calls it."""
    return f"session {short(session_id, 60)}"


def _change(
    ask: Ask, session_id: Session, memory_id: Memory, verdict: Literal["promote", "forget", "restore"]
) -> Done:
    """Promote, softly forget or restore a memory. The ledger gets its number: its id holds words of it."""
    memory = {"session_id": session_id, "memory_id": memory_id}
    numbers = [event.seq for event in ask(sessions.events, session_id, memory_id, limit=1).events]
    about = f"{verdict} memory {', '.join(map(str, numbers))} of {_name(session_id)}"
    undo = None
    if verdict == "promote":
        ask(sessions.promote, **memory)
        said = "It is a crystal now: a search finds it."
    elif verdict == "forget":
        ask(sessions.forget, session_id=session_id, instruction=f"id:{memory_id}", mode="soft")
        said = "It is hidden, and the first to leave."
        undo = Undo("change", {**memory, "verdict": "restore"})
    else:
        done = ask(sessions.restore, **memory)
        gone = f" {len(done.evicted)} had to leave for it: {done.evicted[0].reason}." if done.evicted else ""
        said = f"It is in the session again.{gone}" if done.restored else "There was no place for it: it left again."
    return Done(said, about, undo=undo, query=_query(session_id))


def _sweep(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.sweep, session_id=session_id)
    said = (
        f"Swept: {done.archived} left for the archive, {done.promoted} became crystals, {done.refused} were refused."
    )
    about = f"{_name(session_id)}: {done.archived} archived, {done.promoted} promoted"
    return Done(said, about, query=_query(session_id))


def _close(ask: Ask, session_id: Session) -> Done:
    done = ask(sessions.close, session_id=session_id)
    said = f"The session is closed: {done.archived} left for the archive, and the next dream takes in what mattered."
    return Done(said, f"{_name(session_id)}: {done.archived} archived", query=_query(session_id))


PAGE = Page("sessions", "Sessions", _read_list, live=True)
SESSION = Page(
    "session",
    "Session",
    _read,
    acts=(Act(_change, "change"), Act(_sweep, "sweep"), Act(_close, "close")),
    live=True,
    under="sessions",
)
