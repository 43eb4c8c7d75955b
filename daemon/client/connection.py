"""Connection: how a client reaches one workspace, over the daemon's Unix socket or its HTTP address."""

import http.client
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from daemon.api.client import ANSWER_SECONDS, LONG_SECONDS, reply_over
from daemon.api.client import Client as Daemon
from daemon.config.paths import registry_path
from daemon.config.registry import excluded, name_of
from daemon.dream.progress import Step
from daemon.workspace.adoption import find_workspace
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request

ReplyT = TypeVar("ReplyT")


class Connection(Protocol):
    """One workspace that a daemon keeps."""

    def call(
        self,
        operation: "Operation[..., ReplyT]",
        request: "Request",
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> ReplyT:
        """Return the operation's reply. Raise what the operation raises, NoDaemonError and LostError."""


@dataclass(frozen=True, slots=True)
class SocketConnection:
    """A workspace by its root. The daemon keeps it from the first call on, unless its owner ruled that out."""

    root: Path
    daemon: Daemon
    seconds: float | None = None

    @classmethod
    def to(cls, workspace: str | Path, seconds: float | None) -> Self:
        """Find the workspace of this folder or the nearest one above it. Raise UsageError if there is none."""
        return cls(find_workspace(Path(workspace)).root, Daemon.at(os.environ), seconds)

    def call(
        self,
        operation: "Operation[..., ReplyT]",
        request: "Request",
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> ReplyT:
        """Ask over the socket."""
        register = self.root not in excluded(registry_path(os.environ))
        return self.daemon.call(
            self.root, operation, request, on_step, on_notice, register=register, seconds=self.seconds
        )


@dataclass(frozen=True, slots=True)
class AddressConnection:
    """A workspace by its name at an address such as http://127.0.0.1:7349; with TLS when it begins with https."""

    address: str
    workspace: str
    token: str = field(repr=False)
    seconds: float | None = None

    @classmethod
    def to(cls, address: str, workspace: str | Path, token: str, seconds: float | None) -> Self:
        """Return the workspace of this name, or of this folder on the daemon's machine. Raise UsageError."""
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{address!r} is no address", "give one such as http://127.0.0.1:7349")
        is_folder = isinstance(workspace, Path) or "/" in workspace
        name = name_of(Path(workspace).expanduser().resolve()) if is_folder else str(workspace)
        if not name:
            raise UsageError("no workspace is named", "give its name, as GET /v1/workspaces lists it, or its folder")
        return cls(address, name, token, seconds)

    def call(
        self,
        operation: "Operation[..., ReplyT]",
        request: "Request",
        on_step: Callable[[Step], None],
        on_notice: Callable[[str], None],
    ) -> ReplyT:
        """Ask over TCP."""
        parts = urlsplit(self.address)
        seconds = self.seconds or (LONG_SECONDS if operation.long else ANSWER_SECONDS)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=seconds)
        path = f"{parts.path.rstrip('/')}/v1/workspaces/{self.workspace}"
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return reply_over(connection, path, headers, operation, request, on_step, on_notice)
