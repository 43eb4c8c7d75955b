"""Cursor: `mcp.json` and `hooks.json` in `.cursor`, of a project or of the user."""

from collections.abc import Sequence

from daemon.connect.agent import SERVER, Agent, AgentFile, Place, Read, Scope
from daemon.connect.edit import Setting

NAME = "cursor"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """Return the file of servers, the one of hooks, and the rule if it shows the memory."""
    folder = (place.home if place.scope is Scope.USER else place.project) / ".cursor"
    hooks = tuple(
        Setting(("hooks", event), {"command": line}, item=True)
        for event, line in (
            *([] if place.in_file else [("sessionStart", place.bootstrap(NAME))]),
            ("preCompact", place.ingest()),
            ("sessionEnd", place.ingest()),
        )
    )
    shows = AgentFile(folder / "rules" / "dreamd.mdc", "the memory as a rule", head="---\nalwaysApply: true\n---\n")
    return (
        *([shows] if place.in_file else []),
        AgentFile(folder / "mcp.json", "its MCP server", (Setting(("mcpServers", SERVER), place.server()),)),
        AgentFile(folder / "hooks.json", "its hooks", (Setting(("version",), 1), *hooks)),
    )


CURSOR = Agent(
    NAME,
    "Cursor",
    ("cursor", "cursor-agent"),
    (".cursor",),
    files,
    lists=("cursor-agent", "mcp", "list"),
    knows=rf"^\W*{SERVER}: *(ready|connected)",
    waits=rf"^\W*{SERVER}: .*(needs approval|not loaded|disabled)",
    unknown="enable the server in Cursor's settings, under MCP",
    advice=("enable the server once in its settings, under MCP",),
)
