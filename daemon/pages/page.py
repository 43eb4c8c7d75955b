"""Page and Action: what a view is made of, as values: which operations it asks, and what a person can do there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Operation
from daemon.api.operations.request import Nothing, Request

P = ParamSpec("P")
QueryT = TypeVar("QueryT", bound=Request)
ReplyT = TypeVar("ReplyT")

Replies = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks operations of one workspace, for one page or one act of a person at `now`."""

    access: WorkspaceAccess
    now: datetime

    def __call__(self, operation: Operation[P, ReplyT], *args: P.args, **kwargs: P.kwargs) -> ReplyT:
        """Return the operation's reply. Raise what it raises."""
        return self.access.run(operation, operation.bind(*args, **kwargs))


@dataclass(frozen=True, slots=True)
class Undo:
    """An act that takes another one back: its page and name, and the fields of its form."""

    page: str
    action: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an act: in words for the person; for the ledger `about` what, without words of the memory.

    `version` is the one that it made, if any. Who comes from elsewhere sees the page for this `query`. `replies` are
    shown on the page beside its own.
    """

    said: str
    about: str = ""
    version: int | None = None
    undo: Undo | None = None
    query: Mapping[str, object] = field(default_factory=dict)
    replies: Replies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action(Generic[QueryT]):
    """What a person can do on a page: a form of these fields. A `long` one may take minutes.

    One that only looks (`reads`) leaves no row in the ledger.
    """

    name: str
    form: type[QueryT]
    run: Callable[[Ask, QueryT], Done]
    long: bool = False
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[QueryT]):
    """A view of one workspace, at /w/{workspace}/{name}, with the template of its name.

    `read` asks operations: its replies by name are the page's `.json`. `view` makes of them what the template wants
    beside them. `live`: the browser asks again when something changed. `under`: the page of the navigation that it
    belongs to, if it is none itself.
    """

    name: str
    title: str
    read: Callable[[Ask, QueryT], Replies]
    query: type[QueryT] = Nothing  # type: ignore[assignment]
    view: Callable[[Replies, QueryT, datetime], Mapping[str, object]] = lambda *_: {}
    actions: tuple[Action[Any], ...] = ()
    live: bool = False
    under: str = ""

    @property
    def shown(self) -> str:
        """The page that the navigation marks."""
        return self.under or self.name


AnyPage = Page[Any]
