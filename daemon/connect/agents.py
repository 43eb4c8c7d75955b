"""Agents: those that dreamd connects, each with its files, as of November 2026, and which of them are installed."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from daemon.config.paths import home
from daemon.connect.agent import (
    SERVER,
    Agent,
    AgentFile,
    CheckResult,
    Place,
    Read,
    Scope,
    State,
    ask,
    commands_in,
    format_of,
    run,
    running,
)
from daemon.connect.edit import Setting, at, holds, import_of
from state.errors import DreamdError, UsageError
from state.text.words import counted

# Without a time of its own an agent ends a hook early; a long session is read in less.
_INGEST_SECONDS = 60


def _hooks(place: Place, *events: tuple[str, str, Mapping[str, object]]) -> tuple[Setting, ...]:
    """Return the commands that an agent runs at these events, in the form that most took over from Claude Code.

    A file in place of the hook at the start of a session leaves that one out.
    """
    return tuple(
        Setting(("hooks", event), {"hooks": [{"type": "command", "command": command, **more}]}, item=True)
        for event, command, more in events
        if event != "SessionStart" or not place.in_file
    )


def _silenced(own: Sequence[Setting], files: Iterable[Path], *settings: Setting) -> Iterator[CheckResult]:
    """Yield what keeps a hook from showing the memory: one of these settings, in one of these files."""
    for path in files if any(one.path[-1] == "SessionStart" for one in own) else ():
        with suppress(OSError, ValueError, DreamdError):
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            for setting in settings:
                if text and holds(format_of(path), text, setting):
                    what = f"{path} has {'.'.join(setting.path)}, so no hook shows the memory"
                    yield CheckResult(State.WRONG, what, "take that out of the file")


# Claude Code, 2.1.330: a hook's output goes into the context up to 10,000 characters; the hooks at the end of a
# session have 1.5 seconds together unless they name a time. `alwaysLoad` has the tools there before the first
# request, which is sent after a second or two. A tool that nobody allowed fails where nobody can be asked. A
# project's settings are the personal ones: paths of one machine are nobody else's.


def _claude_code(place: Place, _: Read) -> Sequence[AgentFile]:
    own = place.folder("CLAUDE_CONFIG_DIR", ".claude")
    server = Setting(("mcpServers", SERVER), {"type": "stdio", **place.server(), "alwaysLoad": True})
    hooks = _hooks(
        place,
        ("SessionStart", place.bootstrap("claude-code"), {}),
        ("PreCompact", place.ingest(), {}),
        ("SessionEnd", place.ingest(), {"timeout": _INGEST_SECONDS}),
    )
    allowed = [Setting(("permissions", "allow"), f"mcp__{SERVER}", item=True)]
    if place.scope is Scope.USER:
        # With a folder of its own the file of servers lies in it, else beside it.
        servers = (own if place.environment.get("CLAUDE_CONFIG_DIR") else place.home) / ".claude.json"
        settings = own / "settings.json"
    else:
        servers, settings = place.project / ".mcp.json", place.project / ".claude" / "settings.local.json"
        allowed.append(Setting(("enabledMcpjsonServers",), SERVER, item=True))
    if not place.auto_memory:
        allowed.append(Setting(("autoMemoryEnabled",), value=False))
    rule = AgentFile(place.project / ".claude" / "rules" / "dreamd.md", "the memory as a rule", head="")
    return (
        *([rule] if place.in_file else []),
        AgentFile(servers, "its MCP server", (server,)),
        AgentFile(settings, "its hooks and permissions", (*hooks, *allowed)),
    )


def _tries_claude_code(
    own: Sequence[Setting], project: Path, environment: Mapping[str, str]
) -> Iterable[CheckResult]:
    folder = Path(environment.get("CLAUDE_CONFIG_DIR") or home(environment) / ".claude")
    names = (folder / "settings.json", *(project / ".claude" / f"settings{kind}.json" for kind in ("", ".local")))
    return _silenced(own, names, Setting(("disableAllHooks",), value=True))


# Codex, 0.169.0: it ends a SessionEnd hook after 3 seconds and takes some 2,500 tokens of a SessionStart hook's
# output; a session that a background server keeps runs no SessionEnd at all, which is why Stop has the transcript
# read as well. A `required` server that does not start keeps Codex from starting, so ours is none; others have one
# second before the first turn, which `dreamd mcp` needs for itself where no daemon runs, so they are given more. The
# files of a project that is not trusted count for nothing, and hooks that nobody trusted are skipped; `codex exec`
# says neither.

_CODEX_MOST_SECONDS, _CODEX_USUAL_SECONDS = 3, 600
# The first turn goes without the tools of a server that is not ready then. Whoever has set it keeps what they have.
_GRACE = Setting(("mcp_optional_startup_grace_ms",), 10_000)


def _codex(place: Place, read: Read) -> Sequence[AgentFile]:
    """Return the file of server and hooks; with trust, also the user's own file, which says that they are trusted."""
    own = place.folder("CODEX_HOME", ".codex") / "config.toml"
    path = place.settings_in(".codex", own.parent) / "config.toml"
    server = {name: value for name, value in place.server().items() if value}  # no empty table
    # dream_now waits for a model. Codex writes such numbers with a point when it changes another server.
    server |= {"startup_timeout_sec": 30.0, "tool_timeout_sec": 300.0}
    hooks = _hooks(
        replace(place, in_file=False),  # it reads no such file
        ("SessionStart", place.bootstrap("codex"), {}),
        ("PreCompact", place.ingest(), {}),
        ("Stop", place.ingest(), {}),
        ("SessionEnd", place.ingest(), {"timeout": _CODEX_MOST_SECONDS}),
    )
    grace = () if at(read(path, ()), _GRACE.path) is not None else (_GRACE,)
    settings = (Setting(("mcp_servers", SERVER), server), *hooks, *grace)
    trusted = [_codex_trusts(path, one, read(path, settings)) for one in hooks] if place.trust else []
    if path == own:
        return (AgentFile(own, "its MCP server and hooks", (*settings, *trusted)),)
    project = Setting(("projects", str(place.project), "trust_level"), "trusted")
    file = AgentFile(path, "its MCP server and hooks", settings)
    return (file, AgentFile(own, "that you trust them", (project, *trusted))) if place.trust else (file,)


