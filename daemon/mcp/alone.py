"""Alone: an MCP server in the process of `dreamd mcp`, for one workspace that no daemon serves over MCP.

It still sends each call to the daemon if one keeps the workspace, as it may be here only for its own configuration.
A note needs no daemon: it is appended here, durably. If the workspace or the configuration cannot be read, each tool
replies with that error: clients show a server that exits as broken, and the next call may succeed.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future
from contextlib import closing, nullcontext, suppress
from datetime import tzinfo
from functools import cached_property
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from daemon.api.access import LocalAccess
from daemon.api.dispatch import dispatch
from daemon.api.operations.dreams import dream_now
from daemon.api.operations.notes import working_memory_note
from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.request import Request
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.mcp.http import Endpoint
from daemon.mcp.pump import Find
from daemon.observability import logs
from daemon.observability.failures import debugging
from daemon.workspace.vector_index import Embedding, Index
from state.errors import BusyError, ConfigError, DreamdError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.workspace.stores import Store

COMMAND = "dreamd mcp"
# Unless they dream, other processes hold the lock only briefly.
_LOCK_SECONDS = 1.0


class Alone:
    """An MCP server in this process: the daemon's endpoint, called without a network."""

    def __init__(self, find: Find, load: Callable[[], Config]) -> None:
        """Start it in a thread. A dream that still runs at the end of the process is finished first."""
        if not debugging():
            # The client already gets the SDK's errors as replies, and the SDK's log would quote the user's words.
            logging.getLogger("mcp").setLevel(logging.CRITICAL)
        calls = Calls(find, load)
        self._endpoint = Endpoint(lambda _, *asked: calls(*asked), calls.toolsets, lambda _: "")
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        threading.Thread(target=lambda: asyncio.run(self._serve()), name="server", daemon=True).start()

    async def _serve(self) -> None:
        async with self._endpoint.running():
            self._loop.set_result(asyncio.get_running_loop())
            await asyncio.Event().wait()

    def __call__(self, headers: Mapping[str, str], body: bytes) -> Iterator[bytes]:
        """Yield the lines of the reply to a message, as an HTTP server would send them."""
        sent, parts = iter([{"type": "http.request", "body": body}]), SimpleQueue[bytes | None]()

        async def receive() -> MutableMapping[str, Any]:
            if (message := next(sent, None)) is None:
                await asyncio.Event().wait()  # the client never disconnects
            return message or {}

        async def send(message: MutableMapping[str, Any]) -> None:
            parts.put(message.get("body", b""))

        own = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        fields = [(name.lower().encode(), value.encode()) for name, value in {**own, **headers}.items()]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": fields, "query_string": b""}
        asked = self._endpoint({**scope, "path_params": {}}, receive, send)
        ended = asyncio.run_coroutine_threadsafe(asked, self._loop.result())
        ended.add_done_callback(lambda _: parts.put(None))
        begun = b""
        while (part := parts.get()) is not None:
            *rows, begun = (begun + part).split(b"\n")
            yield from rows
        yield begun
        ended.result()


class Calls:
    """Runs operations on the workspace that `find` finds. Several threads may call."""

    def __init__(self, find: Find, load: Callable[[], Config]) -> None:
        self._find, self._load = find, load
        self._dreaming: LocalAccess | None = None
        self._turn, self._setting = threading.Lock(), threading.Lock()
        self._indexes: dict[Workspace, Index] = {}
        self._indexer: threading.Thread | None = None

    @cached_property
    def config(self) -> Config:
        """Return the configuration, which is read again until that succeeds. Raise ConfigError."""
        return self._load()

    def toolsets(self) -> tuple[str, ...]:
        """Return the configured toolsets; the default ones if the configuration cannot be read."""
        try:
            return self.config.mcp.toolsets
        except ConfigError:  # the first call of a tool reports it
            return Config().mcp.toolsets

    @cached_property
    def _embedding(self) -> Embedding:
        return Embedding(model=self.config.embeddings.model)

    def __call__(
        self,
        operation: AnyOperation,
        request: Request,
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> tuple[Any, tzinfo]:
        """Return the operation's reply, and the owner's time zone. Raise what the operation raises."""
        workspace = self._find(makes=operation is working_memory_note)

        def here() -> Any:  # noqa: ANN401
            if operation is working_memory_note:  # it needs no configuration and waits for no lock
                access = LocalAccess(workspace, self.__dict__.get("config", Config()), COMMAND)
            else:
                index = self._index(workspace)
                access = LocalAccess(
                    workspace, self.config, COMMAND, on_step, self._embedding, _LOCK_SECONDS, index=index
                )
            access.on_notice = on_notice
            return self._run(access, operation, request)

        if operation is working_memory_note:
            reply = here()
        else:
            reply = dispatch(workspace, operation, request, here, on_step, on_notice)
        try:
            return reply, self.config.zone
        except ConfigError:  # the daemon answered, or it is a note
            return reply, Config().zone

    def _run(self, access: LocalAccess, operation: AnyOperation, request: Request) -> Any:  # noqa: ANN401
        """Run the operation. Calls run one at a time, but beside a dream; a note runs beside everything."""
        if operation is dream_now:
            return self._dream(access, operation, request)
        with nullcontext() if operation is working_memory_note else self._turn:
            dreaming = self._dreaming
            access.beside = dreaming if dreaming is not None and dreaming.workspace == access.workspace else None
            with access:
                reply = operation.answer(access, request)
                if access.beside is None and (store := access.open_store) is not None:
                    self._keep_index(store)
                return reply

    def _index(self, workspace: Workspace) -> Index:
        """Return the index that this process keeps open from call to call; each call holds the lock."""
        found = self._indexes.get(workspace)
        made = Index(workspace, lambda: None, self._embedding, failed=self._report)
        return found or self._indexes.setdefault(workspace, made)

    def _report(self, error: Exception) -> None:
        logs.get().error("index_failed", error=error)

    def _keep_index(self, store: "Store") -> None:
        """Open ChromaDB, or tell it what it lacks, after this call and between later ones."""
        is_behind = store.crystals.vectors.waiting()[1] or store.index.ready(store.crystals) is None
        is_busy = self._indexer is not None and self._indexer.is_alive()
        if is_behind and store.crystals.vectors.vector_count() and not is_busy:
            import numpy  # noqa: F401, ICN001 - before the thread loads ChromaDB, and calls load it beside

            self._indexer = threading.Thread(target=self._tell, args=[store.index], name="indexer", daemon=True)
            self._indexer.start()

    def _tell(self, index: Index) -> None:
        """Bring ChromaDB up to date, a batch at a time, each under the lock as a call is."""
        import chromadb.api.rust  # noqa: F401 - it takes a second, for which no call waits

        from daemon.workspace.stores import open_owned
        from state.stores.disk.lock import acquire

        left = 1
        with suppress(DreamdError):  # the workspace is in use, or the index failed: a later call tries again
            while left:
                with self._turn, acquire(index.workspace, COMMAND, _LOCK_SECONDS) as lock:
                    index.check = lock.check
                    with closing(open_owned(index, self.config)) as store:
                        index.open(store.crystals)
                        index.tell(store.crystals, lambda: True)
                        is_open = index.ready(store.crystals) is not None
                        left = store.crystals.vectors.waiting()[1] if is_open else 0

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
