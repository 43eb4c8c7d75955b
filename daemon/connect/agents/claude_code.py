"""Claude Code: `.mcp.json` and `.claude/settings.local.json` of a project, or the user's own two files.

As of 2.1.330: a hook's output goes into the context up to 10,000 characters; the hooks at the end of a session have
1.5 seconds together unless they name a time. `alwaysLoad` has the tools there before the first request, which is sent
after a second or two. A tool that nobody allowed fails where nobody can be asked.
"""

from collections.abc import Sequence

from daemon.connect.agent import INGEST_SECONDS, SERVER, Agent, AgentFile, Place, Read, Scope, Setting, hook

NAME = "claude-code"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """The file of servers, and the one of hooks and permissions.

    A project's settings are the personal ones: paths of one machine are nobody else's.
    """
    own = place.folder("CLAUDE_CONFIG_DIR", ".claude")
    command, *arguments = place.server()
    server: dict[str, object] = {"type": "stdio", "command": command, "args": arguments}
    server |= {"env": place.needed, "alwaysLoad": True}
    hooks = (
        hook("SessionStart", place.bootstrap(NAME)),
        hook("PreCompact", place.ingest()),
        hook("SessionEnd", place.ingest(), timeout=INGEST_SECONDS),
    )
    allowed = Setting(("permissions", "allow"), f"mcp__{SERVER}", item=True)
    memory = () if place.auto_memory else (Setting(("autoMemoryEnabled",), value=False),)
    if place.scope is Scope.USER:
        # With a folder of its own the file of servers lies in it, else beside it.
        approved: tuple[Setting, ...] = ()
        beside = own / ".claude.json" if place.environment.get("CLAUDE_CONFIG_DIR") else place.home / ".claude.json"
        servers, settings = beside, own / "settings.json"
    else:
        servers, settings = place.project / ".mcp.json", place.project / ".claude" / "settings.local.json"
        approved = (Setting(("enabledMcpjsonServers",), SERVER, item=True),)
    return (
        AgentFile(servers, "json", "its MCP server", (Setting(("mcpServers", SERVER), server),)),
        AgentFile(settings, "json", "its hooks and permissions", (*hooks, allowed, *approved, *memory)),
    )


CLAUDE_CODE = Agent(
    NAME,
    "Claude Code",
    ("claude",),
    (".claude",),
    files,
    lists=("claude", "mcp", "get", SERVER),
    knows="Connected",
    waits="Pending approval",
    unknown="start 'claude' once in the project, and trust the folder",
    advice=(
        "it keeps an auto memory of its own beside; 'dreamd connect claude-code --no-auto-memory' turns that off",
    ),
)
