"""Run: the daemon as a process, with its sockets, its signals and its messages to systemd.

SIGTERM and SIGINT end it within ten seconds: a running dream stops at its next node, or is abandoned while it waits
for a model; every step is durable, and the next start goes on from there. SIGHUP reads the configuration again, and
keeps the old one when the new one is bad.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.workers import Limits
from daemon.config.paths import logins_path, mcp_socket_path, socket_path, token
from daemon.config.settings import Config
from daemon.http.logins import Logins
from daemon.http.serve import serve
from daemon.http.sockets import Listener, open_port, open_socket
from daemon.mcp import stream
from daemon.mcp.http import Endpoint
from daemon.observability import logs
from daemon.pages.window import PageWindow
from daemon.process.sd_notify import Notifier
from daemon.service.scheduler import TICK_SECONDS
from daemon.workspace.status import Problem
from state.errors import BusyError

if TYPE_CHECKING:
    from daemon.fleet.upkeep.window import StatusWindow
    from daemon.service.daemon import Daemon

# What dreams may take of the ten seconds after SIGTERM; the rest is for requests under way.
STOP_SECONDS = 8.0
_STATUS_SECONDS = 30.0
_RETRY_SECONDS = 5.0
# A scheduler without a tick for so long hangs, and systemd may restart the daemon.
_HANGS_SECONDS = 4 * TICK_SECONDS


@dataclass(slots=True)
class _Signals:
    """Events that signals set in the event loop."""

    stop: asyncio.Event
    reload: asyncio.Event


def run(load: Callable[[], Config], folders: tuple[Path, ...]) -> int:
    """Serve until a signal and return the exit status. `folders` are kept beside those of registry and configuration.

    Raise ConfigError for a bad configuration, BusyError when a daemon runs already.
    """
    config = load()
    logs.configure(config.log.form, config.log.level)
    # Switch threads often: a request shall not wait for a dream's arithmetic.
    sys.setswitchinterval(0.001)
    listeners, port_problem = _open_listeners(config)
    try:
        return asyncio.run(_serve(load, folders, listeners, port_problem))
    finally:
        for listener in listeners:
            listener.close()


def _open_listeners(config: Config) -> tuple[list[Listener], Problem | None]:
    """Open both sockets and the port; return why there is no port, whose number all users of the machine share."""
    with ExitStack() as opened:
        listeners = [opened.enter_context(closing(open_socket(socket_path(os.environ))))]
        listeners.append(opened.enter_context(closing(open_socket(mcp_socket_path(os.environ)))))
        problem = None
        try:
            if config.http.port:
                listeners.append(open_port(config.http.host, config.http.port, token(os.environ)))
        except BusyError as error:
            problem = Problem(f"{error.what}; the daemon listens at its sockets alone", error.advice)
        opened.pop_all()
    return listeners, problem


async def _serve(
    load: Callable[[], Config], folders: tuple[Path, ...], listeners: list[Listener], port_problem: Problem | None
) -> int:
    from daemon.service.daemon import Daemon

    notifier = Notifier(os.environ)
    signals = _Signals(asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.stop.set)
    loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
    daemon = await asyncio.to_thread(Daemon, load, folders)
    daemon.port_problem = port_problem
    daemon.http = next((one.address for one in listeners if one.path is None), "")
    mcp = Endpoint(daemon)
    port = next((one.policy for one in listeners if not one.policy.is_local), None)
    machines = _machines(daemon)
    window = PageWindow(Logins(logins_path(os.environ), port.token), machines) if port is not None else None
    ending = asyncio.Event()
    ended = False
    async with mcp.running(), asyncio.TaskGroup() as group:
        web, agents = [listeners[0], *listeners[2:]], listeners[1]
        group.create_task(serve(daemon, web, ending, mcp, window=window))
        group.create_task(stream.serve(daemon, agents.socket.dup(), mcp.workers, ending, Limits().grace_seconds))
        tasks = (
            _start(daemon, notifier, listeners),
            _reload_on_signal(daemon, notifier, signals),
            _notify_systemd(daemon, notifier),
            _trim(daemon),
        )
        running = [group.create_task(task) for task in tasks]
        await signals.stop.wait()
        logs.get().info("stop_begun", dreaming=daemon.info().dreaming)
        notifier.stopping("stopping; a dream that runs is checkpointed")
        for task in running:
            task.cancel()
        agents.close()  # its file goes, so that new agents find no daemon; those that are here have a copy of it
        ending.set()  # now: requests under way end in the same seconds as the dreams, or are cut off
        ended = await asyncio.to_thread(daemon.stop, STOP_SECONDS)
        if machines is not None:
            machines.close()
    logs.get().info("stopped", left_behind=not ended)
    if not ended or _has_lasting_threads():
        # A thread waits for a model or a disk. Its work is durable, and the next start goes on with it.
        sys.stderr.flush()
        os._exit(0)
    return 0


def _machines(daemon: "Daemon") -> "StatusWindow | None":
    """Return what shows the fleet that the configuration names; None, and nothing imported, without one."""
    if not daemon.config.fleet.database:
        return None
    from daemon.fleet.upkeep.window import StatusWindow

    return StatusWindow(daemon.config)


def _has_lasting_threads() -> bool:
    """Tell whether Python would wait for a thread before it ends."""
    return any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread())


async def _start(daemon: "Daemon", notifier: Notifier, listeners: list[Listener]) -> None:
    notifier.status("looking up the workspaces")
    began = time.monotonic()
    if not await guarded("start", asyncio.to_thread(daemon.start)):
        await asyncio.sleep(_RETRY_SECONDS)
        await _start(daemon, notifier, listeners)
        return
    info = daemon.info()
    notifier.ready(_summary(daemon))
    logs.get().info(
        "started",
        version=info.version,
        workspaces=len(info.workspaces),
        entrances=[one.address for one in listeners],
        seconds=round(time.monotonic() - began, 3),
    )
    for problem in info.problems:
        logs.get().warning("workspaces_wrong", problem=f"{problem.what}; {problem.advice}")


async def _reload_on_signal(daemon: "Daemon", notifier: Notifier, signals: _Signals) -> None:
    while True:
        await signals.reload.wait()
        signals.reload.clear()
        notifier.reloading()
        try:
            await asyncio.to_thread(daemon.reload)
        except Exception as error:  # noqa: BLE001 - nothing in a file ends the daemon
            logs.get().error("config_refused", error=error)
            notifier.ready(f"the new configuration is refused, the old one stands: {Problem.of(error).what}")
        else:
            logs.configure(daemon.config.log.form, daemon.config.log.level)
            logs.get().info("config_reloaded", workspaces=len(daemon.info().workspaces))
            notifier.ready(_summary(daemon))


async def _notify_systemd(daemon: "Daemon", notifier: Notifier) -> None:
    """Ping the watchdog while the scheduler ticks, and keep the line of `systemctl status` current."""
    if not notifier.is_heard:
        return
    reported_at = 0.0

    async def ping() -> None:
        nonlocal reported_at
        if daemon.unready_reason() or time.monotonic() - daemon.last_tick < _HANGS_SECONDS:
            notifier.watchdog()
        if time.monotonic() - reported_at > _STATUS_SECONDS and not daemon.unready_reason():
            reported_at = time.monotonic()
            notifier.status(_summary(daemon))

    while True:
        await asyncio.sleep(notifier.ping_seconds or _STATUS_SECONDS)
        await guarded("tell", ping())


async def _trim(daemon: "Daemon") -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        await guarded("rest", asyncio.to_thread(daemon.trim))


async def guarded(task: str, work: Awaitable[None]) -> bool:
    """Await the work and log its failure instead of raising it; return whether it succeeded."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - for example when no descriptor is left
        logs.get().error("helper_failed", task=task, error=error)
        return False
    return True


def _summary(daemon: "Daemon") -> str:
    info = daemon.info()
    refused = [one.problem.what for one in info.workspaces if one.problem is not None]
    text = f"{len(info.workspaces) - len(refused)} workspaces, {info.dreaming} dreaming"
    if refused:
        text += f"; {len(refused)} refused: {refused[0]}"
    return text
