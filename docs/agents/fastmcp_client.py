"""FastMCP's client with dreamd's tools and resources: what a host of your own would do, without a model.

    python fastmcp_client.py WORKSPACE "Ada prefers tea" "what does Ada drink?"

Needs fastmcp; dreamd may have an environment of its own (DREAMD says where it is, if it is not on the PATH).
"""
# ruff: noqa: T201 - an example: it prints, and reads its own environment

import asyncio
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def main(workspace: str, note: str, query: str) -> None:
    """Wake up, keep a note, and find it."""
    # A server gets next to nothing of the environment by itself, and the daemon's socket is found by XDG_RUNTIME_DIR.
    server = StdioTransport(os.environ.get("DREAMD", "dreamd"), ["mcp", "-w", workspace], env=dict(os.environ))
    async with Client(server) as memory:
        (woken,) = await memory.read_resource("memory://bootstrap")
        print(woken.text)
        await memory.call_tool("working_memory_note", {"note": note, "importance": 0.8})
        found = await memory.call_tool("memory_search", {"query": query})
        print("\n".join(part.text for part in found.content))
        await memory.call_tool("dream_now", {"reason": "session-end", "wait": False})


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
