"""Operation: one thing that can be asked of a workspace, as the command line, HTTP and MCP all call it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, PrivateAttr

from daemon.api.access import WorkspaceAccess
from state.errors import UsageError


class Request(BaseModel):
    """The arguments of an operation, one a field; the fields' descriptions are what a caller reads."""

    # Infinity, where JSON may hold anything, is not to arrive as null.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")
    _idempotency_key: str = PrivateAttr(default="")

    @property
    def idempotency_key(self) -> str:
        """By which its sender calls it, so that it is known when it is sent again; empty when it has no name."""
        return self._idempotency_key

    def keyed(self, key: str) -> Self:
        """Return the same request under this key."""
        named = self.model_copy()
        named._idempotency_key = key  # noqa: SLF001 - of its own class
        return named

    @property
    def given(self) -> dict[str, Any]:
        """The arguments by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}


class Nothing(Request):
    """An operation without arguments."""


RequestT = TypeVar("RequestT", bound=Request)
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class Operation(Generic[RequestT, ReplyT]):
    """One thing that can be asked of a workspace.

    `path` is below /v1/workspaces/{workspace}; a GET takes the request's fields as its query, a POST as JSON.
    `reply` is a frozen dataclass; `state.codec` reads and writes it. An operation that is not `remote` names files of
    this machine and is for the Unix socket alone. A `long` one may take minutes, as a dream does. A POST that `reads`
    may be repeated like a GET: a search counts its hits and changes nothing else.
    """

    name: str
    method: Literal["GET", "POST"]
    path: str
    summary: str
    request: type[RequestT]
    reply: type[ReplyT]
    run: Callable[[WorkspaceAccess, RequestT], ReplyT]
    remote: bool = True
    long: bool = False
    reads: bool = False

    @property
    def only_reads(self) -> bool:
        """Whether doing it twice leaves the same as doing it once."""
        return self.reads or self.method == "GET"

    def takes_long(self, request: RequestT) -> bool:
        """Tell whether this call may take minutes; a dream that is only queued does not."""
        return self.long and getattr(request, "wait", True)


AnyOperation = Operation[Any, Any]


class FieldsError(UsageError):
    """Fields of a request are invalid: details.fields names each, and what is wrong with it."""

    http_status = 422

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" if name else problem for name, problem in fields.items()))
        self.details = {"fields": dict(fields)}


def operation(
    name: str,
    path: str,
    *,
    method: Literal["GET", "POST"] = "POST",
    remote: bool = True,
    long: bool = False,
    reads: bool = False,
) -> Callable[[Callable[[WorkspaceAccess, RequestT], ReplyT]], Operation[RequestT, ReplyT]]:
    """Make an operation of a function: its annotations are the request and the reply, its docstring the summary."""

    def decorate(run: Callable[[WorkspaceAccess, RequestT], ReplyT]) -> Operation[RequestT, ReplyT]:
        _, request, reply = get_type_hints(run).values()
        summary = " ".join((run.__doc__ or "").split())
        return Operation(name, method, path, summary, request, reply, run, remote=remote, long=long, reads=reads)

    return decorate


def operations_in(names: Mapping[str, object]) -> tuple[AnyOperation, ...]:
    """Return the operations among the names of a module, in its order."""
    return tuple(one for one in names.values() if isinstance(one, Operation))