def _codex_trusts(path: Path, hook: Setting, known: object) -> Setting:
    """Return that the user trusts a hook, by its place in the file and the digest of what it runs."""
    groups = at(known, hook.path)
    assert isinstance(groups, list)
    event = re.sub(r"(?<!^)(?=[A-Z])", "_", hook.path[-1]).lower()
    hooks = at(hook.value, ["hooks"])
    assert isinstance(hooks, list)
    about = [{"async": False, "timeout": _CODEX_USUAL_SECONDS, **one} for one in hooks]
    text = json.dumps(
        {"event_name": event, "hooks": about}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    key, digest = f"{path}:{event}:{groups.index(hook.value)}:0", hashlib.sha256(text.encode()).hexdigest()
    return Setting(("hooks", "state", key, "trusted_hash"), f"sha256:{digest}")


def _tries_codex(settings: Sequence[Setting], project: Path, environment: Mapping[str, str]) -> Iterable[CheckResult]:
    """Yield whether Codex runs the hooks, asked as its own windows ask it."""
    own = {command for one in settings for command in commands_in(one)}
    advice = "'dreamd connect codex --trust', or start 'codex' there, trust the folder and allow them with /hooks"
    client = {"clientInfo": {"name": SERVER, "version": "1"}}
    try:
        with running(["codex", "app-server"], project, environment) as server:
            ask(server, {"id": 1, "method": "initialize", "params": client})
            listing = {"id": 2, "method": "hooks/list", "params": {"cwds": [str(project)]}}
            listed = ask(server, {"method": "initialized"}, listing)
    except (OSError, ValueError) as error:
        yield CheckResult(State.WRONG, f"'codex app-server' does not say whether hooks run: {error}", advice)
        return
    hooks = [each for one in listed.get("data", ()) for each in one.get("hooks", ()) if each.get("command") in own]
    skipped = [str(one.get("eventName")) for one in hooks if one.get("trustStatus") != "trusted"]
    if len({one.get("eventName") for one in hooks}) < sum(one.path[0] == "hooks" and one.item for one in settings):
        yield CheckResult(State.WAITS, f"Codex sees {len(hooks) or 'none'} of the hooks", advice)
    elif skipped:
        yield CheckResult(State.WAITS, f"Codex skips the hooks of {', '.join(skipped)}", advice)
    else:
        yield CheckResult(State.OK, f"Codex runs {counted(len(hooks), 'hook')}")


def _cursor(place: Place, _: Read) -> Sequence[AgentFile]:
    folder = place.settings_in(".cursor")
    events = {"sessionStart": place.bootstrap("cursor"), "preCompact": place.ingest(), "sessionEnd": place.ingest()}
    if place.in_file:
        del events["sessionStart"]
    hooks = [Setting(("hooks", event), {"command": command}, item=True) for event, command in events.items()]
    rule = AgentFile(folder / "rules" / "dreamd.mdc", "the memory as a rule", head="---\nalwaysApply: true\n---\n")
    return (
        *([rule] if place.in_file else []),
        AgentFile(folder / "mcp.json", "its MCP server", (Setting(("mcpServers", SERVER), place.server()),)),
        AgentFile(folder / "hooks.json", "its hooks", (Setting(("version",), 1), *hooks)),
    )


# Gemini CLI: times are in milliseconds. `trust` has it ask nobody for each call of this server; an untrusted folder
# turns off every server all the same.


def _gemini(place: Place, _: Read) -> Sequence[AgentFile]:
    folder, name = place.settings_in(".gemini"), {"name": SERVER}
    server = Setting(("mcpServers", SERVER), {**place.server(), "timeout": 300_000, "trust": True})
    hooks = _hooks(
        place,
        ("SessionStart", place.bootstrap("gemini"), name),
        ("PreCompress", place.ingest(), name),
        ("SessionEnd", place.ingest(), {**name, "timeout": 1000 * _INGEST_SECONDS}),
    )
    file = AgentFile(folder / "settings.json", "its MCP server and hooks", (server, *hooks))
    if not place.in_file:
        return (file,)
    imports = (import_of(".gemini/dreamd.md"),)
    shows = AgentFile(folder / "dreamd.md", "the memory", head="")
    return (file, shows, AgentFile(place.project / "GEMINI.md", "a line that has it read the memory", imports))


def _tries_gemini(own: Sequence[Setting], project: Path, environment: Mapping[str, str]) -> Iterable[CheckResult]:
    names = [folder / ".gemini" / "settings.json" for folder in (home(environment), project)]
    disabled = Setting(("hooksConfig", "disabled"), SERVER, item=True)
    return _silenced(own, names, Setting(("hooksConfig", "enabled"), value=False), disabled)


# opencode has no hooks: MEMORY.md is one of its instructions.


def _opencode(place: Place, _: Read) -> Sequence[AgentFile]:
    folder = place.settings_in("", place.folder("XDG_CONFIG_HOME", ".config") / "opencode")
    named = folder / "opencode.jsonc"
    server: dict[str, object] = {"type": "local", "command": place.command(), "enabled": True}
    server |= {"environment": place.needed} if place.needed else {}
    settings = [Setting(("mcp", SERVER), server)]
    if place.workspace is not None:
        settings.append(Setting(("instructions",), str(place.workspace / "MEMORY.md"), item=True))
    path = named if named.is_file() else folder / "opencode.json"
    return (AgentFile(path, "its MCP server, and MEMORY.md as instructions", tuple(settings)),)


def _tries_opencode(
    settings: Sequence[Setting], project: Path, environment: Mapping[str, str]
) -> Iterable[CheckResult]:
    """Yield whether MEMORY.md is one of the instructions that opencode itself reads, of all its files together."""
    command = "opencode debug config"
    try:
        read = at(json.loads(run(command.split(), project, environment).stdout), ("instructions",), [])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        yield CheckResult(State.WAITS, f"'{command}' does not say what it reads", f"run: {command}")
        return
    for one in (one for one in settings if one.path == ("instructions",)):
        if isinstance(read, list) and one.value in read:
            yield CheckResult(State.OK, f"opencode reads {one.value}")
        else:
            yield CheckResult(State.WRONG, f"opencode does not read {one.value}", f"run: {command}")


# VS Code reads no hook: in a project a file of instructions has the memory.


def _vscode(place: Place, _: Read) -> Sequence[AgentFile]:
    folder = place.settings_in(".vscode", place.folder("XDG_CONFIG_HOME", ".config") / "Code" / "User")
    server = Setting(("servers", SERVER), {"type": "stdio", **place.server()})
    servers = AgentFile(folder / "mcp.json", "its MCP server", (server,))
    if place.scope is Scope.USER:
        return (servers,)
    shows = place.project / ".github" / "instructions" / "dreamd.instructions.md"
    return (servers, AgentFile(shows, "the memory as instructions", head='---\napplyTo: "**"\n---\n'))


# Zed runs no hooks, and reads one file of rules: one of ours would hide the others.


def _zed(place: Place, _: Read) -> Sequence[AgentFile]:
    folder = place.settings_in(".zed", place.folder("XDG_CONFIG_HOME", ".config") / "zed")
    server = Setting(("context_servers", SERVER), {"source": "custom", **place.server()})
    return (AgentFile(folder / "settings.json", "its MCP server", (server,)),)


def _tries_zed(_: Sequence[Setting], project: Path, __: Mapping[str, str]) -> Iterable[CheckResult]:
    names = (".rules", ".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md")
    every = (project / name for name in (*names, "AGENT.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"))
    rules = next((path for path in every if path.is_file()), project / ".rules")
    if rules.is_file() and "memory_bootstrap" in rules.read_text(encoding="utf-8", errors="replace"):
        yield CheckResult(State.OK, f"{rules} has it ask for the memory")
    else:
        advice = f"add to {rules}: Begin every session with the tool memory_bootstrap."
        yield CheckResult(State.WAITS, "Zed shows no memory by itself, and no rule has it ask", advice)


AGENTS = (
    Agent(
        "claude-code", "Claude Code", ("claude",), (".claude",), _claude_code,
        since=(1, 0, 62),  # hooks at session start; rules:
        since_file=(2, 0, 64),
        lists=("claude", "mcp", "get", SERVER),
        knows=r"^ *Status: \W*Connected$",
        waits=r"^ *Status: \W*Pending approval|servers are awaiting approval",
        unknown="start 'claude' once in the project, and trust the folder",
        tries=_tries_claude_code,
        advice=(
            "it keeps an auto memory of its own beside; 'dreamd connect claude-code --no-auto-memory' turns that off",
        ),
    ),
    Agent(
        "codex", "Codex", ("codex",), (".codex",), _codex,
        lists=("codex", "mcp", "get", SERVER),
        knows="^ *enabled: true$",
        waits=f"No MCP server named '{SERVER}' found",
        unknown="'dreamd connect codex --trust', or start 'codex' once in the project and trust the folder",
        tries=_tries_codex,
        advice=(
            "'codex exec' skips a folder and hooks that nobody trusted: start 'codex' there once, or use --trust",
        ),
    ),
    Agent(
        "cursor", "Cursor", ("cursor", "cursor-agent"), (".cursor",), _cursor,
        lists=("cursor-agent", "mcp", "list"),
        knows=rf"^\W*{SERVER}: *(ready|connected)",
        waits=rf"^\W*{SERVER}: .*(needs approval|not loaded|disabled)",
        unknown="enable the server in Cursor's settings, under MCP",
        advice=("enable the server once in its settings, under MCP",),
    ),
    Agent(
        "gemini", "Gemini CLI", ("gemini",), (".gemini",), _gemini,
        since=(0, 26),
        lists=("gemini", "mcp", "list"),
        knows=rf"^\W*{SERVER}: .* - Connected$",
        waits=rf"folder is untrusted|^\W*{SERVER}: .* - Disabled$",
        unknown="start 'gemini' once in the project, and trust the folder",
        tries=_tries_gemini,
        advice=("start 'gemini' once in the project, trust the folder and its hooks",),
    ),
    Agent(
        "opencode", "opencode", ("opencode",), (".config/opencode",), _opencode,
        lists=("opencode", "mcp", "list"),
        knows=rf"^\W*{SERVER} +connected *$",
        unknown="see 'opencode mcp list'",
        tries=_tries_opencode,
        advice=("it runs no hooks: past sessions are read by 'dreamd ingest PATH'",),
    ),
    Agent(
        "vscode", "VS Code", ("code", "code-insiders"), (".config/Code",), _vscode,
        advice=("start the server once from its mcp.json",),
    ),
    Agent(
        "zed", "Zed", ("zed", "zeditor"), (".config/zed",), _zed,
        tries=_tries_zed,
        advice=(
            "trust the project; add to its rules (.rules, AGENTS.md): Begin every session with memory_bootstrap.",
        ),
    ),
)  # fmt: skip


def agent_of(name: str) -> Agent:
    """Return the agent of this name. Raise UsageError if dreamd knows none."""
    found = next((one for one in AGENTS if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in AGENTS)
        raise UsageError(f"dreamd knows no agent {name!r}", f"it connects {known}; any other one: docs/agents.md")
    return found


def installed(environment: Mapping[str, str]) -> tuple[Agent, ...]:
    """Return the agents that this user has: a program on the PATH, or a folder in the home."""
    path, own = environment.get("PATH", os.defpath), home(environment)
    return tuple(
        one
        for one in AGENTS
        if any(shutil.which(program, path=path) for program in one.programs)
        or any((own / folder).is_dir() for folder in one.folders)
    )
