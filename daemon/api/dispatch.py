"""Asking for an operation, wherever it is done: by the daemon when it keeps the workspace, else by the caller."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from daemon.api.access import LocalAccess
from daemon.api.client import LostError, UnreachableError, daemon
from daemon.config.layers import PREFIX
from daemon.config.paths import registry_path
from daemon.config.registry import excluded
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.workspace.status import present_holder
from state.errors import BusyError, NotKeptError, StoppedError, UnknownWorkspaceError
from state.stores.disk.lock import is_stopped
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation, Request

Asked = TypeVar("Asked", bound="Request")
Answer = TypeVar("Answer")

KEEPER = "dreamd serve"
# A daemon that starts has the workspaces' locks before it answers.
_STARTING_SECONDS = 10.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: for which workspace, with which configuration if it is done here, and under which name.

    `told` hears how far it is, `noticed` what a person should know. `own_config`: the caller was given one, which a
    long operation (a dream, for one) that the daemon does goes without; then it is said.
    """

    workspace: Workspace
    config: Config
    command: str
    told: Callable[[Step], None] = lambda _: None
    noticed: Callable[[str], None] = lambda _: None
    own_config: bool = False

    def ask(self, operation: "Operation[Asked, Answer]", asked: Asked) -> Answer:
        """What the operation answers. Raises what it raises; BusyError when another process has the workspace."""
        elsewhere = False

        def here() -> Answer:
            nonlocal elsewhere
            elsewhere = True
            return self._here(operation, asked)

        answer = ask(self.workspace, operation, asked, here, self.told, self.noticed)
        if self.own_config and operation.long and not elsewhere:
            self.noticed("the daemon did it, with its own configuration; that of this call was not used")
        return answer

    def _here(self, operation: "Operation[Asked, Answer]", asked: Asked) -> Answer:
        desk = LocalAccess(self.workspace, self.config, self.command, self.told)
        try:
            with desk:
                return operation.run(desk, asked)
        finally:
            for notice in dict.fromkeys(desk.notices):
                self.noticed(notice)


def ask(
    workspace: Workspace,
    operation: "Operation[Asked, Answer]",
    asked: Asked,
    here: Callable[[], Answer],
    told: Callable[[Step], None],
    noticed: Callable[[str], None],
    *,
    adopt: bool = False,
) -> Answer:
    """What the daemon answers; when none runs, or it is stopped, or the workspace is not its, what `here` does.

    `adopt`: it is to keep it from now on, unless that was ruled out ('dreamd init --no-daemon'). A daemon that went
    while it answered is asked once more, for what only reads. Raises what the operation raises; BusyError when
    another process has the workspace.
    """
    deadline = time.monotonic() + _STARTING_SECONDS
    again = operation.only_reads
    adopt = adopt and workspace.root not in excluded(registry_path(os.environ))
    while True:
        client = None if is_stopped(present_holder(workspace)) else daemon()
        if client is not None:
            try:
                return client.call(workspace.root, operation, asked, told, noticed, adopt=adopt)
            except (UnreachableError, UnknownWorkspaceError, NotKeptError):
                pass  # its socket outlived it, or the workspace is not its, or not now
            except (LostError, StoppedError):
                if not again:
                    raise
                again = False
                continue
        try:
            return here()
        except BusyError:
            who = present_holder(workspace)
            if who is None or who.command != KEEPER or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_SECONDS)


def configured_here() -> bool:
    """Whether variables of this process's environment set keys of the configuration."""
    return any(name.startswith(PREFIX) and "__" in name for name in os.environ)
