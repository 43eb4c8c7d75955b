"""Claude Code: `.mcp.json` and `.claude/settings.local.json` of a project, or the user's own two files.

As of 2.1.330: a hook's output goes into the context up to 10,000 characters; the hooks at the end of a session have
1.5 seconds together unless they name a time. `alwaysLoad` has the tools there before the first request, which is sent
after a second or two. A tool that nobody allowed fails where nobody can be asked. Hooks at session start came with
1.0.62, rules with 2.0.64.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from daemon.config.paths import home
from daemon.connect.agent import (
    INGEST_SECONDS,
    SERVER,
    Agent,
    AgentFile,
    CheckResult,
    Place,
    Read,
    Scope,
    hook,
    silenced,
)
from daemon.connect.edit import Setting

NAME = "claude-code"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """Return the file of servers, and the one of hooks and permissions; first the rule if it shows the memory.

    A project's settings are the personal ones: paths of one machine are nobody else's.
    """
    own = place.folder("CLAUDE_CONFIG_DIR", ".claude")
    server = {"type": "stdio", **place.server(), "alwaysLoad": True}
    hooks = (
        *([] if place.in_file else [hook("SessionStart", place.bootstrap(NAME))]),
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
    shows = AgentFile(place.project / ".claude" / "rules" / "dreamd.md", "the memory as a rule", head="")
    return (
        *([shows] if place.in_file else []),
        AgentFile(servers, "its MCP server", (Setting(("mcpServers", SERVER), server),)),
        AgentFile(settings, "its hooks and permissions", (*hooks, allowed, *approved, *memory)),
    )


def _tries(own: Sequence[Setting], project: Path, environment: Mapping[str, str]) -> Iterable[CheckResult]:
    """Yield which settings turn its hooks off."""
    folder = Path(environment.get("CLAUDE_CONFIG_DIR") or home(environment) / ".claude")
    names = (folder / "settings.json", *(project / ".claude" / f"settings{kind}.json" for kind in ("", ".local")))
    return silenced(own, names, Setting(("disableAllHooks",), value=True))


CLAUDE_CODE = Agent(
    NAME,
    "Claude Code",
    ("claude",),
    (".claude",),
    files,
    since=(1, 0, 62),
    since_file=(2, 0, 64),
    lists=("claude", "mcp", "get", SERVER),
    knows=r"^ *Status: \W*Connected$",
    waits=r"^ *Status: \W*Pending approval|servers are awaiting approval",
    unknown="start 'claude' once in the project, and trust the folder",
    tries=_tries,
    advice=(
        "it keeps an auto memory of its own beside; 'dreamd connect claude-code --no-auto-memory' turns that off",
    ),
)
