"""opencode: `opencode.json` of a project or of the user. It has no hooks: MEMORY.md is one of its instructions."""

from collections.abc import Sequence

from daemon.connect.agent import SERVER, Agent, AgentFile, Place, Read, Scope, Setting

NAME = "opencode"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """The one file, under the name that it has there."""
    user = place.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    folder = user if place.scope is Scope.USER else place.project
    path = next((one for one in (folder / "opencode.jsonc",) if one.is_file()), folder / "opencode.json")
    server: dict[str, object] = {"type": "local", "command": place.server(), "enabled": True}
    server |= {"environment": place.needed} if place.needed else {}
    settings = [Setting(("mcp", SERVER), server)]
    if place.workspace is not None:
        settings.append(Setting(("instructions",), str(place.workspace / "MEMORY.md"), item=True))
    return (AgentFile(path, "json", "its MCP server, and MEMORY.md as instructions", tuple(settings)),)


OPENCODE = Agent(
    NAME,
    "opencode",
    ("opencode",),
    (".config/opencode",),
    files,
    lists=("opencode", "mcp", "list"),
    knows=rf"{SERVER}.*connected",
    unknown="see 'opencode mcp list'",
    advice=("it runs no hooks: past sessions are read by 'dreamd ingest PATH'",),
)
