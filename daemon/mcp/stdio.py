"""`dreamd mcp`: MCP over stdio for one workspace, through the daemon when one runs, else at a desk of its own.

Which of the two is asked anew at each call, so that a daemon may come and go. A note needs neither: it is appended
here, durably. The server always starts; a workspace or a configuration that cannot be read is what each tool answers
with, because clients show a server that has ended badly, and the next call may find it mended.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, BinaryIO

import anyio
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.stdio import stdio_server

from daemon.api.access import LocalAccess
from daemon.api.client import daemon
from daemon.api.dispatch import ask
from daemon.api.operations import AnyOperation, Request
from daemon.api.operations.dreams import DREAM
from daemon.api.operations.notes import NOTE
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.mcp.server import Context, server
from daemon.observability.failures import debugging
from daemon.workspace.vector_index import Embedding
from state.errors import BusyError, ConfigError
from state.stores.disk.workspace import Workspace

COMMAND = "dreamd mcp"
# What other windows without a daemon do is short, unless it is a dream.
_TURN_SECONDS = 1.0
_HANDSHAKE = ("initialize", "server/discover")


def serve(find: Callable[[], Workspace], load: Callable[[], Config], wire: BinaryIO) -> int:
    """Serve until stdin ends or a signal says so, answering on the wire; returns the exit status.

    A dream that runs here when stdin ends is dreamt to its end; a signal leaves it to be resumed.
    """
    if not debugging():
        # What it complains of is answered to the client already, and it quotes what passes through it.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
    asking = Asking(find, load)
    try:
        config = asking.config()
    except ConfigError:
        config = Config()  # the first call says it
    try:
        anyio.run(_serve, _warming(server(asking, config), asking), wire)
    except* BrokenPipeError:
        pass  # the client has gone without its answer
    return 0


async def _serve(served: Server[Any], wire: BinaryIO) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # At once: a thread that waits for stdin cannot be interrupted. Whatever is under way may be cut off anywhere.
        loop.add_signal_handler(number, os._exit, 0)
    # The SDK would give fd 1 back at the end, and what libraries have printed meanwhile would follow the protocol.
    outside = anyio.wrap_file(TextIOWrapper(wire, encoding="utf-8"))
    async with stdio_server(stdout=outside) as (incoming, outgoing):
        await served.run(incoming, outgoing, served.create_initialization_options())


def _warming(served: Server[Any], asking: "Asking") -> Server[Any]:
    """The same server; what the first search needs is loaded once the client is served."""

    async def warmed(ctx: Context, call_next: CallNext) -> HandlerResult:
        answer = await call_next(ctx)
        if ctx.method not in _HANDSHAKE:
            asking.warm()
        return answer

    served.middleware.append(warmed)
    return served


class Asking:
    """Carries out operations on the workspace that `find` finds. Several threads may call."""

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
        """The configuration, read until it can be. Raises ConfigError."""
        with self._setting:
            if self._config is None:
                self._config = self._load()
                self._embedding = Embedding(download=self._config.embeddings.download)
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
        except Exception:  # noqa: BLE001 - who needs the model meets the same error, and tells it
            return

    def __call__(
        self,
        operation: AnyOperation,
        asked: Request,
        told: Callable[[Step], None],
        noticed: Callable[[str], None],
    ) -> Any:  # noqa: ANN401 - the operation's reply
        """What the operation answers. Raises what it raises."""
        workspace = self._find()
        workspace.require_own()  # an agent is told nothing of what somebody else made
        if operation is NOTE:
            with LocalAccess(workspace, self._config or Config(), COMMAND) as desk:
                return operation.run(desk, asked)
        return ask(
            workspace,
            operation,
            asked,
            lambda: self._here(workspace, operation, asked, told, noticed),
            told,
            noticed,
            adopt=True,
        )

    def _here(
        self,
        workspace: Workspace,
        operation: AnyOperation,
        asked: Request,
        told: Callable[[Step], None],
        noticed: Callable[[str], None],
    ) -> Any:  # noqa: ANN401
        """At a desk of this process; calls take turns, but for a dream, beside which they work."""
        desk = LocalAccess(workspace, self.config(), COMMAND, told, self._embedding, _TURN_SECONDS)
        try:
            if operation is DREAM:
                return self._dream(desk, operation, asked)
            with self._turn:
                dreaming = self._dreaming
                desk.beside = dreaming if dreaming is not None and dreaming.workspace == workspace else None
                with desk:
                    return operation.run(desk, asked)
        finally:
            for notice in desk.notices:
                noticed(notice)

    def _dream(self, desk: LocalAccess, operation: AnyOperation, asked: Request) -> Any:  # noqa: ANN401
        with self._setting:
            if self._dreaming is not None:
                raise BusyError("a dream is under way already", "see dream_status")
            self._dreaming = desk
        with desk:
            try:
                return operation.run(desk, asked)
            finally:
                with self._turn:  # whoever works beside it has done so before the lock is let go
                    self._dreaming = None
