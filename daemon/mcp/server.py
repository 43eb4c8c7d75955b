"""MCP server: an agent's tools and resources over the table of operations, here or in the daemon.

Made with the SDK's low-level server, because the operations bring their schemas, and because every error has to be a
reply of ours. Refused: the SDK's decorators (they would read the schemas from signatures, a second table), and
structured content (clients pass it to the model beside the text, which says the same).
"""

import asyncio
import json
import math
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from daemon.api.operations.operation import AnyOperation, FieldsError
from daemon.api.operations.request import Request
from daemon.api.workers import Workers
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.mcp.arguments import meant
from daemon.mcp.tools import (
    DESTROYING,
    FIRST,
    PAGES,
    TOOLSETS,
    Page,
    arguments_of,
    input_schema,
    instructions,
    text_of,
)
from daemon.observability import logs
from daemon.observability.failures import debugging, failure
from state.agents import OTHER, agent_called
from state.codec import LONGEST_NAME, MOST_PROBLEMS, problems_of
from state.errors import DreamdError, NotFoundError

# Runs an operation: its request, what to do at each step, and with each notice for a person. Called in a thread; it
# blocks until the reply is there, and raises what the operation raises.
CallOperation = Callable[[AnyOperation, Request, Callable[[Step], None], Callable[[str], None]], Any]

Context = ServerRequestContext[Any, Any]
Made = TypeVar("Made")

