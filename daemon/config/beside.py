"""Beside: runs dreamd in a child process for work that would leave hundreds of megabytes in a long-lived one."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from daemon.config.paths import program
from state.stores.disk.user_folder import DAEMONS_OWN

Process: TypeAlias = "subprocess.Popen[bytes]"


def _started(words: Sequence[str], **parameters: Any) -> Process:  # noqa: ANN401 - as Popen's
    return subprocess.Popen([*program(), *words], **parameters)  # noqa: S603 - our own program


start: Callable[..., Process] = _started
"""Starts `dreamd` with these arguments, and with Popen's parameters. Tests replace it with a fork."""


def start_beside(
    words: Sequence[str],
    pass_fds: Sequence[int] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Process:
    """Start `dreamd` with these arguments, file descriptors and variables; what it prints is discarded."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DAEMONS_OWN)}
    return start(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=tuple(pass_fds),
        env={
            **kept,
            **variables,
            "MALLOC_ARENA_MAX": "2",
        },  # glibc's arenas, one per thread, would hold tens of MB each
    )
