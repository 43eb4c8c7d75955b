"""Agents as tests have them: the SDK's client in this process, over stdio with a real process, and over HTTP."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import Implementation

from daemon.api.workers import Limits, Workers
from daemon.config.settings import Config
from daemon.mcp.alone import Calls
from daemon.mcp.server import server
from state.stores.disk.workspace import Workspace
from tests.support import forked
from tests.support.notes import pending_notes

ROOT = Path(__file__).parents[3]
TEA = "Ada prefers tea over coffee in the morning"
PORT = "The deployment runs on port 8443 behind nginx"
MODES = ("auto", "legacy")
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def asking(workspace: Workspace, config: Config | None = None) -> Calls:
    """What `dreamd mcp` does with a call."""
    return Calls(lambda **_: workspace, lambda: config or Config())


@asynccontextmanager
async def in_process(
    ask: Callable[..., Any], mode: str = "auto", config: Config | None = None, name: str = "an agent"
) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    called = Implementation(name=name, version="1")
    toolsets = (config or Config()).mcp.toolsets
    served = server(lambda _, *asked: ask(*asked), lambda: toolsets, Workers(Limits()))
    async with Client(served, mode=mode, client_info=called) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Talk:
    """An agent whose calls are awaited: what it is told, in each form."""

    portal: BlockingPortal
    client: Client

    def says(self, tool: str, **arguments: Any) -> str:
        """The text of a good call."""
        return self.portal.call(lambda: shown(self.client, tool, **arguments))

    def told(self, tool: str, **arguments: Any) -> Any:
        """The answer of a good call of a session's tool, which is JSON."""
        return json.loads(self.says(tool, **arguments))

    def refused(self, tool: str, **arguments: Any) -> Any:
        """The error of a call that is refused."""
        return self.portal.call(lambda: refused(self.client, tool, **arguments))

    def added(self, content: str = "a thought", priority: str = "high", **more: Any) -> Any:
        """What was added to a session."""
        return self.told(
            "working_memory_add", **{"session_id": "s", "content": content, "priority": priority, **more}
        )


@contextmanager
def talking(
    ask: Callable[..., Any], mode: str = "auto", config: Config | None = None, name: str = "an agent"
) -> Iterator[Talk]:
    """An agent of a server in this process."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(in_process(ask, mode, config, name)) as client,
    ):
        yield Talk(portal, client)


def environment(**more: str) -> dict[str, str]:
    """Next to nothing of whoever runs the tests."""
    kept = {
        name: os.environ[name] for name in ("HOME", "PATH", "XDG_STATE_HOME", "XDG_DATA_HOME") if name in os.environ
    }
    return {**kept, "XDG_CONFIG_HOME": "/nonexistent", **more}


@asynccontextmanager
async def over_stdio(*words: str, mode: str = "auto", **variables: str) -> AsyncIterator[Client]:
    """A client of `dreamd mcp` with these words, in a process of its own."""
    (program, *first), variable = forked.stand_in()
    parameters = StdioServerParameters(
        command=program, args=[*first, "mcp", *words], env=environment(**variable, **variables), cwd=str(ROOT)
    )
    with tempfile.TemporaryFile("w+") as said:
        async with Client(stdio_client(parameters, errlog=said), mode=mode) as client:
            yield client
        said.seek(0)
        assert "Traceback" not in said.read()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run the body of a test that talks."""
    anyio.run(test)


async def shown(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a good call."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is None
    return "\n".join(part.text for part in result.content if part.type == "text")


def text_of(result: Any) -> str:
    """The text of a result as it comes over the wire."""
    return "\n".join(part["text"] for part in result["content"])


async def refused(client: Client, tool: str, **arguments: Any) -> Any:
    """The error of a call that is refused, in the form that every error has."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert result.structured_content is None
    (part,) = result.content
    assert part.type == "text"
    error = json.loads(part.text)
    assert error.keys() == {"error", "code", "details"}
    assert "Traceback" not in error["error"]
    return error


def notes(workspace: Workspace) -> list[str]:
    """What stands in the log."""
    return [note.text for note in pending_notes(workspace)]


class GoneError(AssertionError):
    """The process is dead."""


@dataclass(slots=True)
class Raw:
    """`dreamd mcp` as bytes: what goes to its stdin and what comes from its stdout."""

    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]
    _ids: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    def send(self, line: bytes) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise GoneError(self.said()) from None

    def line(self) -> Any:
        assert self.process.stdout
        if not (row := self.process.stdout.readline()):
            raise GoneError(self.said())
        return json.loads(row)

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """The message that answers."""
        number = next(self._ids)
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}).encode())
        while (message := self.line()).get("id") != number:
            assert message["jsonrpc"] == "2.0"
        return message

    def greet(self) -> None:
        assert "result" in self.ask("initialize", INITIALIZE)
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(300)

    def end(self) -> int:
        """Close its stdin; its exit status. Whatever it still had to say was protocol."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        for row in self.process.stdout:
            assert json.loads(row)["jsonrpc"] == "2.0"
        return self.process.wait(300)

    def said(self) -> str:
        """What it wrote to stderr."""
        self.errors.seek(0)
        return self.errors.read().decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(300)
        for pipe in (self.process.stdin, self.process.stdout, self.errors):
            if pipe is not None:
                pipe.close()


def raw(root: Path, *program: str, env: Mapping[str, str] | None = None) -> Raw:
    """A process; without a program of Python's it is `dreamd mcp` for this workspace."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by Raw
    start: type[subprocess.Popen[bytes]] = subprocess.Popen if program else forked.Forked
    words = [sys.executable, *program] if program else ["mcp", "-w", str(root)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
    return Raw(start(words, cwd=ROOT, env=env or environment(), **pipes), errors)


@contextmanager
def greeted(root: Path, *program: str) -> Iterator[Raw]:
    """The same after the handshake."""
    with raw(root, *program) as process:
        process.greet()
        yield process
