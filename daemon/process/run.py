"""Run: the daemon as a process: its listeners, its signals and its messages to systemd.

SIGTERM and SIGINT end it within ten seconds: a running dream stops at its next node, or is abandoned while it waits
for a model. Every step is durable, and the next start resumes there. SIGHUP reads the configuration again, and keeps
the old one if the new one is invalid.
"""

import asyncio
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.paths import logins_path, socket_path, token
from daemon.config.settings import Config
from daemon.engine.managed import TICK_SECONDS
from daemon.http.logins import Logins
from daemon.http.serve import serve
from daemon.http.sockets import Listener, open_port, open_socket
from daemon.mcp.http import Endpoint
from daemon.observability import logs
from daemon.process.sd_notify import Notifier
from daemon.workspace.status import Problem
from state.errors import BusyError
from state.text.words import counted

if TYPE_CHECKING:
    from daemon.engine.daemon import Daemon

# The part of the ten seconds after SIGTERM that dreams may take; the rest is for requests under way.
STOP_SECONDS = 8.0
_STATUS_SECONDS = 30.0
# M_ARENA_MAX (malloc.h): with an arena per thread, glibc would keep 27 MiB more for ten idle workspaces.
_ONE_ARENA = (-8, 1)
_LIBC = ctypes.CDLL(None)
_RETRY_SECONDS = 5.0
# A daemon without a tick for this long hangs; systemd may then restart it.
_HANGS_SECONDS = 4 * TICK_SECONDS


def run(load: Callable[[], Config], folders: tuple[Path, ...]) -> int:
    """Serve until a signal; return the exit status. `folders`: workspaces to keep from now on.

    Raise ConfigError for an invalid configuration, and BusyError if a daemon runs already.
    """

    def loaded() -> Config:
        read = load()
        logs.configure(read.log.form, read.log.level)
        return read

    config = loaded()
    with suppress(AttributeError):  # another libc may have no mallopt
        _LIBC.mallopt(*_ONE_ARENA)
    # Switch threads often, so that requests do not wait for a dream's computations.
    sys.setswitchinterval(0.001)
    listeners, port_problem = _open_listeners(config)
    try:
        return asyncio.run(_serve(loaded, folders, listeners, port_problem))
    finally:
        for listener in listeners:
            listener.close()


def _open_listeners(config: Config) -> tuple[list[Listener], Problem | None]:
    """Open the socket and the port; a port taken by another user's program is a problem to report, not an error."""
    with ExitStack() as opened:
        listeners = [opened.enter_context(closing(open_socket(socket_path(os.environ))))]
        problem = None
        try:
            if config.http.port:
                listeners.append(open_port(config.http.host, config.http.port, token(os.environ)))
        except BusyError as error:
            problem = Problem(f"{error.what}; the daemon listens at its socket alone", error.advice)
        opened.pop_all()
    return listeners, problem


async def _serve(
    load: Callable[[], Config], folders: tuple[Path, ...], listeners: list[Listener], port_problem: Problem | None
) -> int:
    from daemon.engine.daemon import Daemon

    notifier, stop, reload = Notifier(os.environ), asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, event in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, reload)):
        loop.add_signal_handler(number, event.set)
    daemon = await asyncio.to_thread(Daemon, load, folders)
    daemon.port_problem = port_problem
    daemon.http = next((one.address for one in listeners if one.path is None), "")
    mcp, machines, window = Endpoint.of(daemon), None, None
    if daemon.config.fleet.database:  # import the fleet's code only if there is one
        from daemon.fleet.connections import read_status

        machines = partial(read_status, daemon.config)
    if (port := next((one.policy for one in listeners if not one.policy.is_local), None)) is not None:
        from daemon.pages.window import PageWindow  # late: only the port serves pages

        window = PageWindow(Logins(logins_path(os.environ), port.token), machines)
    ending = asyncio.Event()
    ended = False
    async with mcp.running(), asyncio.TaskGroup() as group:
        group.create_task(serve(daemon, listeners, ending, mcp, window=window))
        tasks = (
            _start(daemon, notifier, listeners),
            _reload_on_signal(daemon, notifier, reload),
            _notify_systemd(daemon, notifier),
            _trim(daemon),
        )
        running = [group.create_task(task) for task in tasks]
        await stop.wait()
        logs.get().info("stop_begun", dreaming=daemon.info().dreaming)
        notifier.tell(STOPPING=1, STATUS="stopping; a dream that runs is checkpointed")
        for task in running:
            task.cancel()
        ending.set()  # before `stop`: requests under way get the same seconds as the dreams
        ended = await asyncio.to_thread(daemon.stop, STOP_SECONDS)
    logs.get().info("stopped", left_behind=not ended)
    if not ended or any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        # A thread waits for a model or a disk, and Python would wait for it. Its work is durable, and the next start
        # resumes it.
        sys.stderr.flush()
        os._exit(0)
    return 0


