"""Stream: MCP at the daemon's second Unix socket: an agent's stdio, which `dreamd mcp` passes on.

The first line names the root of a workspace, and is answered with `{"served": true}` or with an error. All that
follows is MCP, a message a line, read and written by the SDK, which is imported for the first agent.
"""

import asyncio
import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from daemon.api.daemon import DaemonApi
from daemon.api.workers import Workers
from daemon.config.registry import name_of
from daemon.mcp.pump import MAX_MESSAGE_BYTES
from daemon.observability import logs
from state.errors import DreamdError, UnknownWorkspaceError, UsageError

if TYPE_CHECKING:
    from anyio import AsyncFile
    from mcp.server import Server, ServerRequestContext
    from mcp.server.context import CallNext, HandlerResult

_FIRST_LINE_SECONDS = 10.0
_LOOK_SECONDS = 0.05


@dataclass(eq=False, slots=True)
class Stream:
    """One agent's connection, with the calls of it that are being answered."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    calls: int = 0

    async def write(self, text: str) -> None:
        """Write a message, as the SDK has it."""
        self.writer.write(text.encode())

    async def flush(self) -> None:
        """Send what was written. An agent that has gone is noticed by its reader."""
        with suppress(ConnectionError):
            await self.writer.drain()

    async def serve(self, server: "Server[Any]") -> None:
        """Let this server answer until the agent sends no more."""
        from mcp.server.stdio import stdio_server

        async def counting(ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext") -> "HandlerResult":
            self.calls += 1
            try:
                return await call_next(ctx)
            finally:
                self.calls -= 1

        server.middleware.append(counting)
        lines, out = cast("AsyncFile[str]", self.reader), cast("AsyncFile[str]", self)
        async with stdio_server(lines, out) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


async def connected(end: socket.socket, server: "Server[Any]") -> None:
    """Serve MCP at this end of a connection in this process."""
    await Stream(*await asyncio.open_unix_connection(sock=end, limit=2 * MAX_MESSAGE_BYTES)).serve(server)


async def serve(
    api: DaemonApi, listening: socket.socket, workers: Workers, closing: asyncio.Event, grace: float
) -> None:
    """Serve agents until `closing`; calls under way have `grace` seconds then. Idle agents look for a successor."""
    streams: dict[Stream, asyncio.Task[None]] = {}

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = Stream(reader, writer)
        streams[stream] = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            await _answer(api, workers, stream)
        except* OSError:
            pass  # the agent has gone
        except* Exception as failed:  # noqa: BLE001 - nothing that an agent sends ends the daemon
            logs.get().error("mcp_stream_failed", error=failed.exceptions[0])
        finally:
            del streams[stream]
            writer.close()

    server = await asyncio.start_unix_server(accept, sock=listening, limit=2 * MAX_MESSAGE_BYTES)
    await closing.wait()
    server.close()
    deadline = asyncio.get_running_loop().time() + grace
    while streams:
        idle = {stream for stream in streams if not stream.calls}
        await asyncio.sleep(_LOOK_SECONDS)  # an answer that was being written is sent
        is_late = asyncio.get_running_loop().time() > deadline
        for stream, task in tuple(streams.items()):
            if is_late or (stream in idle and not stream.calls):
                task.cancel()


async def _answer(api: DaemonApi, workers: Workers, stream: Stream) -> None:
    try:
        async with asyncio.timeout(_FIRST_LINE_SECONDS):
            line = await stream.reader.readline()
        name = await workers.run(lambda: _workspace(api, line))
    except (DreamdError, TimeoutError, ValueError) as error:
        stream.writer.write(json.dumps({"error": str(error)}).encode() + b"\n")
        await stream.flush()
        return
    stream.writer.write(b'{"served": true}\n')
    served = await workers.run(lambda: _server(api, workers, name))
    await stream.serve(served)


def _workspace(api: DaemonApi, line: bytes) -> str:
    """Return the name of the workspace at the root that the line names, kept from now on at least."""
    asked = json.loads(line)
    root = asked.get("root") if isinstance(asked, dict) else None
    if not isinstance(root, str) or not root.startswith("/") or "\0" in root:
        raise UsageError("the first line names no root of a workspace", 'send {"root": "/absolute/path"}')
    path = Path(os.path.abspath(root))  # noqa: PTH100 - as its name is made
    known = next((one for one in api.info().workspaces if one.name == name_of(path)), None)
    if known is None and asked.get("adopt") is True:
        return api.register(path)
    if known is None or known.root != str(path) or not (known.kept or known.problem is None):
        raise UnknownWorkspaceError(f"the daemon does not keep {path}", "see 'dreamd status'")
    return known.name


def _server(api: DaemonApi, workers: Workers, name: str) -> "Server[Any]":
    from daemon.mcp.server import called_in, server

    return server(called_in(api), api.config.mcp.toolsets, workers, lambda _: name)
