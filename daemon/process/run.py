"""The daemon as a process: its sockets, its signals, and what systemd is told.

SIGTERM and SIGINT end it within ten seconds: a dream that runs stops at its next node and goes on at the next start;
one that waits for a model is left, which costs nothing either (every step is durable). SIGHUP reads the configuration
again, and keeps the old one when the new one is bad.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.paths import socket_path, token
from daemon.config.settings import Config
from daemon.http.serve import serve
from daemon.http.sockets import Listener, open_port, open_socket
from daemon.mcp.http import Endpoint
from daemon.observability import logs
from daemon.process.sd_notify import Notifier
from daemon.service import malloc as thrift
from daemon.service.scheduler import TICK_SECONDS
from daemon.workspace.status import Problem
from state.errors import BusyError

if TYPE_CHECKING:
    from daemon.service.daemon import Daemon

# Of the ten seconds that SIGTERM has, what dreams may take; the rest is for answers under way.
STOP_SECONDS = 8.0
_STATUS_SECONDS = 30.0
_AGAIN_SECONDS = 5.0
# A looker that has not looked for so long hangs, and systemd may start the daemon anew.
_HANGS_SECONDS = 4 * TICK_SECONDS


@dataclass(slots=True)
class _Signals:
    """What was asked for by signals; set in the event loop."""

    stop: asyncio.Event
    reload: asyncio.Event


def run(load: Callable[[], Config], folders: tuple[Path, ...]) -> int:
    """Serve until a signal ends it; the exit status. `folders` are kept beside those of registry and configuration.

    Raises ConfigError for a bad configuration, BusyError when a daemon runs already.
    """
    config = load()
    logs.configure(config.log.form, config.log.level)
    thrift.share_arenas()
    # Many threads and little work each: whoever waits for an answer is not kept waiting for a dream's arithmetic.
    sys.setswitchinterval(0.001)
    entrances, shut = _entrances(config)
    try:
        return asyncio.run(_serve(load, folders, entrances, shut))
    finally:
        for entrance in entrances:
            entrance.close()


def _entrances(config: Config) -> tuple[list[Listener], Problem | None]:
    """The socket and the port. The port is the same for every user of the machine: taken, it is a problem."""
    found = [open_socket(socket_path(os.environ))]
    try:
        if config.http.port:
            found.append(open_port(config.http.host, config.http.port, token(os.environ)))
    except BusyError as error:
        return found, Problem(f"{error.what}; the daemon listens at its socket alone", error.advice)
    except BaseException:
        found[0].close()
        raise
    return found, None


async def _serve(
    load: Callable[[], Config], folders: tuple[Path, ...], entrances: list[Listener], shut: Problem | None
) -> int:
    from daemon.service.daemon import Daemon

    notifier = Notifier.from_environment(os.environ)
    signals = _Signals(asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.stop.set)
    loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
    service = await asyncio.to_thread(Daemon, load, folders)
    service.shut = shut
    service.http = next((one.address for one in entrances if one.path is None), "")
    mcp = Endpoint(service)
    closing = asyncio.Event()
    ended = False
    async with mcp.running(), asyncio.TaskGroup() as group:
        group.create_task(serve(service, entrances, closing, mcp))
        starting = group.create_task(_start(service, notifier, entrances))
        reloading = group.create_task(_reloading(service, notifier, signals))
        telling = group.create_task(_telling(service, notifier))
        resting = group.create_task(_resting(service))
        await signals.stop.wait()
        logs.get().info("stop_begun", dreaming=service.info().dreaming)
        notifier.stopping("stopping; a dream that runs is checkpointed")
        for task in (starting, reloading, telling, resting):
            task.cancel()
        closing.set()  # at once: what is being answered ends, or is cut off, in the same seconds as the dreams
        ended = await asyncio.to_thread(service.stop, STOP_SECONDS)
    logs.get().info("stopped", left_behind=not ended)
    if not ended or _is_held_up():
        # A thread waits for a model, or for a disk. What it has is durable, and the next start goes on with it.
        sys.stderr.flush()
        os._exit(0)
    return 0


def _is_held_up() -> bool:
    """Whether Python would wait for a thread before it ends."""
    return any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread())


async def _start(service: "Daemon", notifier: Notifier, entrances: list[Listener]) -> None:
    notifier.status("taking up the workspaces")
    began = time.monotonic()
    if not await guarded("start", asyncio.to_thread(service.start)):
        await asyncio.sleep(_AGAIN_SECONDS)
        await _start(service, notifier, entrances)
        return
    household = service.info()
    notifier.ready(_summary(service))
    logs.get().info(
        "started",
        version=household.version,
        workspaces=len(household.workspaces),
        refused=sum(one.problem is not None for one in household.workspaces),
        entrances=[one.address for one in entrances],
        seconds=round(time.monotonic() - began, 3),
    )
    for problem in household.problems:
        logs.get().warning("workspaces_wrong", problem=f"{problem.what}; {problem.advice}")


async def _reloading(service: "Daemon", notifier: Notifier, signals: _Signals) -> None:
    while True:
        await signals.reload.wait()
        signals.reload.clear()
        notifier.reloading()
        try:
            await asyncio.to_thread(service.reload)
        except Exception as error:  # noqa: BLE001 - nothing in a file ends the daemon
            logs.get().error("config_refused", error=error)
            notifier.ready(f"the new configuration is refused, the old one stands: {Problem.of(error).what}")
        else:
            logs.configure(service.config.log.form, service.config.log.level)
            logs.get().info("config_reloaded", workspaces=len(service.info().workspaces))
            notifier.ready(_summary(service))


async def _telling(service: "Daemon", notifier: Notifier) -> None:
    """The watchdog hears of a daemon that looks after its workspaces, and systemctl shows how it is."""
    if notifier.address is None:
        return
    told = 0.0

    async def tell() -> None:
        nonlocal told
        if service.unready_reason() or time.monotonic() - service.beat < _HANGS_SECONDS:
            notifier.watchdog()
        if time.monotonic() - told > _STATUS_SECONDS and not service.unready_reason():
            told = time.monotonic()
            notifier.status(_summary(service))

    while True:
        await asyncio.sleep(notifier.ping_seconds or _STATUS_SECONDS)
        await guarded("tell", tell())


async def _resting(service: "Daemon") -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        await guarded("rest", asyncio.to_thread(service.rest))


async def guarded(task: str, work: Awaitable[None]) -> bool:
    """Do it, and whether it was done: what a helper of the daemon's fails with is logged, and ends nothing."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - such as a table of descriptors that is full
        logs.get().error("helper_failed", task=task, error=error)
        return False
    return True


def _summary(service: "Daemon") -> str:
    household = service.info()
    refused = [one.problem.what for one in household.workspaces if one.problem is not None]
    said = f"{len(household.workspaces) - len(refused)} workspaces, {household.dreaming} dreaming"
    if refused:
        said += f"; {len(refused)} refused: {refused[0]}"
    return said
