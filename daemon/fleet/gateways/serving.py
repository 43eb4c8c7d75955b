"""Serving: a gateway's port: authentication in front of the daemon's HTTP application and MCP, until it stops."""

import asyncio
from typing import TYPE_CHECKING

from daemon.api.workers import Limits, Workers
from daemon.fleet.gateways.authentication import Authentication
from daemon.mcp.http import Endpoint

if TYPE_CHECKING:
    from daemon.fleet.gateways.gateway import Gateway
    from daemon.http.sockets import Listener

# Many tenants come from the one address of a balancer.
LIMITS = Limits(
    short_threads=128,
    long_threads=64,
    threads_of_an_owner=24,
    requests=2_048,
    connections=4_096,
    waiting=2_048,
    grace_seconds=8,
)


async def serve_gateway(
    gateway: "Gateway",
    listener: "Listener",
    operator_token: str,
    stop: asyncio.Event,
    limits: Limits = LIMITS,
) -> None:
    """Answer at this listener until `stop` is set; requests under way have `limits.grace_seconds` to end."""
    from daemon.fleet.gateways.own_answers import own_answers
    from daemon.http.app import application
    from daemon.http.serve import server

    workers = Workers(limits, gateway.owner_of)
    door = Authentication(gateway.bearers, operator_token)
    mcp = Endpoint(gateway, limits, gateway.owner_of)
    door.inside = application(gateway, door.inner_policy, workers, mcp)
    door.own = own_answers(gateway, door.inner_policy, workers)
    try:
        async with mcp.running(), asyncio.TaskGroup() as group:
            group.create_task(server(door, workers).serve([listener.socket.dup()]))
            await stop.wait()
            listener.close()
            workers.stopping.set()
    finally:
        listener.close()
        door.close()
        await workers.close()
