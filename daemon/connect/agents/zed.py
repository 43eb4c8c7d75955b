"""Zed: `settings.json` in `.zed` of a project, or in the user's folder. It runs no hooks."""

from collections.abc import Sequence

from daemon.connect.agent import SERVER, Agent, AgentFile, Place, Read, Scope
from daemon.connect.edit import Setting

NAME = "zed"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """Return the file of settings, which has the servers."""
    user = place.folder("XDG_CONFIG_HOME", ".config") / "zed"
    folder = user if place.scope is Scope.USER else place.project / ".zed"
    command, *arguments = place.server()
    server = {"source": "custom", "command": command, "args": arguments, "env": place.needed}
    setting = Setting(("context_servers", SERVER), server)
    return (AgentFile(folder / "settings.json", "its MCP server", (setting,)),)


ZED = Agent(
    NAME,
    "Zed",
    ("zed", "zeditor"),
    (".config/zed",),
    files,
    advice=("trust the project once in Zed; its Agent Panel shows then whether the server runs",),
)
