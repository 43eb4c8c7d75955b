"""Sessions: those that were ever opened; and one of them live: what it has in mind, what leaves, what happened."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from daemon.api.operations import sessions
from daemon.api.operations.request import Request
from daemon.pages.page import Action, Ask, Done, Page, Replies, Undo
from daemon.pages.templates import short
from daemon.sessions.answers import Departure

# A memory has some 2 KB with what can be done with it, an event 200 bytes.
MEMORIES, LEAVING, LEFT, EVENTS = 15, 8, 5, 20


def _read_list(ask: Ask, query: Request) -> Replies:
    return {"session_list": ask(sessions.session_list, **query.given)}


PAGE = Page("sessions", "Sessions", _read_list, sessions.session_list.request, live=True)


class SessionQuery(Request):
    """Which session; from which memory on, and which events: those before this one."""

    session_id: str = Field(min_length=1, max_length=10_000)
    cursor: str = Field(default="", max_length=1_000)
    left: str = Field(default="", max_length=1_000)
    before: int | None = Field(default=None, ge=0, le=2**53)


def _read(ask: Ask, query: SessionQuery) -> Replies:
    return {
        "session_summary": ask(sessions.session_summary, session_id=query.session_id),
        "working_memory_stats": ask(sessions.stats, session_id=query.session_id),
        "working_memory_list": ask(
            sessions.list_memories,
            session_id=query.session_id,
            limit=MEMORIES,
            cursor=query.cursor,
            include_expired=True,
            include_promoted=True,
        ),
        "session_preview": ask(sessions.preview, session_id=query.session_id, limit=LEAVING),
        "session_archive": ask(sessions.session_archive, query.session_id, limit=LEFT, cursor=query.left),
        "session_events": ask(sessions.events, session_id=query.session_id, limit=EVENTS, cursor=query.before),
    }


def _view(_: Replies, __: SessionQuery, ___: datetime) -> Mapping[str, object]:
    return {"most_events": EVENTS}


class SessionForm(Request):
    """Which session."""

    session_id: str = Field(min_length=1, max_length=10_000)

    @property
    def query(self) -> Mapping[str, object]:
        """Of the page that shows it."""
        return {"session_id": self.session_id}

    @property
    def name(self) -> str:
        """What the ledger calls it."""
        return f"session {short(self.session_id, 60)}"


class MemoryForm(SessionForm):
    """What becomes of which memory of it."""

    memory_id: str = Field(min_length=1, max_length=1_000)
    verdict: Literal["promote", "forget", "restore"]


def _change(ask: Ask, form: MemoryForm) -> Done:
    """Promote, softly forget or restore a memory. The ledger gets its number: its id holds words of it."""
    of_memory = {"session_id": form.session_id, "memory_id": form.memory_id}
    numbers = [event.seq for event in ask(sessions.events, form.session_id, form.memory_id, limit=1).events]
    about = f"{form.verdict} memory {', '.join(map(str, numbers))} of {form.name}"
    undo = None
    if form.verdict == "promote":
        ask(sessions.promote, **of_memory)
        said = "It is a crystal now: a search finds it."
    elif form.verdict == "forget":
        ask(sessions.forget, session_id=form.session_id, instruction=f"id:{form.memory_id}", mode="soft")
        said = "It is hidden, and the first to leave."
        undo = Undo(
            "session", "change", {"session_id": form.session_id, "memory_id": form.memory_id, "verdict": "restore"}
        )
    else:
        done = ask(sessions.restore, **of_memory)
        said = _told(done.evicted) if done.restored else "There was no place for it: it left again."
    return Done(said, about, undo=undo, query=form.query)


def _told(evicted: tuple[Departure, ...]) -> str:
    left = f" {len(evicted)} had to leave for it: {evicted[0].reason}." if evicted else ""
    return f"It is in the session again.{left}"


def _sweep(ask: Ask, form: SessionForm) -> Done:
    done = ask(sessions.sweep, session_id=form.session_id)
    said = (
        f"Swept: {done.archived} left for the archive, {done.promoted} became crystals, {done.refused} were refused."
    )
    return Done(said, f"{form.name}: {done.archived} archived, {done.promoted} promoted", query=form.query)


def _close(ask: Ask, form: SessionForm) -> Done:
    done = ask(sessions.close, session_id=form.session_id)
    said = f"The session is closed: {done.archived} left for the archive, and the next dream takes in what mattered."
    return Done(said, f"{form.name}: {done.archived} archived", query=form.query)


SESSION = Page(
    "session",
    "Session",
    _read,
    SessionQuery,
    _view,
    actions=(
        Action("change", MemoryForm, _change),
        Action("sweep", SessionForm, _sweep),
        Action("close", SessionForm, _close),
    ),
    live=True,
    under="sessions",
)
