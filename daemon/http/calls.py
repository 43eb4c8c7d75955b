"""Call: one operation over HTTP: parse the request, run it in a thread, reply in one piece or line by line.

The reply is JSON, or the text that people and agents read (`Accept: text/plain`, or `?as=text`). A client that
accepts application/x-ndjson gets a line for each step and notice, and a last line with `{"reply": …}` or
`{"error": …}`; an error before the first step is a plain reply with its status. A client that disconnects stops
nothing: its dream goes on.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from daemon.api.daemon import DaemonApi, DaemonCall
from daemon.api.headers import NDJSON, NOTICES_HEADER, SETTINGS_HEADER
from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.request import Request as OperationRequest
from daemon.api.operations.request import RequestT
from daemon.config.per_dream import DreamSettings
from daemon.dream.progress import Step
from daemon.http.errors import HttpError, http_error
from state.codec import LONGEST_NAME, encode
from state.errors import StoppedError, UsageError

if TYPE_CHECKING:
    from daemon.api.workers import Workers

_MOST_NOTICES, _LONGEST_NOTICE = 10, 300
# Header by which a client marks repetitions of one request.
KEY_HEADER = "Idempotency-Key"
_LONGEST_KEY = 200
FORMS = ("json", "text")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one operation on the workspace of this name, or on the daemon itself (`of_daemon`).

    `settings`: of its dream, from a local client. `as_text`: reply with the text that people read. `streaming`:
    report each step.
    """

    name: str
    operation: AnyOperation
    request: OperationRequest
    settings: DreamSettings | None = None
    of_daemon: DaemonCall | None = None
    as_text: bool = False
    streaming: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call: its reply as JSON or text, or its error."""

    reply: bytes
    error: HttpError | None
    notices: tuple[str, ...]


def perform(api: DaemonApi, call: Call, on_step: Callable[[Step], None]) -> CallResult:
    """Run the operation. Never raise: an error is part of the result."""
    began = time.monotonic()
    notices: Sequence[str] = ()
    reply, error, config = b"", None, api.config
    try:
        with ExitStack() as stack:
            if call.of_daemon is not None:
                value = call.operation.answer(call.of_daemon, call.request)
            else:
                access = stack.enter_context(api.open(call.name, on_step))
                notices, config = access.notices, access.config
                if call.settings is not None:
                    access.take(call.settings)
                value = access.run(call.operation, call.request)
        reply = (call.operation.text_of(value, config.zone) if call.as_text else encode(value)).encode()
    except Exception as failed:  # noqa: BLE001 - the top of a request: an unexpected error is logged as a defect
        error = http_error(failed)
    api.metrics.answered(call.operation.name, error.code if error else "OK", time.monotonic() - began)
    return CallResult(reply, error, tuple(notices))


def parse_call(
    request: Request, operation: AnyOperation, body: bytes, of_daemon: DaemonCall, *, is_local: bool
) -> Call:
    """Parse a request into a call. Raise UsageError and FieldsError."""
    name, headers = str(request.path_params.get("workspace", "")), request.headers
    query = fields_of(request.scope["query_string"])
    as_text, streaming = _form([value for field, value in query if field == "as"], headers.getlist("accept"))
    if request.method == "POST":
        arguments = operation.request.of_json(body)
        if keys := headers.getlist(KEY_HEADER):
            arguments = arguments.keyed(_key(keys))
    else:
        arguments = from_query(operation.request, [one for one in query if one[0] != "as"])
    given = headers.get(SETTINGS_HEADER) if is_local and operation.configured else None
    settings = DreamSettings.parse(given) if given is not None else None
    itself = None if name else of_daemon
    return Call(name, operation, arguments, settings, itself, as_text, streaming)


def _form(asked: list[str], accepts: list[str]) -> tuple[bool, bool]:
    """Return whether the client wants text, and a stream of steps; the first known media type in Accept decides."""
    kinds = [kind.partition(";")[0].strip().lower() for accept in accepts for kind in accept.split(",")]
    accepted = next((kind for kind in kinds if kind in (NDJSON, "application/json", "text/plain")), "")
    if len(asked) > 1 or not {*asked} <= {*FORMS}:
        raise FieldsError({"as": f"say {' or '.join(FORMS)}"})
    return asked == ["text"] if asked else accepted == "text/plain", accepted == NDJSON


def _key(headers: list[str]) -> str:
    key = headers[0].strip()
    if len(headers) > 1 or not 0 < len(key) <= _LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"{KEY_HEADER} is no key",
            f"send one of at most {_LONGEST_KEY} printable ASCII characters, such as a UUID",
        )
    return key


async def respond(call: Call, api: DaemonApi, workers: "Workers") -> Response:
    """Run the call and return its reply, in one piece or line by line."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[Step | CallResult] = asyncio.Queue()

    def on_step(step: Step) -> None:
        with suppress(RuntimeError):  # the loop is closed because the daemon ends, though the work goes on
            loop.call_soon_threadsafe(events.put_nowait, step)

    def ended(task: "asyncio.Task[CallResult]") -> None:
        if task.cancelled() or task.exception() is not None:  # it never got a thread
            error = StoppedError("the daemon is stopping", "try again when it runs")
            events.put_nowait(CallResult(b"", http_error(error), ()))
        else:
            events.put_nowait(task.result())

    task = workers.begin(call.name, lambda: perform(api, call, on_step), long=call.operation.takes_long(call.request))
    task.add_done_callback(ended)
    event = await events.get()
    while not call.streaming and isinstance(event, Step):
        event = await events.get()
    if isinstance(event, CallResult) and event.error is not None:
        return event.error.response(notices_header(event.notices))
    if isinstance(event, Step) or call.streaming:
        return StreamingResponse(_lines(event, events, as_text=call.as_text), media_type=NDJSON)
    kind = "text/plain" if call.as_text else "application/json"
    return Response(event.reply, headers=notices_header(event.notices), media_type=kind)


