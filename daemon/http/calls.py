"""Call: one operation over HTTP: parse the request, work in a thread, reply in one piece or line by line.

A client that accepts application/x-ndjson gets a line for each step; then `{"reply": …}` or `{"error": …}` is the
last line. An error before the first step is a plain reply with its status. A client that goes away stops nothing: the
dream that it asked for is dreamt.
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
from daemon.http.errors import ErrorResponse, error_response
from daemon.http.parsing import from_json, from_query
from state.codec import encode
from state.errors import StoppedError, UnknownWorkspaceError, UsageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from daemon.api.access import WorkspaceAccess
    from daemon.api.daemon import DaemonApi
    from daemon.api.operations.operation import AnyOperation
    from daemon.api.operations.request import Request as OperationRequest
    from daemon.api.workers import Workers
    from daemon.http.access_policy import AccessPolicy

# In a plain reply a notice is a header: percent-encoded UTF-8, and few enough for clients that limit headers.
NOTICE_HEADER = "Dreamd-Notice"
_READABLE = " !#$&'()*+,-./:;<=>?@[]^_`{|}~\""
_MOST_NOTICES = 10
_LONGEST_NOTICE = 300
# By which a client says that a request is one that it has sent before.
KEY_HEADER = "Idempotency-Key"
_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one operation on one workspace.

    `root` is where the workspace is, if the client may say so and does; `register`: keep it if it is not kept yet.
    """

    name: str
    root: Path | None
    operation: "AnyOperation"
    request: "OperationRequest"
    register: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """How a call result: its reply as JSON, or its error."""

    reply: bytes
    error: ErrorResponse | None
    notices: tuple[str, ...]


def perform(api: "DaemonApi", call: Call, on_step: Callable[[Step], None]) -> CallResult:
    """Run the operation. Raise nothing: an error is part of the result."""
    began = time.monotonic()
    access: WorkspaceAccess | None = None
    try:
        with ExitStack() as stack:
            access = _open(api, call, on_step, stack)
            reply = access.run(call.operation, call.request)
        result = CallResult(encode(reply).encode(), None, tuple(access.notices))
    except Exception as error:  # noqa: BLE001 - the top of a request: an unexpected error is logged as a defect
        result = CallResult(b"", error_response(error), tuple(access.notices) if access else ())
    code = result.error.code if result.error else "OK"
    api.metrics.answered(call.operation.name, code, time.monotonic() - began)
    return result


def _open(api: "DaemonApi", call: Call, on_step: Callable[[Step], None], stack: ExitStack) -> "WorkspaceAccess":
    """Open access to the workspace, which is registered if the daemon does not know it and the client asks for that.

    Raise UnknownWorkspaceError when the workspace of that name is not the one that is at the client's root.
    """
    try:
        access = stack.enter_context(api.open(call.name, on_step))
    except UnknownWorkspaceError:
        if call.root is None or not call.register:
            raise
        return stack.enter_context(api.open(api.register(call.root), on_step))
    if call.root is not None and call.root != access.workspace.root:
        raise UnknownWorkspaceError(
            f"the daemon keeps another workspace under the name {call.name!r}, and not {call.root}",
            "rename its folder",
        )
    return access


def parse_call(request: "Request", operation: "AnyOperation", policy: "AccessPolicy", body: bytes) -> Call:
    """Return the call that this request makes. Raise UsageError and FieldsError."""
    name = str(request.path_params["workspace"])
    root = _root(request.headers.getlist(ROOT_HEADER), name) if policy.is_local else None
    register = request.headers.get(ADOPT_HEADER) == "yes"
    if operation.method == "GET":
        arguments = from_query(operation.request, request.scope["query_string"])
    else:
        arguments = from_json(operation.request, body)
        if keys := request.headers.getlist(KEY_HEADER):
            arguments = arguments.keyed(_key(keys))
    return Call(name, root, operation, arguments, register)


