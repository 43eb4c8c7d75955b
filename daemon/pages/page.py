"""Page and Act: what a view is made of, as values: which operations it asks, and what a person can do there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import ParamSpec, TypeVar

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Operation
from daemon.api.operations.request import Request
from daemon.pages.forms import form_of

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks operations of one workspace, for one page or one act of a person at `now`."""

    access: WorkspaceAccess
    now: datetime

    def __call__(self, operation: Operation[P, ReplyT], *args: P.args, **kwargs: P.kwargs) -> ReplyT:
        """Return the operation's reply. Raise what it raises."""
        return self.access.run(operation, operation.bind(*args, **kwargs))


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows: the replies, which are its `.json` by name, and what its template needs beside them."""

    replies: Mapping[str, object] = field(default_factory=dict)
    beside: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Undo:
    """An act that takes another one back: its name and the fields of its form; `page` is that of the other one."""

    act: str
    fields: Mapping[str, object]
    page: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an act: `said` to the person; for the ledger `about` what, without words of the memory.

    `version` is the one that it made, if any. Who comes from elsewhere sees the page for this `query`. `replies` are
    shown on the page beside its own.
    """

    said: str
    about: str = ""
    version: int | None = None
    undo: Undo | None = None
    query: Mapping[str, object] = field(default_factory=dict)
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
        """Its fields."""
        return self.own_form or form_of(self.run)


@dataclass(frozen=True)
class Page:
    """A view of one workspace, at /w/{workspace}/{name}, with the template of its name.

    The parameters of `read` after `ask` are the fields of the page's address. `live`: the browser asks again when
    something changed. `under`: the page of the navigation that it belongs to, if it is none itself.
    """

    name: str
    title: str
    read: Callable[..., Shown]
    acts: tuple[Act, ...] = ()
    live: bool = False
    under: str = ""
    template: str = ""
    own_query: type[Request] | None = None

    @cached_property
    def query(self) -> type[Request]:
        """The fields of its address."""
        return self.own_query or form_of(self.read)

    @property
    def marked(self) -> str:
        """The page that the navigation marks."""
        return self.under or self.name

    def act(self, name: str) -> Act | None:
        """Return its act of this name."""
        return next((one for one in self.acts if one.name == name), None)
