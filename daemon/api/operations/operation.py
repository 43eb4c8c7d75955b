"""Operation: one thing that can be asked of a workspace or of the daemon, described once, by a function.

Its parameters are the request, its annotation the reply, its docstring what callers read. The command line, HTTP with
its OpenAPI document, MCP's tools and the client for programs are all made from that.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.api.operations.request import Request

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")


class Arg:
    """What a parameter means, in a caller's words, and its bounds.

    `owner`: not for agents to set. `place`: on the command line it has no name, although it may be left out.
    """

    def __init__(self, about: str = "", *, owner: bool = False, place: bool = False, **bounds: object) -> None:
        """`bounds` are those of a field of pydantic's: ge, le, min_length, max_length, pattern, alias."""
        self.about, self.owner, self.place, self.bounds = about, owner, place, bounds


class FieldsError(UsageError):
    """Fields of a request are invalid: details.fields names each, and what is wrong with it."""

    http_status = 422

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" if name else problem for name, problem in fields.items()))
        self.details = {"fields": dict(fields)}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation: its type, and what its `Arg` says of it."""

    name: str
    kind: Any
    default: Any
    about: str
    owner: bool
    place: bool
    bounds: Mapping[str, Any]

    @property
    def required(self) -> bool:
        """Return whether a caller has to give it."""
        return self.default is inspect.Parameter.empty

    @property
    def type(self) -> Any:  # noqa: ANN401 - any type there is
        """Return its type without None, and without what pydantic is told beside it."""
        kinds = [kind for kind in get_args(self.kind) if kind is not NoneType]
        kind = kinds[0] if NoneType in get_args(self.kind) else self.kind
        return get_args(kind)[0] if get_origin(kind) is Annotated else kind


@dataclass(frozen=True)
class Operation(Generic[P, ReplyT]):
    """One thing that can be asked of a workspace (`run` takes a `WorkspaceAccess`) or of the daemon (a `DaemonCall`).

    The reply is a frozen dataclass; `state.codec` reads and writes it. An operation that is not `remote` names files
    of this machine and is for the Unix socket alone. A `long` one may take minutes, as a dream does. One that `reads`
    may be repeated, and asked by GET: a search counts its hits and changes nothing else. `agents`: the toolset in
    which it is a tool of MCP; without one it is none. `text` renders its reply for people and agents.
    """

    name: str
    run: Callable[Concatenate[Any, P], ReplyT]
    remote: bool = True
    long: bool = False
    reads: bool = False
    agents: str = ""
    text: Callable[[Any], str] | None = None

    @property
    def summary(self) -> str:
        """Return what it does, in one paragraph."""
        return " ".join((self.run.__doc__ or "").split())

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters, without the access."""
        _, *rest = inspect.signature(self.run).parameters.values()
        return tuple(_parameter(one.name, self._hints[one.name], one.default) for one in rest)

    @cached_property
    def reply(self) -> type[ReplyT]:
        """Return the type of its reply."""
        kind: type[ReplyT] = self._hints["return"]
        return kind

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.run, include_extras=True)

    @cached_property
    def request(self) -> "type[Request]":
        """Return the parameters as a model, which reads JSON and has a schema."""
        from pydantic import Field, create_model

        from daemon.api.operations.request import Request

        fields: dict[str, Any] = {
            one.name: (
                one.kind,
                Field(... if one.required else one.default, description=one.about or None, **one.bounds),
            )
            for one in self.parameters
        }
        title = "".join(word.capitalize() for word in self.name.split("_"))
        return create_model(f"{title}Request", __base__=Request, __module__=__name__, **fields)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> "Request":
        """Return the request that has these arguments. Raise FieldsError naming the invalid ones."""
        from pydantic import ValidationError

        from state.codec import problems_of

        names = (one.name for one in self.parameters)
        try:
            return self.request.model_validate({**dict(zip(names, args, strict=False)), **kwargs})
        except ValidationError as error:
            raise FieldsError(dict(problems_of(error))) from None  # the error holds the values

    def answer(self, access: object, request: "Request") -> ReplyT:
        """Return the reply to a request that is bound. Raise what the function raises."""
        answered: Callable[..., ReplyT] = self.run
        return answered(access, **request.given)

    def text_of(self, reply: ReplyT) -> str:
        """Return the reply as people and agents read it; JSON where nothing else is said."""
        if self.text is not None:
            return self.text(reply)
        from state.codec import plain

        return json.dumps(plain(reply), ensure_ascii=False, indent=2)

    def takes_long(self, request: "Request") -> bool:
        """Tell whether this call may take minutes; a dream that is only queued does not."""
        return self.long and bool(request.given.get("wait", True))


AnyOperation = Operation[..., Any]


def operation(
    name: str,
    *,
    remote: bool = True,
    long: bool = False,
    reads: bool = False,
    agents: str = "",
    text: Callable[[Any], str] | None = None,
) -> Callable[[Callable[Concatenate[Any, P], ReplyT]], Operation[P, ReplyT]]:
    """Make an operation of a function."""
    return lambda run: Operation(name, run, remote, long, reads, agents, text)


def _parameter(name: str, hint: Any, default: object) -> Parameter:  # noqa: ANN401 - any type there is
    said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    arg = next((one for one in said[1:] if isinstance(one, Arg)), Arg())
    rest = tuple(one for one in said[1:] if not isinstance(one, Arg))
    kind = Annotated[(said[0], *rest)] if rest else said[0]
    return Parameter(name, kind, default, arg.about, arg.owner, arg.place, arg.bounds)


def operations_in(names: Mapping[str, object]) -> tuple[AnyOperation, ...]:
    """Return the operations among the names of a module, in its order."""
    return tuple(one for one in names.values() if isinstance(one, Operation))