async def _start(daemon: "Daemon", notifier: Notifier, listeners: list[Listener]) -> None:
    notifier.tell(STATUS="looking up the workspaces")
    began = time.monotonic()
    while not await guarded("start", asyncio.to_thread(daemon.start)):  # noqa: ASYNC110 - a retry, no polling
        await asyncio.sleep(_RETRY_SECONDS)
    info = daemon.info()
    notifier.tell(READY=1, STATUS=_summary(daemon))
    logs.get().info(
        "started",
        version=info.version,
        workspaces=len(info.workspaces),
        entrances=[one.address for one in listeners],
        seconds=round(time.monotonic() - began, 3),
    )
    for problem in info.problems:
        logs.get().warning("workspaces_wrong", problem=f"{problem.what}; {problem.advice}")


async def _reload_on_signal(daemon: "Daemon", notifier: Notifier, reload: asyncio.Event) -> None:
    while True:
        await reload.wait()
        reload.clear()
        notifier.tell(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
        try:
            await asyncio.to_thread(daemon.reload)
        except Exception as error:  # noqa: BLE001 - no configuration file may end the daemon
            logs.get().error("config_refused", error=error)
            status = f"the new configuration is refused, the old one stands: {Problem.of(error).what}"
        else:
            logs.get().info("config_reloaded", workspaces=len(daemon.info().workspaces))
            status = _summary(daemon)
        notifier.tell(READY=1, STATUS=status)


async def _notify_systemd(daemon: "Daemon", notifier: Notifier) -> None:
    """Ping the watchdog while the daemon ticks, and keep the status line of `systemctl status` current."""
    reported_at = 0.0

    async def ping() -> None:
        nonlocal reported_at
        if daemon.unready_reason() or time.monotonic() - daemon.last_tick < _HANGS_SECONDS:
            notifier.tell(WATCHDOG=1)
        if time.monotonic() - reported_at > _STATUS_SECONDS and not daemon.unready_reason():
            reported_at = time.monotonic()
            notifier.tell(STATUS=_summary(daemon))

    while notifier.is_heard:
        await asyncio.sleep(notifier.ping_seconds or _STATUS_SECONDS)
        await guarded("tell", ping())


async def _trim(daemon: "Daemon") -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        await guarded("rest", asyncio.to_thread(daemon.trim))
        with suppress(AttributeError):
            _LIBC.malloc_trim(0)  # return freed memory to the system


async def guarded(task: str, work: Awaitable[None]) -> bool:
    """Await the work and log its failure instead of raising it; return whether it succeeded."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - for example if no descriptor is left
        logs.get().error("helper_failed", task=task, error=error)
        return False
    return True


def _summary(daemon: "Daemon") -> str:
    info = daemon.info()
    refused = [one.problem.what for one in info.workspaces if one.problem is not None]
    text = f"{counted(len(info.workspaces) - len(refused), 'workspace')}, {info.dreaming} dreaming"
    return f"{text}; {len(refused)} refused: {refused[0]}" if refused else text
