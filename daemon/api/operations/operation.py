"""Operation: something a workspace or the daemon can be asked to do, described once, by a function.

Its parameters become the request, its return type the reply, its docstring the description for callers. The command
line, HTTP with its OpenAPI document, the MCP tools and the Python client are all generated from it.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
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

from daemon.api.shapes import on_clock
from state.errors import UsageError
from state.zone import instant

if TYPE_CHECKING:
    from daemon.api.operations.request import Request

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")


class Arg:
    """A parameter's description for callers, and its bounds.

    `owner`: agents cannot set it. `place`: on the command line it is positional, although it is optional.
    """

    def __init__(self, about: str = "", *, owner: bool = False, place: bool = False, **bounds: object) -> None:
        """Take `bounds` as pydantic's Field does: ge, le, min_length, max_length, pattern, alias."""
        self.about, self.owner, self.place, self.bounds = about, owner, place, bounds


class FieldsError(UsageError):
    """Fields of a request are invalid; details.fields has the problem of each."""

    http_status = 422

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" if name else problem for name, problem in fields.items()))
        self.details = {"fields": dict(fields)}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operation, with its type and the values of its `Arg`."""

    name: str
    kind: Any
    default: Any
    about: str
    owner: bool
    place: bool
    bounds: Mapping[str, Any]

    @property
    def required(self) -> bool:
        """Return whether the parameter has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def type(self) -> Any:  # noqa: ANN401 - any type there is
        """Return the type without None and without annotations for pydantic."""
        kinds = [kind for kind in get_args(self.kind) if kind is not NoneType]
        kind = kinds[0] if NoneType in get_args(self.kind) else self.kind
        return get_args(kind)[0] if get_origin(kind) is Annotated else kind


@dataclass(frozen=True)
class Operation(Generic[P, ReplyT]):
    """A request to a workspace (`run` takes a `WorkspaceAccess`) or to the daemon (`run` takes a `DaemonCall`).

    The reply is a frozen dataclass, which `state.codec` reads and writes. Unless `remote`, the operation names local
    files and is only for the Unix socket. `long`: it may take minutes, as a dream does. `reads`: it can be repeated,
    and called by GET; a search still counts its hits. `agents`: the MCP toolset that offers it as a tool; empty for
    none. `text` renders the reply for people and agents. `configured`: it runs with the settings of a local caller.

    For agents: `hint` is a sentence of the instructions, given with the tool; `first`: clients that load tools on
    search load this one at once; `item_fields`: which further fields of a session's items they get.

    For a fleet: `operator` shows how its machines are set up, and is for no tenant; `adds` makes a workspace larger;
    `names_files` in its reply. What `erases` cannot be undone, and no copy may still contain what it deleted.
    """

    name: str
    run: Callable[Concatenate[Any, P], ReplyT]
    remote: bool = True
    long: bool = False
    reads: bool = False
    agents: str = ""
    text: Callable[[Any], str] | None = None
    configured: bool = False
    hint: str = ""
    first: bool = False
    item_fields: str = "state"
    operator: bool = False
    adds: bool = False
    names_files: bool = False
    erases: bool = False

    @property
    def summary(self) -> str:
        """Return the function's docstring as one paragraph, without what it raises."""
        return " ".join((self.run.__doc__ or "").split()).partition(" Raise ")[0]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters without the first, the access."""
        _, *rest = inspect.signature(self.run).parameters.values()
        return tuple(_parameter(one.name, self._hints[one.name], one.default) for one in rest)

    @cached_property
    def reply(self) -> type[ReplyT]:
        """Return the type of the reply."""
        kind: type[ReplyT] = self._hints["return"]
        return kind

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.run, include_extras=True)

    @cached_property
    def request(self) -> "type[Request]":
        """Return the pydantic model of the parameters."""
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
        """Return a request with these arguments. Raise FieldsError naming the invalid ones."""
        names = (one.name for one in self.parameters)
        return self.request.of({**dict(zip(names, args, strict=False)), **kwargs})

    def answer(self, access: Any, request: "Request") -> ReplyT:  # noqa: ANN401 - see `Operation`
        """Return the reply to a request. Raise what the function raises."""
        answered: Callable[..., ReplyT] = self.run
        given = request.given
        # A moment without an offset is of the owner's clock, which only who has the workspace knows.
        moments = {name: one for name, one in given.items() if isinstance(one, datetime)}
        if moments:
            zone = access.config.zone
            given |= {name: instant(one, zone) for name, one in moments.items()}
        return answered(access, **given)

    def text_of(self, reply: ReplyT, zone: tzinfo) -> str:
        """Render the reply for people and agents, with times of this zone; as JSON if the operation has no `text`."""
        if self.text is not None:
            return self.text(on_clock(reply, zone))
        from state.codec import plain

        return json.dumps(plain(reply), ensure_ascii=False, indent=2)

    def takes_long(self, request: "Request") -> bool:
        """Return whether this call may take minutes; queueing a dream does not."""
        return self.long and bool(request.given.get("wait", True))


AnyOperation = Operation[..., Any]


def operation(
    name: str,
    **properties: Any,  # noqa: ANN401 - those of `Operation`
) -> Callable[[Callable[Concatenate[Any, P], ReplyT]], Operation[P, ReplyT]]:
    """Turn the decorated function into an operation with these properties."""
    return lambda run: Operation(name, run, **properties)


def _parameter(name: str, hint: Any, default: object) -> Parameter:  # noqa: ANN401 - any type there is
    said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    arg = next((one for one in said[1:] if isinstance(one, Arg)), Arg())
    rest = tuple(one for one in said[1:] if not isinstance(one, Arg))
    kind = Annotated[(said[0], *rest)] if rest else said[0]
    return Parameter(name, kind, default, arg.about, arg.owner, arg.place, arg.bounds)


def operations_in(names: Mapping[str, object]) -> tuple[AnyOperation, ...]:
    """Return the operations in a module's namespace, in order of definition."""
    return tuple(one for one in names.values() if isinstance(one, Operation))
