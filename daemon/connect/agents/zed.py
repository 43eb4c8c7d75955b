"""Zed: `settings.json` in `.zed` of a project, or in the user's folder. It runs no hooks."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from daemon.connect.agent import SERVER, Agent, AgentFile, CheckResult, Place, Read, Scope, State
from daemon.connect.edit import Setting

NAME = "zed"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """Return the file of settings, which has the servers."""
    user = place.folder("XDG_CONFIG_HOME", ".config") / "zed"
    folder = user if place.scope is Scope.USER else place.project / ".zed"
    setting = Setting(("context_servers", SERVER), {"source": "custom", **place.server()})
    return (AgentFile(folder / "settings.json", "its MCP server", (setting,)),)


def _tries(_: Sequence[Setting], project: Path, __: Mapping[str, str]) -> Iterable[CheckResult]:
    """Yield whether its rules have it ask for the memory; a file of ours would hide the others, for it reads one."""
    names = (".rules", ".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md")
    every = (project / name for name in (*names, "AGENT.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"))
    rules = next((path for path in every if path.is_file()), project / ".rules")
    if rules.is_file() and "memory_bootstrap" in rules.read_text(encoding="utf-8", errors="replace"):
        yield CheckResult(State.OK, f"{rules} has it ask for the memory")
    else:
        advice = f"add to {rules}: Begin every session with the tool memory_bootstrap."
        yield CheckResult(State.WAITS, "Zed shows no memory by itself, and no rule has it ask", advice)


ZED = Agent(
    NAME,
    "Zed",
    ("zed", "zeditor"),
    (".config/zed",),
    files,
    tries=_tries,
    advice=(
        "trust the project once; add to its rules (.rules, AGENTS.md): Begin every session with memory_bootstrap.",
    ),
)
