"""Serving: a process of the fleet in the foreground: its port, its signals and its shutdown."""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from importlib.metadata import version
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from daemon.config.paths import token
from daemon.config.settings import Config
from daemon.fleet.connections import connect, isolate, own_folder
from daemon.http.sockets import Listener, open_port
from daemon.observability import logs
from state.errors import ConfigError, UnreachableError

if TYPE_CHECKING:
    from daemon.fleet.process import FleetProcess

Result = TypeVar("Result")
# With the default of fleet.drain_seconds, a process is gone ten seconds after SIGTERM.
_STOP_SECONDS = 5.0
# The port closes when everything is given back, or after this long; else calls that other processes forward are lost.
_GIVE_BACK_SECONDS = 1.5
# By then nobody forwards a call because of what was known before.
_LATE_SECONDS = 0.3
_RETRY_SECONDS = 1.0
_CONNECTIONS = 16


def retry_until_reachable(act: Callable[[], Result]) -> Result:
    """Call `act`, each second again while PostgreSQL or the object store is unreachable; return its result."""
    is_told = False
    while True:
        try:
            return act()
        except UnreachableError as error:
            if not is_told:
                logs.get().warning("start_delayed", error=error)
            is_told = True
            time.sleep(_RETRY_SECONDS)


def run(config: Config) -> int:
    """Serve tenants and dream until a signal; return the exit status. Raise ConfigError and BusyError."""
    logs.configure(config.log.form, config.log.level)
    sys.setswitchinterval(0.001)
    operators = token(os.environ)
    connections = retry_until_reachable(
        lambda: connect(config, os.environ, size=config.fleet.dreams_at_once + _CONNECTIONS)
    )
    with own_folder(config, os.environ, "process") as folder:
        isolate(folder, os.environ)
        fleet, own = config.fleet, connections.database.own_ip()
        with closing(open_port(fleet.host or own, fleet.port, operators, "fleet", "any free one")) as listener:
            from daemon.fleet.process import FleetProcess

            address = fleet.address or address_for_others(listener.address, own, socket.gethostname())
            process = FleetProcess(config, connections, folder, address)
            if asyncio.run(_serve(process, config, listener, operators)):
                connections.close()
        sys.stderr.flush()
        # Threads of libraries may still wait for a model or a disk; everything acknowledged is durable.
        os._exit(0)


async def _serve(process: "FleetProcess", config: Config, listener: Listener, operators: str) -> bool:
    from daemon.fleet.doors import serve_doors
    from daemon.fleet.jobs import Sweeper, job_queue
    from daemon.fleet.lifetime import every
    from daemon.fleet.upkeep.removal import delete_late, finish_removals

    stop, hurry, closing = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def end(number: int) -> None:
        if number == signal.SIGINT or stop.is_set():
            hurry.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    await asyncio.to_thread(retry_until_reachable, process.start)
    fleet = config.fleet
    jobs = process.jobs.run
    ending, grace = threading.Event(), fleet.drain_seconds + _STOP_SECONDS + 1.0
    queue = job_queue(fleet.database, fleet.dreams_at_once, process.queue, jobs, ending, grace)
    queue.start()
    every(1.0, "sweep", Sweeper(process.database).sweep, process.stopping)
    every(15.0, "removal", partial(delete_late, process.database, process.objects), process.stopping)
    # Rarely, so that the process that began a removal can finish it and count what it deleted.
    every(300.0, "removal", partial(finish_removals, process.database, process.objects), process.stopping)
    logs.get().info("started", version=version("dreamd"), entrances=[listener.address])
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_doors(process, listener, operators, closing))
        await stop.wait()
        logs.get().info("stop_begun", dreaming=process.work.dreams.running)
        ending.set()
        await _drain(process, fleet.drain_seconds, hurry)
        began = time.monotonic()
        stopping = group.create_task(asyncio.to_thread(process.stop, _STOP_SECONDS))
        await asyncio.wait([stopping], timeout=_GIVE_BACK_SECONDS)
        await asyncio.sleep(_LATE_SECONDS)
        closing.set()
        ended = await stopping
        # Meanwhile fetched jobs that have not begun are put off, or they would count as died.
        left = max(1.0, _STOP_SECONDS + 1.0 - (time.monotonic() - began))
        await asyncio.to_thread(queue.join, left)
    logs.get().info("stopped", left_behind=not ended)
    return ended


def address_for_others(address: str, own_ip: str, host: str) -> str:
    """Return the address where other processes reach a listener.

    `own_ip`: by which this machine reaches the database; a loopback address if that is on this machine, which then is
    called `host`. Raise ConfigError if the listener can be reached from this machine alone, and others may be part of
    the fleet.
    """
    parts = urlsplit(address)
    listens, own = ip_address(parts.hostname or ""), ip_address(own_ip)
    if listens.is_unspecified:
        name = host if own.is_loopback else f"[{own}]" if own.version == 6 else str(own)
        return f"{parts.scheme}://{name}:{parts.port}"
    if listens.is_loopback and not own.is_loopback:
        raise ConfigError(
            f"no other machine of the fleet reaches {address}",
            f"set fleet.host to {own}, to 0.0.0.0 or to nothing; or fleet.address to where a proxy reaches this one",
        )
    return address


async def _drain(process: "FleetProcess", seconds: float, hurry: asyncio.Event) -> None:
    """Serve for so long as an unready process, until balancers send it nothing more, or until a second signal."""
    told = asyncio.create_task(asyncio.to_thread(process.lifetime.drain))
    with suppress(TimeoutError):
        await asyncio.wait_for(hurry.wait(), seconds)
    told.cancel()
