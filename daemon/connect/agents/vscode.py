"""VS Code: `mcp.json` in `.vscode`, or in the user's folder. A file of instructions has the memory."""

from collections.abc import Sequence

from daemon.connect.agent import SERVER, Agent, AgentFile, Place, Read, Scope
from daemon.connect.edit import Setting

NAME = "vscode"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """Return the file of servers, and in a project the one that shows the memory."""
    user = place.folder("XDG_CONFIG_HOME", ".config") / "Code" / "User"
    folder = user if place.scope is Scope.USER else place.project / ".vscode"
    server = {"type": "stdio", **place.server()}
    servers = AgentFile(folder / "mcp.json", "its MCP server", (Setting(("servers", SERVER), server),))
    if place.scope is Scope.USER:
        return (servers,)
    shows = place.project / ".github" / "instructions" / "dreamd.instructions.md"
    return (servers, AgentFile(shows, "the memory as instructions", head='---\napplyTo: "**"\n---\n'))


VSCODE = Agent(
    NAME,
    "VS Code",
    ("code", "code-insiders"),
    (".config/Code",),
    files,
    advice=("start the server once from its mcp.json",),
)