async def _lines(
    event: Step | CallResult, events: "asyncio.Queue[Step | CallResult]", *, as_text: bool
) -> AsyncIterator[bytes]:
    """Yield a line for each step and notice, then one for the reply or the error."""
    while isinstance(event, Step):
        yield json.dumps({"step": {"node": event.node, "figures": event.figures}}).encode() + b"\n"
        event = await events.get()
    for notice in event.notices:
        yield json.dumps({"notice": notice}).encode() + b"\n"
    if event.error is not None:
        yield b'{"error": ' + event.error.body + b"}\n"
    else:
        reply = json.dumps(event.reply.decode()).encode() if as_text else event.reply
        yield b'{"reply": ' + reply + b"}\n"


def notices_header(notices: Sequence[str]) -> dict[str, str]:
    """Return a header with these notices, cut to a length that clients accept; NDJSON has them all."""
    lines = [" ".join(one.split()) for one in notices[:_MOST_NOTICES]]
    shown = [one if len(one) <= _LONGEST_NOTICE else f"{one[: _LONGEST_NOTICE - 1]}…" for one in lines]
    if len(notices) > _MOST_NOTICES:
        shown[-1] = f"and {len(notices)} in all"
    return {NOTICES_HEADER: json.dumps(shown)} if shown else {}


# ------------------------------------------------------------------------------------------------ fields


def fields_of(encoded: bytes, most: int = 100) -> list[tuple[str, str]]:
    """Parse a query or a form into its fields, in order. Raise UsageError."""
    try:
        return parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError as error:  # or its subclass UnicodeDecodeError
        raise UsageError(f"the fields are not percent-encoded UTF-8, or more than {most}") from error


def from_query(model: type[RequestT], fields: Iterable[tuple[str, str]]) -> RequestT:
    """Parse a query into a request; a repeated field makes a list. Raise FieldsError naming the invalid fields."""
    several = {name for name, field in model.model_fields.items() if _is_list(field.annotation)}
    values: dict[str, Any] = {}
    for name, value in fields:
        if name in several:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise FieldsError({name[:LONGEST_NAME]: "give it once"})
        else:
            values[name] = value
    return model.of(values)


def _is_list(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    return get_origin(kind) in (tuple, list) or any(map(_is_list, get_args(kind)))