def _key(headers: list[str]) -> str:
    """Return the key of a request. Raise UsageError for what is none."""
    key = headers[0].strip()
    if len(headers) > 1 or not 0 < len(key) <= _LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"{KEY_HEADER} is no key",
            f"send one of at most {_LONGEST_KEY} printable ASCII characters, such as a UUID",
        )
    return key


def _root(headers: list[str], name: str) -> Path | None:
    """Return the workspace's absolute root, if the client names it."""
    if not headers:
        return None
    from daemon.config.registry import name_of

    text = unquote_to_bytes(headers[0]).decode(errors="surrogateescape")
    if len(headers) > 1 or not text.startswith("/") or "\0" in text or name_of(Path(text)) != name:
        raise UsageError(f"{ROOT_HEADER} is not the absolute root of {name!r}", "send that one, percent-encoded")
    return Path(os.path.abspath(text))  # noqa: PTH100 - as its name is made


async def respond(call: Call, api: "DaemonApi", workers: "Workers", *, streaming: bool) -> "Response":
    """Return the reply, in one piece or line by line."""
    from starlette.responses import Response, StreamingResponse

    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Step | CallResult] = asyncio.Queue()

    def on_step(step: Step) -> None:
        with suppress(RuntimeError):  # the loop is closed: the daemon is at its end, the work is not
            loop.call_soon_threadsafe(events.put_nowait, step)

    task = workers.begin(call.name, lambda: perform(api, call, on_step), long=call.operation.takes_long(call.request))
    task.add_done_callback(lambda done: events.put_nowait(_result_of(done)))
    event = await events.get()
    while not streaming and isinstance(event, Step):
        event = await events.get()
    if isinstance(event, CallResult) and event.error is not None:
        return event.error.response(notice_headers(event.notices))
    if streaming:
        return StreamingResponse(_lines(event, events), media_type=NDJSON)
    assert isinstance(event, CallResult)
    answer = Response(event.reply, media_type="application/json")
    for name, value in notice_headers(event.notices):
        answer.headers.append(name, value)
    return answer


def _result_of(task: "asyncio.Task[CallResult]") -> CallResult:
    """Return the result of the task, also when no thread took it."""
    if task.cancelled():
        error: BaseException | None = StoppedError("the daemon is stopping", "try again when it runs")
    else:
        error = task.exception()
    if error is None:
        return task.result()
    return CallResult(b"", error_response(error if isinstance(error, Exception) else RuntimeError(str(error))), ())


async def _lines(event: Step | CallResult, events: "asyncio.Queue[Step | CallResult]") -> AsyncIterator[bytes]:
    while isinstance(event, Step):
        yield json.dumps({"step": {"node": event.node, "figures": event.figures}}).encode() + b"\n"
        event = await events.get()
    for line in last_lines(event):
        yield line


def last_lines(result: CallResult) -> Iterator[bytes]:
    """Return the notices, and the reply or the error."""
    for notice in result.notices:
        yield json.dumps({"notice": notice}).encode() + b"\n"
    if result.error is not None:
        yield b'{"error": ' + result.error.body + b"}\n"
    else:
        yield b'{"reply": ' + result.reply + b"}\n"


def notice_headers(notices: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return a header for each notice, so far as clients can be expected to take them; NDJSON has them all."""
    every = tuple(notices)
    shown = every if len(every) <= _MOST_NOTICES else (*every[: _MOST_NOTICES - 1], f"and {len(every)} in all")
    return tuple(
        (NOTICE_HEADER, quote(_shortened(" ".join(one.split())), _READABLE, errors="replace")) for one in shown
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_NOTICE else f"{text[: _LONGEST_NOTICE - 1]}…"


def wants_stream(accepts: Iterable[str]) -> bool:
    """Tell whether the Accept headers name application/x-ndjson, and not application/json before it."""
    kinds = [kind.partition(";")[0].strip().lower() for accept in accepts for kind in accept.split(",")]
    return next((kind == NDJSON for kind in kinds if kind in (NDJSON, "application/json")), False)