_log = logs.get()


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs operations on one workspace in the threads of the workers."""

    call: CallOperation
    workers: Workers
    workspace: str

    async def run(self, operation: AnyOperation, request: Request, work: Callable[[], Made]) -> Made:
        """Return the result of the work. A call that the client cancels goes on: a dream is not lost."""
        return await self.workers.run(work, self.workspace, long=operation.takes_long(request))


def server(call: CallOperation, config: Config, workers: Workers, workspace: str = "") -> Server[Any]:
    """Return a server whose tools are those of the toolsets that the configuration switches on.

    `workspace` is the name under which the workers limit its calls.
    """
    runner = _Runner(call, workers, workspace)
    toolsets = tuple(dict.fromkeys(config.mcp.toolsets))
    tools = {tool.name: tool for toolset in toolsets for tool in TOOLSETS[toolset]}
    pages = {page.uri: page for page in PAGES}
    listed = [_listed(tool) for tool in tools.values()]
    resources = [
        types.Resource(uri=one.uri, name=one.name, description=one.description, mime_type="text/markdown")
        for one in PAGES
    ]

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return await _call_tool(_tool_named(tools, params.name), params.arguments or {}, runner, context)
        except Exception as error:  # noqa: BLE001 - every error is the agent's reply, and the server goes on
            return types.CallToolResult(content=[_text(json.dumps(_error(error), ensure_ascii=False))], is_error=True)

    async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=resources)

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        page = pages.get(str(params.uri))
        if page is None:
            message = f"there is no resource {str(params.uri)!r}; there are {', '.join(pages)}"
            raise MCPError(types.INVALID_PARAMS, message, {"code": NotFoundError.code, "uri": str(params.uri)})
        try:
            text = await _read(page, runner, context)
        except Exception as error:
            fields = _error(error)
            raise MCPError(types.INTERNAL_ERROR, fields["error"], {**fields, "uri": page.uri}) from error
        content = types.TextResourceContents(uri=page.uri, text=text, mime_type="text/markdown")
        return types.ReadResourceResult(contents=[content])

    return Server(
        "dreamd",
        version=_version(),
        instructions=instructions(toolsets),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _listed(tool: AnyOperation) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.summary,
        input_schema=input_schema(tool),
        _meta={"anthropic/alwaysLoad": True} if tool.name in FIRST else None,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.only_reads,
            destructive_hint=None if tool.only_reads else tool.name in DESTROYING,
            idempotent_hint=tool.only_reads,
            open_world_hint=False,
        ),
    )


def _tool_named(tools: Mapping[str, AnyOperation], name: str) -> AnyOperation:
    tool = tools.get(name)
    if tool is not None:
        return tool
    for toolset, others in TOOLSETS.items():
        if any(other.name == name for other in others):
            raise NotFoundError(f"{name} is of the toolset '{toolset}', which is off", "add it to mcp.toolsets")
    raise NotFoundError(f"there is no tool {name[:100]!r}", f"there are {', '.join(tools)}")


async def _call_tool(
    tool: AnyOperation, arguments: Mapping[str, Any], runner: _Runner, context: Context
) -> types.CallToolResult:
    request = _named(_request(tool, arguments), context)
    steps, reported = anyio.create_memory_object_stream[Step](math.inf)
    loop = asyncio.get_running_loop()

    def on_step(step: Step) -> None:
        with suppress(RuntimeError):  # the server has ended; the dream goes on
            loop.call_soon_threadsafe(_offer, steps, step)

    def work() -> types.CallToolResult:
        notices: list[str] = []
        reply = runner.call(tool, request, on_step, notices.append)
        return types.CallToolResult(content=[_text(text_of(tool, reply, notices))])

    result: types.CallToolResult | Exception
    with steps, reported:
        async with anyio.create_task_group() as group:
            group.start_soon(_report, context, reported)
            try:
                result = await runner.run(tool, request, work)
            except Exception as error:  # noqa: BLE001 - it would rise as a group of one
                result = error
            steps.close()
    if isinstance(result, Exception):
        raise result
    return result


def _offer(steps: MemoryObjectSendStream[Step], step: Step) -> None:
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # nobody listens any more
        steps.send_nowait(step)


async def _report(context: Context, reported: MemoryObjectReceiveStream[Step]) -> None:
    done = 0
    async for step in reported:
        done += 1
        await context.session.report_progress(done, message=f"{step.node}: {step.figures}")


async def _read(page: Page, runner: _Runner, context: Context) -> str:
    request = _named(page.operation.bind(), context)

    def work() -> str:
        return str(runner.call(page.operation, request, lambda _: None, lambda _: None).text)

    return await runner.run(page.operation, request, work)


def _request(tool: AnyOperation, arguments: Mapping[str, Any]) -> Request:
    """Return the request that the arguments mean. Raise FieldsError naming the invalid ones."""
    known = arguments_of(tool)
    if unknown := [name[:LONGEST_NAME] for name in arguments if name not in known]:
        names = f"there are {', '.join(known)}" if known else "there are none"
        raise FieldsError(dict.fromkeys(unknown[:MOST_PROBLEMS], f"{tool.name} has no such argument; {names}"))
    try:
        return tool.request.model_validate_json(json.dumps(meant(arguments, input_schema(tool))), strict=True)
    except ValidationError as error:
        problems = {name or "arguments": problem for name, problem in reversed(problems_of(error))}
        raise FieldsError(problems) from None  # the error holds what was sent


def _named(request: Request, context: Context) -> Request:
    """Return the request with what is not the agent's to say: which one it is, by the handshake, and the window."""
    client = context.session.client_params
    name = client.client_info.name if client else getattr(context.request, "headers", {}).get("user-agent", "")
    ours = {"receipt": "MCP", "agent": agent_called(name) or ("" if "receipt" in request.given else OTHER)}
    return request.model_copy(update={key: value for key, value in ours.items() if key in request.given})


def _error(error: Exception) -> dict[str, Any]:
    """Return the error's fields for the agent. A traceback is printed only when debugging."""
    if debugging():
        traceback.print_exception(error)
    failed = failure(error)
    if failed.code == DreamdError.code:
        _log.error("mcp_call_failed", error=error)
    return {"error": failed.message, "code": failed.code, "details": failed.details}


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _version() -> str:
    try:
        return version("dreamd")
    except PackageNotFoundError:
        return ""
