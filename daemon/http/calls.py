"""One operation over HTTP: read what is asked, work in a thread, answer in one piece or line by line.

Whoever accepts application/x-ndjson is told each step as it is done; then `{"reply": …}` or `{"error": …}` is the
last line. An error that comes before the first step is a plain answer with its status. A client that goes away stops
nothing: a dream that was asked for is dreamt.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from daemon.api.client import ADOPT_HEADER, NDJSON, ROOT_HEADER
from daemon.dream.progress import Step
from daemon.http.errors import ErrorResponse, wrong
from daemon.http.parsing import from_json, from_query
from state.codec import encode
from state.errors import StoppedError, UnknownWorkspaceError, UsageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from daemon.api.access import WorkspaceAccess
    from daemon.api.daemon import DaemonApi
    from daemon.api.operations import AnyOperation
    from daemon.api.operations import Request as Asked
    from daemon.api.workers import Workers
    from daemon.http.access_policy import AccessPolicy

# A notice is a header of a plain answer: percent-encoded UTF-8, and not too many for the clients that limit headers.
NOTICE_HEADER = "Dreamd-Notice"
_READABLE = " !#$&'()*+,-./:;<=>?@[]^_`{|}~\""
_MOST_NOTICES = 10
_LONGEST_NOTICE = 300


@dataclass(frozen=True, slots=True)
class Call:
    """One operation that was asked of one workspace.

    `root` is where it is, if the client may say so and does; `adopt`: it is to be taken up if it is not kept yet.
    """

    name: str
    root: Path | None
    operation: "AnyOperation"
    asked: "Asked"
    adopt: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended: its reply as JSON, or what went wrong."""

    reply: bytes
    wrong: ErrorResponse | None
    notices: tuple[str, ...]


def perform(house: "DaemonApi", call: Call, told: Callable[[Step], None]) -> Ended:
    """Do it, at a access of the house's. Raises nothing: the end of a call is a value."""
    began = time.monotonic()
    access: WorkspaceAccess | None = None
    try:
        with ExitStack() as stack:
            access = _desk(house, call, told, stack)
            reply = call.operation.run(access, call.asked)
        ended = Ended(encode(reply).encode(), None, tuple(access.notices))
    except Exception as error:  # noqa: BLE001 - the top of a request: what is no error of ours is logged as a defect
        ended = Ended(b"", wrong(error), tuple(access.notices) if access else ())
    code = ended.wrong.code if ended.wrong else "OK"
    house.metrics.answered(call.operation.name, code, time.monotonic() - began)
    return ended


def _desk(house: "DaemonApi", call: Call, told: Callable[[Step], None], stack: ExitStack) -> "WorkspaceAccess":
    """A access at the workspace, which is adopted when the house does not know it and the client asks for that.

    Raises UnknownWorkspaceError when the workspace of that name is not the one that is at the client's root.
    """
    try:
        access = stack.enter_context(house.open(call.name, told))
    except UnknownWorkspaceError:
        if call.root is None or not call.adopt:
            raise
        return stack.enter_context(house.open(house.register(call.root), told))
    if call.root not in (None, access.workspace.root):
        raise UnknownWorkspaceError(
            f"the daemon keeps another workspace under the name {call.name!r}, and not {call.root}",
            "rename its folder",
        )
    return access


def called(request: "Request", operation: "AnyOperation", door: "AccessPolicy", body: bytes) -> Call:
    """What this request asks for. Raises UsageError and FieldsError for what cannot be meant."""
    name = str(request.path_params["workspace"])
    root = _root(request.headers.getlist(ROOT_HEADER), name) if door.is_local else None
    adopt = request.headers.get(ADOPT_HEADER) == "yes"
    if operation.method == "GET":
        asked = from_query(operation.request, request.scope["query_string"])
    else:
        asked = from_json(operation.request, body)
    return Call(name, root, operation, asked, adopt)


def _root(said: list[str], name: str) -> Path | None:
    """The absolute root that the client means by this name."""
    if not said:
        return None
    from daemon.config.registry import name_of

    text = unquote_to_bytes(said[0]).decode(errors="surrogateescape")
    if len(said) > 1 or not text.startswith("/") or "\0" in text or name_of(Path(text)) != name:
        raise UsageError(f"{ROOT_HEADER} is not the absolute root of {name!r}", "send that one, percent-encoded")
    return Path(os.path.abspath(text))  # noqa: PTH100 - as its name is made


async def answered(call: Call, house: "DaemonApi", workers: "Workers", *, streaming: bool) -> "Response":
    """The answer, in one piece or line by line."""
    from starlette.responses import Response, StreamingResponse

    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Step | Ended] = asyncio.Queue()

    def told(step: Step) -> None:
        with suppress(RuntimeError):  # the loop is closed: the daemon is at its end, the work is not
            loop.call_soon_threadsafe(events.put_nowait, step)

    task = workers.begin(call.name, lambda: perform(house, call, told), long=call.operation.takes_long(call.asked))
    task.add_done_callback(lambda done: events.put_nowait(_ended(done)))
    event = await events.get()
    while not streaming and isinstance(event, Step):
        event = await events.get()
    if isinstance(event, Ended) and event.wrong is not None:
        return event.wrong.response(notice_headers(event.notices))
    if streaming:
        return StreamingResponse(_lines(event, events), media_type=NDJSON)
    assert isinstance(event, Ended)
    answer = Response(event.reply, media_type="application/json")
    for name, value in notice_headers(event.notices):
        answer.headers.append(name, value)
    return answer


def _ended(task: "asyncio.Task[Ended]") -> Ended:
    """How it ended, also when no thread took it."""
    if task.cancelled():
        error: BaseException | None = StoppedError("the daemon is stopping", "try again when it runs")
    else:
        error = task.exception()
    if error is None:
        return task.result()
    return Ended(b"", wrong(error if isinstance(error, Exception) else RuntimeError(str(error))), ())


async def _lines(event: Step | Ended, events: "asyncio.Queue[Step | Ended]") -> AsyncIterator[bytes]:
    while isinstance(event, Step):
        yield json.dumps({"step": {"node": event.node, "figures": event.figures}}).encode() + b"\n"
        event = await events.get()
    for line in last_lines(event):
        yield line


def last_lines(ended: Ended) -> Iterator[bytes]:
    """The notices, and the reply or the error."""
    for notice in ended.notices:
        yield json.dumps({"notice": notice}).encode() + b"\n"
    if ended.wrong is not None:
        yield b'{"error": ' + ended.wrong.body + b"}\n"
    else:
        yield b'{"reply": ' + ended.reply + b"}\n"


def notice_headers(notices: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """One header for each notice, so far as clients can be expected to take them; NDJSON has them all."""
    every = tuple(notices)
    shown = every if len(every) <= _MOST_NOTICES else (*every[: _MOST_NOTICES - 1], f"and {len(every)} in all")
    return tuple(
        (NOTICE_HEADER, quote(_shortened(" ".join(one.split())), _READABLE, errors="replace")) for one in shown
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_NOTICE else f"{text[: _LONGEST_NOTICE - 1]}…"


def wants_stream(accepts: Iterable[str]) -> bool:
    """Whether the Accept headers name application/x-ndjson, and not application/json before it."""
    kinds = [kind.partition(";")[0].strip().lower() for accept in accepts for kind in accept.split(",")]
    return next((kind == NDJSON for kind in kinds if kind in (NDJSON, "application/json")), False)
