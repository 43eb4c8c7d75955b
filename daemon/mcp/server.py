"""MCP server: tools and resources for an agent, from the table of operations; in the daemon or in `dreamd mcp`.

It uses the SDK's low-level server, because the operations bring their schemas, and every error must become a reply
of ours. Refused: the SDK's decorators (they would derive the schemas from signatures, a second table), and structured
content (clients pass it to the model beside the text, which says the same).
"""

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import tzinfo
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.request import Request
from daemon.api.workers import Workers
from daemon.dream.progress import Step
from daemon.mcp.tools import (
    RESOURCES,
    TOOLSETS,
    arguments_of,
    convert_arguments,
    input_schema,
    instructions,
    text_of,
)
from daemon.observability import logs
from daemon.observability.failures import debugging, failure
from state.agents import OTHER, agent_called
from state.codec import LONGEST_NAME, MOST_PROBLEMS
from state.errors import DreamdError, NotFoundError

if TYPE_CHECKING:
    from concurrent.futures import Future

# Called in a thread with a workspace's name, an operation, its request, and callbacks for steps and notices. Returns
# the reply with its owner's time zone, and raises what the operation raises.
CallOperation = Callable[
    [str, AnyOperation, Request, Callable[[Step], None], Callable[[str], None]], tuple[Any, tzinfo]
]
Context = ServerRequestContext[Any, Any]
# Runs an operation on the workspace of an MCP request in a worker's thread, and returns the reply as text.
Run = Callable[[AnyOperation, Request, Context, Callable[[Any, tzinfo, list[str]], str]], Awaitable[str]]

_log = logs.get()


def server(
    call: CallOperation,
    toolsets: Callable[[], Iterable[str]],
    workers: Workers,
    name_of: Callable[[Context], str] = lambda _: "",
) -> Server[Any]:
    """Return a server with the tools of the toolsets switched on now. `name_of`: returns a request's workspace."""

    async def run(
        operation: AnyOperation, request: Request, context: Context, shown: Callable[[Any, tzinfo, list[str]], str]
    ) -> str:
        """Return the reply as text. The call goes on even if the client cancels it, so that no dream is lost."""
        request, name, loop = _named(request, context), name_of(context), asyncio.get_running_loop()
        reports, notices = list["Future[None]"](), list[str]()

        def on_step(step: Step) -> None:
            report = context.session.report_progress(len(reports) + 1, None, f"{step.node}: {step.figures}")
            try:
                reports.append(asyncio.run_coroutine_threadsafe(report, loop))
            except RuntimeError:  # the server has ended, but the dream goes on
                report.close()

        def work() -> str:
            return shown(*call(name, operation, request, on_step, notices.append), notices)

        text = await workers.run(work, name, long=operation.takes_long(request))
        await asyncio.gather(*map(asyncio.wrap_future, reports), return_exceptions=True)
        return text

    return _served(run, lambda: {tool.name: tool for toolset in toolsets() for tool in TOOLSETS[toolset]}, toolsets)


def _served(
    run: Run, tools: Callable[[], dict[str, AnyOperation]], toolsets: Callable[[], Iterable[str]]
) -> Server[Any]:
    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in tools().values()])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = _tool_named(tools(), params.name)
            request = _request(tool, params.arguments or {})
            text, is_error = await run(tool, request, context, partial(text_of, tool)), False
        except Exception as error:  # noqa: BLE001 - every error becomes a reply to the agent
            text, is_error = json.dumps(_error(error), ensure_ascii=False), True
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        listed = [
            types.Resource(uri=uri, name=name, description=description, mime_type="text/markdown")
            for uri, (name, description, _) in RESOURCES.items()
        ]
        return types.ListResourcesResult(resources=listed)

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri not in RESOURCES:
            message = f"there is no resource {uri!r}; there are {', '.join(RESOURCES)}"
            raise MCPError(types.INVALID_PARAMS, message, {"code": NotFoundError.code, "uri": uri})
        _, _, operation = RESOURCES[uri]
        try:
            text = await run(operation, operation.bind(), context, lambda reply, *_: str(reply.text))
        except Exception as error:
            fields = _error(error)
            raise MCPError(types.INTERNAL_ERROR, fields["error"], {**fields, "uri": uri}) from error
        content = types.TextResourceContents(uri=uri, text=text, mime_type="text/markdown")
        return types.ReadResourceResult(contents=[content])

    return Server(
        "dreamd",
        version=version("dreamd"),
        instructions=instructions(tuple(toolsets())),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


@cache
def _listed(tool: AnyOperation) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.summary,
        input_schema=input_schema(tool),
        _meta={"anthropic/alwaysLoad": True} if tool.first else None,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=None if tool.reads else tool.erases,
            idempotent_hint=tool.reads,
            open_world_hint=False,
        ),
    )


def _tool_named(tools: Mapping[str, AnyOperation], name: str) -> AnyOperation:
    if name in tools:
        return tools[name]
    for toolset, others in TOOLSETS.items():
        if any(other.name == name for other in others):
            raise NotFoundError(f"{name} is of the toolset '{toolset}', which is off", "add it to mcp.toolsets")
    raise NotFoundError(f"there is no tool {name[:100]!r}", f"there are {', '.join(tools)}")


def _request(tool: AnyOperation, arguments: Mapping[str, Any]) -> Request:
    """Return the request for these arguments. Raise FieldsError naming the invalid ones."""
    known = arguments_of(tool)
    if unknown := [name[:LONGEST_NAME] for name in arguments if name not in known]:
        names = f"there are {', '.join(known)}" if known else "there are none"
        raise FieldsError(dict.fromkeys(unknown[:MOST_PROBLEMS], f"{tool.name} has no such argument; {names}"))
    return tool.request.of_json(json.dumps(convert_arguments(arguments, input_schema(tool))))


def _named(request: Request, context: Context) -> Request:
    """Return the request with the fields that an agent may not set: its name, by the handshake, and the receipt."""
    client = context.session.client_params
    name = client.client_info.name if client else getattr(context.request, "headers", {}).get("user-agent", "")
    ours = {"receipt": "MCP", "agent": agent_called(name) or ("" if "receipt" in request.given else OTHER)}
    return request.model_copy(update={key: value for key, value in ours.items() if key in request.given})


def _error(error: Exception) -> dict[str, Any]:
    """Return the error's fields for the agent; print a traceback only when debugging."""
    if debugging():
        traceback.print_exception(error)
    failed = failure(error)
    if failed.code == DreamdError.code:
        _log.error("mcp_call_failed", error=error)
    return failed.fields
