"""Codex: `config.toml` of a project that it trusts, or the user's own.

As of 0.169.0: it ends a SessionEnd hook after 3 seconds and takes some 2,500 tokens of a SessionStart hook's output;
a session that a background server keeps runs no SessionEnd at all, which is why Stop has the transcript read as well.
A `required` server that does not start keeps Codex from starting, so ours is none; others have one second before the
first turn, which `dreamd mcp` needs for itself where no daemon runs, so they are given more. The files of a project
that is not trusted count for nothing, and hooks that nobody trusted are skipped; `codex exec` says neither.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from daemon.connect.agent import (
    SERVER,
    Agent,
    AgentFile,
    CheckResult,
    Place,
    Read,
    Scope,
    State,
    commands_in,
    hook,
)
from daemon.connect.asking import ask, running
from daemon.connect.edit import Setting, at

NAME = "codex"
_MOST_SECONDS, _USUAL_SECONDS = 3, 600
# The first turn goes without the tools of a server that is not ready then. Whoever has set it keeps what they have.
_GRACE = Setting(("mcp_optional_startup_grace_ms",), 10_000)


def files(place: Place, read: Read) -> Sequence[AgentFile]:
    """Return the file of server and hooks; with trust, also the user's own file, which says that they are trusted."""
    own = place.folder("CODEX_HOME", ".codex") / "config.toml"
    path = own if place.scope is Scope.USER else place.project / ".codex" / "config.toml"
    server = {name: value for name, value in place.server().items() if value}  # no empty table
    # dream_now waits for a model. Codex writes such numbers with a point when it changes another server.
    server |= {"startup_timeout_sec": 30.0, "tool_timeout_sec": 300.0}
    hooks = (
        hook("SessionStart", place.bootstrap(NAME)),
        hook("PreCompact", place.ingest()),
        hook("Stop", place.ingest()),
        hook("SessionEnd", place.ingest(), timeout=_MOST_SECONDS),
    )
    grace = () if at(read(path, ()), _GRACE.path) is not None else (_GRACE,)
    settings = (Setting(("mcp_servers", SERVER), server), *hooks, *grace)
    trusted = _trusted(path, hooks, read(path, settings)) if place.trust else ()
    if path == own:
        return (AgentFile(own, "its MCP server and hooks", (*settings, *trusted)),)
    project = Setting(("projects", str(place.project), "trust_level"), "trusted")
    file = AgentFile(path, "its MCP server and hooks", settings)
    return (file, AgentFile(own, "that you trust them", (project, *trusted))) if place.trust else (file,)


def _trusted(path: Path, hooks: Sequence[Setting], known: object) -> tuple[Setting, ...]:
    """Return that the user trusts each hook, by its place in the file and the digest of what it runs."""
    settings = []
    for setting in hooks:
        groups = at(known, setting.path)
        assert isinstance(groups, list)
        event = re.sub(r"(?<!^)(?=[A-Z])", "_", setting.path[-1]).lower()
        key = f"{path}:{event}:{groups.index(setting.value)}:0"
        settings.append(Setting(("hooks", "state", key, "trusted_hash"), _digest(event, setting.value)))
    return tuple(settings)


def _digest(event: str, group: object) -> str:
    """Return the digest by which Codex sees whether a hook has changed since it was trusted."""
    hooks = at(group, ["hooks"])
    assert isinstance(hooks, list)
    about = [{"async": False, "timeout": _USUAL_SECONDS, **one} for one in hooks]
    text = json.dumps(
        {"event_name": event, "hooks": about}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _tries(settings: Sequence[Setting], project: Path, environment: Mapping[str, str]) -> Iterable[CheckResult]:
    """Yield whether Codex runs the hooks, asked as its own windows ask it."""
    own = {command for one in settings for command in commands_in(one)}
    advice = "'dreamd connect codex --trust', or start 'codex' there, trust the folder and allow them with /hooks"
    try:
        with running(["codex", "app-server"], project, environment) as server:
            ask(server, {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": SERVER, "version": "1"}}})
            listed = ask(
                server,
                {"method": "initialized"},
                {"id": 2, "method": "hooks/list", "params": {"cwds": [str(project)]}},
            )
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
        yield CheckResult(State.OK, f"Codex runs {len(hooks)} hooks")


CODEX = Agent(
    NAME,
    "Codex",
    ("codex",),
    (".codex",),
    files,
    lists=("codex", "mcp", "get", SERVER),
    knows="^ *enabled: true$",
    waits=f"No MCP server named '{SERVER}' found",
    unknown="'dreamd connect codex --trust', or start 'codex' once in the project and trust the folder",
    tries=_tries,
    advice=(
        "'codex exec' skips a folder and hooks that nobody trusted: start 'codex' there once, or say it by --trust",
    ),
)
