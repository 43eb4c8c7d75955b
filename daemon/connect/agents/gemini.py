"""Gemini CLI: `settings.json` in `.gemini`, of a project or of the user. Times are in milliseconds there.

`trust` has it ask nobody for each call of this server; an untrusted folder turns off every server all the same.
"""

from collections.abc import Sequence

from daemon.connect.agent import INGEST_SECONDS, SERVER, Agent, AgentFile, Place, Read, Scope, Setting, hook

NAME = "gemini"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """The one file: server and hooks."""
    folder = (place.home if place.scope is Scope.USER else place.project) / ".gemini"
    command, *arguments = place.server()
    server = {"command": command, "args": arguments, "env": place.needed, "timeout": 300_000, "trust": True}
    hooks = (
        hook("SessionStart", place.bootstrap(NAME), name=SERVER),
        hook("PreCompress", place.ingest(), name=SERVER),
        hook("SessionEnd", place.ingest(), name=SERVER, timeout=1000 * INGEST_SECONDS),
    )
    settings = (Setting(("mcpServers", SERVER), server), *hooks)
    return (AgentFile(folder / "settings.json", "json", "its MCP server and hooks", settings),)


GEMINI = Agent(
    NAME,
    "Gemini CLI",
    ("gemini",),
    (".gemini",),
    files,
    lists=("gemini", "mcp", "list"),
    knows=rf"{SERVER}.*Connected",
    unknown="start 'gemini' once in the project, and trust the folder",
    advice=("start 'gemini' once in the project, trust the folder and its hooks",),
)
