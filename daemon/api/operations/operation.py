"""What an operation is: a name, what it is asked, what it answers, and one function that every window calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict

from daemon.api.access import WorkspaceAccess


class Request(BaseModel):
    """What is asked: the fields are the arguments, their descriptions are what a caller reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def given(self) -> dict[str, Any]:
        """The arguments by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}


class Nothing(Request):
    """An operation without arguments."""


Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Operation(Generic[Asked, Answer]):
    """One thing that can be asked of a workspace.

    `path` is below /v1/workspaces/{workspace}; a GET takes the request's fields as its query, a POST as JSON.
    `reply` is a frozen dataclass; `state.codec` reads and writes it. An operation that is not `remote` is for the
    Unix socket alone: it names files of this machine. A `long` one may take minutes, as a dream does. A POST that
    `reads` may be asked again, as every GET: a search counts its hits, and no more.
    """

    name: str
    method: Literal["GET", "POST"]
    path: str
    summary: str
    request: type[Asked]
    reply: type[Answer]
    run: Callable[[WorkspaceAccess, Asked], Answer]
    remote: bool = True
    long: bool = False
    reads: bool = False

    @property
    def only_reads(self) -> bool:
        """Whether asking twice is asking once."""
        return self.reads or self.method == "GET"


AnyOperation = Operation[Any, Any]


def operation(
    name: str,
    path: str,
    *,
    method: Literal["GET", "POST"] = "POST",
    long: bool = False,
    reads: bool = False,
) -> Callable[[Callable[[WorkspaceAccess, Asked], Answer]], Operation[Asked, Answer]]:
    """Make an operation of the function below: its annotations say what is asked and answered, its docstring why."""

    def made(run: Callable[[WorkspaceAccess, Asked], Answer]) -> Operation[Asked, Answer]:
        asked, answer = (get_type_hints(run)[key] for key in ("asked", "return"))
        summary = " ".join((run.__doc__ or "").split())
        return Operation(name, method, path, summary, asked, answer, run, long=long, reads=reads)

    return made
