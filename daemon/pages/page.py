"""Page: a view of one workspace: what it asks, the fields of its address and forms, and what a person can do."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, tzinfo
from functools import cached_property
from typing import Annotated, ParamSpec, TypeVar

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.journal import ChangeName, undo_changes
from daemon.api.operations.operation import Operation
from daemon.api.operations.request import Request
from daemon.api.shapes import on_clock
from daemon.http.calls import from_query
from daemon.http.logins import Session
from daemon.observability import logs
from state.errors import DreamdError
from state.stores.database import tables
from state.text.words import counted

Beside = Mapping[str, object]
"""What a page's template is given beside the replies."""
P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")
RequestT = TypeVar("RequestT", bound=Request)

CSRF = "csrf"
UNDOES = "undoes"
"""The field of a form that takes back the person's last act."""
# A day, as a field of a form has it, of those that Python can reckon with.
Day = Annotated[date, Field(ge=date(1900, 1, 1), le=date(9998, 12, 31))]
Version = Annotated[int, Field(ge=1, le=10**9)]
Start = Annotated[int, Field(ge=0, le=10**9)]
Cursor = Annotated[str, Field(max_length=10_000)]


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks operations of one workspace, for one page or one act of a person at `now`; keeps the replies by name.

    Their moments are on the clock of this `zone`. `looked` is the version that the person saw when they last looked,
    `undo` what takes back the last thing that they did.
    """

    access: WorkspaceAccess
    now: datetime
    zone: tzinfo = UTC
    looked: int | None = None
    undo: "Undo | None" = None
    replies: dict[str, object] = field(default_factory=dict)

    def __call__(self, operation: Operation[P, ReplyT], *args: P.args, **kwargs: P.kwargs) -> ReplyT:
        """Return the operation's reply. Raise what it raises."""
        reply: ReplyT = on_clock(self.access.run(operation, operation.bind(*args, **kwargs)), self.zone)
        self.replies[operation.name] = reply
        return reply


@dataclass(frozen=True, slots=True)
class Undo:
    """An act that takes back `what` another one did: its name and the fields of its form; `page` is the other's."""

    act: str
    fields: Mapping[str, object]
    page: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an act: `said` to the person; for the ledger `about` what, without words of the memory.

    `version` is the one that it made, if any. `replies` are shown on the page beside its own. `again` puts back what
    was undone, and then `undo` is for the act before.
    """

    said: str
    about: str = ""
    version: int | None = None
    undo: Undo | None = None
    again: Undo | None = None
    replies: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Act:
    """What a person can do on a page: a function, whose parameters after `ask` are the fields of its form.

    A `long` one may take minutes. One that only looks (`reads`) leaves no row in the ledger.
    """

    run: Callable[..., Done]
    name: str
    long: bool = False
    reads: bool = False
    own_form: type[Request] | None = None

    @cached_property
    def form(self) -> type[Request]:
        """Return the fields of the act's form."""
        return self.own_form or form_of(self.run)


@dataclass(frozen=True)
class Page:
    """A view of one workspace, at /w/{workspace}/{name}, with the template of its name.

    The parameters of `read` after `ask` are the fields of the page's address. The template is given the replies to
    what `read` asks, by name, which are the page's `.json` too, and what it returns. `live`: the browser asks again
    when something changed. `under`: the page of the navigation that it belongs to, if it is none itself.
    """

    name: str
    title: str
    read: Callable[..., Beside]
    acts: tuple[Act, ...] = ()
    live: bool = False
    under: str = ""
    template: str = ""
    own_query: type[Request] | None = None

    @cached_property
    def query(self) -> type[Request]:
        """Return the fields of its address."""
        return self.own_query or form_of(self.read)

    @property
    def marked(self) -> str:
        """Return the page that the navigation marks."""
        return self.under or self.name

    def act(self, name: str) -> Act | None:
        """Return its act of this name."""
        return next((one for one in self.acts if one.name == name), None)


# ------------------------------------------------------------------------------------------------ forms


def form_of(function: Callable[..., object]) -> type[Request]:
    """Return the parameters after the first one as a model, as an operation's are."""
    return Operation(function.__name__, function).request


def request_of(model: type[RequestT], fields: Iterable[tuple[str, str]]) -> RequestT:
    """Return the request in a form; an empty field counts as not given. Raise FieldsError."""
    given = (
        (name, text.replace("\r\n", "\n")) for name, text in fields if name not in (CSRF, UNDOES) and text
    )  # browsers send CR LF
    return from_query(model, dict.fromkeys(given))


def start_of_day(day: date) -> datetime:
    """Return the midnight of a day, on the owner's clock."""
    return datetime.combine(day, time())


# ------------------------------------------------------------------------------------------------ acts


def carry_out(ask: Ask, page: str, act: Act, form: Request, session: Session) -> Done:
    """Carry it out, and tell the ledger how it ended. Raise what it raises."""
    done, outcome = Done(""), DreamdError.code
    try:
        done = act.run(ask, **form.given)
        outcome = "done"
    except DreamdError as error:
        outcome = error.code
        raise
    finally:
        if not act.reads:
            _tell(ask, f"{page}: {act.name}", session, done, outcome)
    return replace(done, undo=replace(done.undo, page=page)) if done.undo else done


def _tell(ask: Ask, act: str, session: Session, done: Done, outcome: str) -> None:
    """Tell the ledger. A failure to do so undoes nothing; it goes to the log."""
    author = f"owner, in the window ({session.name})"
    try:
        with ask.access.write() as store:
            # An agent names a session as it likes; a page from before a forgetting still has such a name.
            about = store.shown(done.about)
            row = tables.Act(at=ask.now, author=author, act=act, about=about, outcome=outcome, version=done.version)
            store.ledger.record_act(row)
    except (DreamdError, sqlite3.Error, OSError) as error:
        logs.get(workspace=ask.access.workspace.root.name).warning("act_unrecorded", act=act, error=error)


def undo_of(made: int | None, what: str = "") -> Undo | None:
    """Return what takes back a version that an act made; None without one."""
    return Undo("undo", {"made": (str(made),)}, what=what) if made else None


def _undo(ask: Ask, made: Annotated[tuple[ChangeName, ...], Field(min_length=1)]) -> Done:
    """Undo these versions, whatever came after them, unless their lines have changed since."""
    about = f"version {', '.join(made)}"
    done = ask(undo_changes, changes=made)
    if not done.undone:
        return Done("It was undone already, or its lines have changed since: nothing was changed.", about)
    kept = f" {counted(len(done.outdated), 'line')} had changed since, and stays." if done.outdated else ""
    return Done(f"Undone: all is as it was before.{kept}", about, done.version, undo_of(done.version, "the undo"))


UNDO = Act(_undo, "undo", long=True)
