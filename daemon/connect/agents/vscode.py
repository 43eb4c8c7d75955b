"""VS Code: `mcp.json` in `.vscode`, or in the user's folder. What its agent is to know has to be in AGENTS.md."""

from collections.abc import Sequence

from daemon.connect.agent import SERVER, Agent, AgentFile, Place, Read, Scope
from daemon.connect.edit import Setting

NAME = "vscode"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """The file of servers."""
    user = place.folder("XDG_CONFIG_HOME", ".config") / "Code" / "User"
    folder = user if place.scope is Scope.USER else place.project / ".vscode"
    command, *arguments = place.server()
    server = {"type": "stdio", "command": command, "args": arguments, "env": place.needed}
    return (AgentFile(folder / "mcp.json", "its MCP server", (Setting(("servers", SERVER), server),)),)


VSCODE = Agent(
    NAME,
    "VS Code",
    ("code", "code-insiders"),
    (".config/Code",),
    files,
    advice=("start the server once from its mcp.json; 'dreamd block add AGENTS.md' gives it the memory",),
)
