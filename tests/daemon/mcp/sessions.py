"""An agent that has the tools of session working memory."""

from typing import Any

from mcp import Client

from daemon.config.settings import Config, McpSection
from state.stores.disk.workspace import Workspace
from tests.daemon.mcp.agents import asking, in_process, told

CONFIG = Config(mcp=McpSection(toolsets=("memory", "sessions")))


def agent(here: Workspace, mode: str = "auto") -> Any:
    return in_process(asking(here, CONFIG), mode, CONFIG)


async def added(client: Client, content: str = "a thought", priority: str = "high", **more: Any) -> Any:
    return await told(
        client, "working_memory_add", **{"session_id": "s", "content": content, "priority": priority, **more}
    )
