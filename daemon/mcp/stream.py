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
from daemon.api.peer import user_of
from daemon.api.workers import Workers
from daemon.config.registry import name_of
from daemon.mcp.pump import MAX_MESSAGE_BYTES
from daemon.observability import logs
from state.errors import DreamdError, UnknownWorkspaceError, UsageError

if TYPE_CHECKING:
    from anyio import AsyncFile
    from mcp.server import Server

_FIRST_LINE_SECONDS = 10.0
_ANSWER_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Out:
    """What the SDK writes to."""

    writer: asyncio.StreamWriter

    async def write(self, text: str) -> None:
        self.writer.write(text.encode())

    async def flush(self) -> None:
        with suppress(ConnectionError):  # the reader notices that the agent has gone
            await self.writer.drain()


async def talk(server: "Server[Any]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Have the server answer an agent until it sends no more."""
    from mcp.server.stdio import stdio_server

    lines, out = cast("AsyncFile[str]", reader), cast("AsyncFile[str]", _Out(writer))
    async with stdio_server(lines, out) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def talk_at(end: socket.socket, server: "Server[Any]") -> None:
    """Have the server answer at this end of a connection in this process."""
    await talk(server, *await asyncio.open_unix_connection(sock=end, limit=2 * MAX_MESSAGE_BYTES))


async def serve(
    api: DaemonApi, listening: socket.socket, workers: Workers, ending: asyncio.Event, grace: float
) -> None:
    """Serve agents until `ending`; calls under way have `grace` seconds then. Agents look for a successor."""
    streams = set[asyncio.Task[None]]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        streams.add(own := cast("asyncio.Task[None]", asyncio.current_task()))
        peer = user_of(writer.get_extra_info("socket"))
        try:
            if peer in (None, 0, os.geteuid()):
                await _answer(api, workers, reader, writer)
            else:
                logs.get().warning("peer_refused", uid=peer)
        except* OSError:
            pass  # the agent has gone
        except* Exception as failed:  # noqa: BLE001 - nothing that an agent sends ends the daemon
            logs.get().error("mcp_stream_failed", error=failed.exceptions[0])
        finally:
            streams.discard(own)
            writer.close()

    server = await asyncio.start_unix_server(accept, sock=listening, limit=2 * MAX_MESSAGE_BYTES)
    await ending.wait()
    server.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(grace):
            while workers.is_busy:  # noqa: ASYNC110 - its threads know nothing of the loop
                await asyncio.sleep(_ANSWER_SECONDS)
    await asyncio.sleep(_ANSWER_SECONDS)  # for the last answer to be sent
    for stream in tuple(streams):
        stream.cancel()


async def _answer(
    api: DaemonApi, workers: Workers, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        async with asyncio.timeout(_FIRST_LINE_SECONDS):
            line = await reader.readline()
        name = await workers.run(lambda: _workspace(api, line))
    except (DreamdError, TimeoutError, ValueError) as error:
        writer.write(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    writer.write(b'{"served": true}\n')
    await talk(await workers.run(lambda: _server(api, workers, name)), reader, writer)


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

    return server(called_in(api), lambda: api.config.mcp.toolsets, workers, lambda _: name)
