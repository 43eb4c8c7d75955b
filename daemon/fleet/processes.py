"""Processes: a worker or a gateway in the foreground, with its port, its signals and its end."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from daemon.config.paths import token
from daemon.config.settings import Config
from daemon.fleet.connections import Connections, connect, isolate, own_folder
from daemon.http.serve import serve
from daemon.http.sockets import Listener, PortKeys, open_port
from daemon.observability import logs
from state.errors import UnreachableError

if TYPE_CHECKING:
    from daemon.fleet.gateways.gateway import Gateway
    from daemon.fleet.workers.worker import Worker

Result = TypeVar("Result")

# Of the ten seconds after SIGTERM.
_STOP_SECONDS = 8.0
_TRIM_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_GATEWAY_CONNECTIONS = 12
_WORKER_KEYS = PortKeys("fleet.host", "fleet.worker_port", "any free one")
_GATEWAY_KEYS = PortKeys("fleet.host", "fleet.gateway_port", "any free one")


def prepare(config: Config) -> None:
    """Set up what every process of the fleet begins with: logs, memory, threads."""
    logs.configure(config.log.form, config.log.level)
    sys.setswitchinterval(0.001)


def patiently(act: Callable[[], Result]) -> Result:
    """Do it as soon as PostgreSQL and the object store can be reached: a process that starts waits for them."""
    is_told = False
    while True:
        try:
            return act()
        except UnreachableError as error:
            if not is_told:
                logs.get().warning("start_delayed", error=error)
            is_told = True
            time.sleep(_RETRY_SECONDS)


def run_worker(load: Callable[[], Config]) -> int:
    """Own workspaces and dream until a signal; return the exit status. Raise ConfigError and BusyError."""
    config = load()
    prepare(config)
    connections = patiently(lambda: connect(config, os.environ, size=config.fleet.dreams_at_once + 12))
    folder = own_folder(config, os.environ, "worker")
    isolate(folder.path, os.environ)
    secret = os.urandom(32).hex()
    listener = open_port(config.fleet.host, config.fleet.worker_port, secret, _WORKER_KEYS)
    try:
        from daemon.fleet.workers.worker import Worker

        address = config.fleet.address or public_address(listener.address, socket.gethostname())
        worker = Worker(lambda: config, connections, folder.path, address, secret)
        ended = asyncio.run(_serve_worker(worker, connections, config, listener))
    finally:
        listener.close()
    if ended:
        connections.close()
        folder.close()
    sys.stderr.flush()
    # Threads of libraries may wait for a model or a disk; all that was acknowledged is durable.
    os._exit(0)


async def _serve_worker(worker: "Worker", connections: "Connections", config: Config, listener: Listener) -> bool:
    from daemon.fleet.upkeep.removal import remover
    from daemon.fleet.workers.queue import Queue
    from daemon.fleet.workers.sweeper import Sweeper

    stop, closing = stop_event(), asyncio.Event()
    await asyncio.to_thread(patiently, worker.start)
    database = worker.database
    queue = Queue(
        config.fleet.database,
        config.fleet.dreams_at_once,
        worker.lifetime.worker.queue,
        worker.run_job,
        worker.stopping,
    )
    sweeper = Sweeper(database, worker.stopping)
    queue.thread.start()
    sweeper.thread.start()
    remover(database, connections.objects, worker.stopping).start()
    logs.get().info("started", version=worker.info().version, entrances=[listener.address])
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(worker, [listener], closing))
        trimming = group.create_task(_trim(worker))
        await stop.wait()
        logs.get().info("stop_begun", dreaming=worker.info().dreaming)
        trimming.cancel()
        began = time.monotonic()
        ended = await asyncio.to_thread(worker.stop, _STOP_SECONDS)
        # A job that has ended is told to Procrastinate: its lock would hold up the workspace.
        left = max(1.0, _STOP_SECONDS + 1.0 - (time.monotonic() - began))
        await asyncio.to_thread(queue.thread.join, left)
        closing.set()
    logs.get().info("stopped", left_behind=not ended)
    return ended


def run_gateway(load: Callable[[], Config]) -> int:
    """Serve tenants until a signal; return the exit status. Raise ConfigError and BusyError."""
    config = load()
    prepare(config)
    operators = token(os.environ)
    connections = patiently(lambda: connect(config, os.environ, size=_GATEWAY_CONNECTIONS))
    folder = own_folder(config, os.environ, "gateway")
    isolate(folder.path, os.environ)
    listener = open_port(config.fleet.host, config.fleet.gateway_port, operators, _GATEWAY_KEYS)
    try:
        from daemon.fleet.gateways.gateway import Gateway

        gateway = Gateway(load, connections, folder.path)
        asyncio.run(_serve_gateway(gateway, listener, operators))
    finally:
        listener.close()
    connections.close()
    folder.close()
    sys.stderr.flush()
    # A thread may wait for a worker that thinks; what that does is its own.
    os._exit(0)


async def _serve_gateway(gateway: "Gateway", listener: Listener, operators: str) -> None:
    from daemon.fleet.gateways.serving import serve_gateway

    stop = stop_event()
    await asyncio.to_thread(patiently, lambda: gateway.start(listener.address))
    logs.get().info("started", version=gateway.info().version, entrances=[listener.address])
    await serve_gateway(gateway, listener, operators, stop)
    await asyncio.to_thread(gateway.stop)
    logs.get().info("stopped", left_behind=False)


async def _trim(worker: "Worker") -> None:
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        await asyncio.to_thread(worker.trim)


def public_address(address: str, host: str) -> str:
    """Return the address at which other machines reach a listener; one on all addresses is named by `host`."""
    return address.replace("//0.0.0.0:", f"//{host}:").replace("//[::]:", f"//{host}:")


def stop_event() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
