"""Session: the bounded working memory of one conversation, as a program holds it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from daemon.api import operations

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation

ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class Method(Generic[ReplyT]):
    """A method that is an operation on the session, with the parameters that follow its id."""

    operation: "Callable[[], Operation[..., ReplyT]]"

    def __get__(self, session: "Session", _: "type[Session]") -> Callable[..., ReplyT]:
        """Return what asks for it."""
        return partial(session.ask, self.operation(), session.id)


@dataclass(frozen=True)
class Session:
    """A session by its id; `Client.session` opens and closes one."""

    ask: Callable[..., Any] = field(repr=False)
    id: str

    open = Method(lambda: operations.sessions.open_)
    add = Method(lambda: operations.sessions.memorize)
    context = Method(lambda: operations.sessions.context)
    remember = Method(lambda: operations.sessions.remember)
    recall = Method(lambda: operations.sessions.recall)
    promote = Method(lambda: operations.sessions.promote)
    capacity = Method(lambda: operations.sessions.capacity)
    close = Method(lambda: operations.sessions.close)
