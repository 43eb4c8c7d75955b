"""MCP over stdio: `dreamd mcp`, for one workspace, through the daemon when one runs, else in this process.

The daemon is looked for at each call, so that it may come and go. A note needs no daemon: it is appended here,
durably. The server always starts: when the workspace or the configuration cannot be read, each tool answers with that
error, because clients show a server that ended badly as broken, and the next call may succeed.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, BinaryIO, TextIO

import anyio
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.stdio import stdio_server

from daemon.api.access import LocalAccess
from daemon.api.client import daemon
from daemon.api.dispatch import dispatch
from daemon.api.operations.dreams import dream_now
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.request import Request
from daemon.api.workers import Limits, Workers
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.mcp.server import Context, server
from daemon.observability.failures import debugging
from daemon.workspace.vector_index import Embedding
from state.errors import BusyError, ConfigError
from state.stores.disk.workspace import Workspace

COMMAND = "dreamd mcp"
# Other processes hold the lock briefly, unless they dream.
_LOCK_SECONDS = 1.0
_HANDSHAKE = ("initialize", "server/discover")


def serve(find: Callable[[], Workspace], load: Callable[[], Config], wire: BinaryIO) -> int:
    """Serve until stdin ends or a signal comes, replying on `wire`; return the exit status.

    A dream that runs in this process when stdin ends is finished; a signal leaves it to be resumed.
    """
    # The SDK would give fd 1 back at the end, and what libraries have printed meanwhile would follow the protocol.
    outside = TextIOWrapper(wire, encoding="utf-8")
    try:
        anyio.run(_serve_process, _server(find, load), outside)
    except* BrokenPipeError:
        pass  # the client went away before its reply
    return 0


def serve_lines(find: Callable[[], Workspace], load: Callable[[], Config], lines: BinaryIO, messages: TextIO) -> None:
    """Serve a client whose messages come in `lines` and go out by `messages`, in any thread."""
    anyio.run(_serve, _server(find, load), messages, TextIOWrapper(lines, encoding="utf-8", errors="replace"))


def _server(find: Callable[[], Workspace], load: Callable[[], Config]) -> Server[Any]:
    if not debugging():
        # The client already gets the SDK's complaints as replies, and its log would quote the user's words.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
    calls = Calls(find, load)
    try:
        config = calls.config()
    except ConfigError:
        config = Config()  # the first call raises it again
    return _with_warm_up(server(calls, config, Workers(Limits())), calls)


async def _serve_process(served: Server[Any], messages: TextIO) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # At once: a thread that waits for stdin cannot be interrupted. Whatever is under way may be cut off anywhere.
        loop.add_signal_handler(number, os._exit, 0)
    await _serve(served, messages)


async def _serve(served: Server[Any], messages: TextIO, lines: TextIO | None = None) -> None:
    inside = anyio.wrap_file(lines) if lines is not None else None
    async with stdio_server(inside, anyio.wrap_file(messages)) as (incoming, outgoing):
        await served.run(incoming, outgoing, served.create_initialization_options())


def _with_warm_up(served: Server[Any], calls: "Calls") -> Server[Any]:
    """Return the server, which after the handshake loads what the first search needs."""

    async def warm_up(ctx: Context, call_next: CallNext) -> HandlerResult:
        answer = await call_next(ctx)
        if ctx.method not in _HANDSHAKE:
            calls.warm()
        return answer

    served.middleware.append(warm_up)
    return served


class Calls:
    """Runs operations on the workspace that `find` finds. Several threads may call."""

    def __init__(self, find: Callable[[], Workspace], load: Callable[[], Config]) -> None:
        self._find = find
        self._load = load
        self._config: Config | None = None
        self._embedding: Embedding | None = None
        self._warm = False
        self._dreaming: LocalAccess | None = None
        self._turn = threading.Lock()
        self._setting = threading.Lock()

    def config(self) -> Config:
        """Return the configuration, read until it can be. Raise ConfigError."""
        with self._setting:
            if self._config is None:
                self._config = self._load()
                self._embedding = Embedding(
                    download=self._config.embeddings.download, model=self._config.embeddings.model
                )
            return self._config

    def warm(self) -> None:
        """Load the embedding model in the background, once; the daemon has its own."""
        if not self._warm:
            self._warm = True
            threading.Thread(target=self._load_model, name="embedding").start()

    def _load_model(self) -> None:
        try:
            if daemon() is None and self.config() and self._embedding:
                self._embedding.get()
        except Exception:  # noqa: BLE001 - the search that needs the model raises the same error
            return

    def __call__(
        self,
        operation: AnyOperation,
        request: Request,
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> Any:  # noqa: ANN401 - the operation's reply
        """Return the operation's reply. Raise what it raises."""
        workspace = self._find()
        if operation is working_memory_note:
            with LocalAccess(workspace, self._config or Config(), COMMAND) as access:
                reply = operation.answer(access, request)
                for notice in access.notices:
                    on_notice(notice)
                return reply
        return dispatch(
            workspace,
            operation,
            request,
            lambda: self._run_here(workspace, operation, request, on_step, on_notice),
            on_step,
            on_notice,
            register=True,
        )

    def _run_here(
        self,
        workspace: Workspace,
        operation: AnyOperation,
        request: Request,
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> Any:  # noqa: ANN401
        """Run the operation in this process. Calls run one after the other, but beside a dream."""
        access = LocalAccess(workspace, self.config(), COMMAND, on_step, self._embedding, _LOCK_SECONDS, stays=True)
        try:
            if operation is dream_now:
                return self._dream(access, operation, request)
            with self._turn:
                dreaming = self._dreaming
                access.beside = dreaming if dreaming is not None and dreaming.workspace == workspace else None
                with access:
                    return operation.answer(access, request)
        finally:
            for notice in access.notices:
                on_notice(notice)

    def _dream(self, access: LocalAccess, operation: AnyOperation, request: Request) -> Any:  # noqa: ANN401
        with self._setting:
            if self._dreaming is not None:
                raise BusyError("a dream is under way already", "see dream_status")
            self._dreaming = access
        with access:
            try:
                return operation.answer(access, request)
            finally:
                with self._turn:  # calls beside the dream end before the lock is released
                    self._dreaming = None
