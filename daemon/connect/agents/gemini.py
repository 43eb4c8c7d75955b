"""Gemini CLI: `settings.json` in `.gemini`, of a project or of the user. Times are in milliseconds there.

`trust` has it ask nobody for each call of this server; an untrusted folder turns off every server all the same.
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
from daemon.connect.edit import Setting, import_of

NAME = "gemini"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """Return the file of server and hooks, and what it reads if a file shows the memory."""
    folder = (place.home if place.scope is Scope.USER else place.project) / ".gemini"
    server = {**place.server(), "timeout": 300_000, "trust": True}
    hooks = (
        *([] if place.in_file else [hook("SessionStart", place.bootstrap(NAME), name=SERVER)]),
        hook("PreCompress", place.ingest(), name=SERVER),
        hook("SessionEnd", place.ingest(), name=SERVER, timeout=1000 * INGEST_SECONDS),
    )
    settings = (Setting(("mcpServers", SERVER), server), *hooks)
    file = AgentFile(folder / "settings.json", "its MCP server and hooks", settings)
    if not place.in_file:
        return (file,)
    imports = (import_of(".gemini/dreamd.md"),)
    shows = AgentFile(folder / "dreamd.md", "the memory", head="")
    return (file, shows, AgentFile(place.project / "GEMINI.md", "a line that has it read the memory", imports))


def _tries(own: Sequence[Setting], project: Path, environment: Mapping[str, str]) -> Iterable[CheckResult]:
    """Yield which settings turn its hooks off."""
    names = [folder / ".gemini" / "settings.json" for folder in (home(environment), project)]
    disabled = Setting(("hooksConfig", "disabled"), SERVER, item=True)
    return silenced(own, names, Setting(("hooksConfig", "enabled"), value=False), disabled)


GEMINI = Agent(
    NAME,
    "Gemini CLI",
    ("gemini",),
    (".gemini",),
    files,
    since=(0, 26),
    lists=("gemini", "mcp", "list"),
    knows=rf"^\W*{SERVER}: .* - Connected$",
    waits=rf"folder is untrusted|^\W*{SERVER}: .* - Disabled$",
    unknown="start 'gemini' once in the project, and trust the folder",
    tries=_tries,
    advice=("start 'gemini' once in the project, trust the folder and its hooks",),
)
