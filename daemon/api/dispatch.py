"""Dispatch: runs an operation in the daemon if it keeps the workspace, else in this process."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from daemon.api.access import LocalAccess
from daemon.api.client import LostError, NoDaemonError, SandboxedError, daemon
from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config
from daemon.dream.progress import Step
from state.errors import BusyError, NotKeptError, StoppedError, UnknownWorkspaceError
from state.stores.disk.lock import KEEPER, is_stopped, present_holder
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")

# A starting daemon holds the workspaces' locks before it answers.
_STARTING_SECONDS = 10.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Caller:
    """A command that calls operations on one workspace.

    `config` and `command` (the name in the lock) apply if the operation runs in this process. `settings`: what a
    dream of the daemon takes along, by section; `named`: the sections that the user set for this call. A notice says
    which of them a long operation of the daemon did not use.
    """

    workspace: Workspace
    config: Config
    command: str
    on_step: Callable[[Step], None] = lambda _: None
    on_notice: Callable[[str], None] = lambda _: None
    settings: Mapping[str, Any] = field(default_factory=dict)
    named: frozenset[str] = frozenset()

    def ask(self, operation: "Operation[P, ReplyT]", *args: P.args, **kwargs: P.kwargs) -> ReplyT:
        """Return the operation's reply. Raise what it raises, and BusyError if another process has the workspace."""
        request, used = operation.bind(*args, **kwargs), list[LocalAccess]()

        def here() -> ReplyT:
            own = LocalAccess(self.workspace, self.config, self.command, self.on_step, on_notice=self.on_notice)
            used.append(own)
            with own:
                return own.run(operation, request)

        taken = self._taken() if operation.configured else None
        reply = dispatch(self.workspace, operation, request, here, self.on_step, self.on_notice, settings=taken)
        left = self.named - (taken.sections.keys() if taken is not None else set())
        if left and operation.long and not used:
            self.on_notice(f"the daemon did it, with its own settings of {', '.join(sorted(left))}, not this call's")
        return reply

    def _taken(self) -> DreamSettings | None:
        """Return what a dream of the daemon takes along: settings of this call, and keys for its model."""
        from daemon.models.keys import variables_of

        keys = variables_of(self.config.model.name or "", os.environ)
        return DreamSettings(self.settings, keys) if self.settings or keys else None


def dispatch(
    workspace: Workspace,
    operation: "Operation[..., ReplyT]",
    request: "Request",
    here: Callable[[], ReplyT],
    on_step: Callable[[Step], None],
    on_notice: Callable[[str], None],
    *,
    settings: DreamSettings | None = None,
) -> ReplyT:
    """Return the daemon's reply, or the result of `here` if no daemon runs or keeps the workspace.

    If the daemon dies during a read, try once more. Raise what the operation raises, and BusyError if
    another process has the workspace.
    """
    deadline, retry = time.monotonic() + _STARTING_SECONDS, operation.reads
    sandboxed: SandboxedError | None = None
    while True:
        client = None if is_stopped(present_holder(workspace)) else daemon()
        if client is not None:
            try:
                return client.call(workspace.name, operation, request, on_step, on_notice, settings=settings)
            except SandboxedError as error:
                sandboxed = error  # a read also works here
            except (NoDaemonError, UnknownWorkspaceError, NotKeptError):
                pass  # a dead daemon's socket, or the daemon does not keep the workspace, at least not now
            except (LostError, StoppedError):
                if not retry:
                    raise
                retry = False
                continue
        try:
            return here()
        except BusyError:
            if sandboxed is not None:
                raise sandboxed from None
            holder = present_holder(workspace)
            if holder is None or holder.command != KEEPER or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_SECONDS)
