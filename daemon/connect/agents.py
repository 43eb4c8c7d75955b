"""Agents: those that dreamd connects, once per user, by what their makers offer as of November 2026."""

import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.config.paths import state_folder
from daemon.connect.json_file import Entry, at, json_at, read
from daemon.connect.place import PLUGIN, SERVER, Place
from daemon.connect.plugin import OwnFiles, Part, Registration, Trust
from state.errors import DreamdError, UsageError

_RULE = f'[[rule]]\nmcpName = "{SERVER}"\ntoolName = "*"\ndecision = "allow"\npriority = 100\n'
_HOOKS_OF_CURSOR = r"(bootstrap --format hook|ingest --hook) --agent cursor\b"
_BY_HAND = "add to its rules: Begin every session with the tool memory_bootstrap."


@dataclass(frozen=True, slots=True)
class Agent:
    """One kind of agent. `name` is what a person types.

    It is installed where one of `programs` is on the PATH, or `folder` in the home. `lists` asks the agent itself
    which servers it knows, and `knows` is a pattern of its answer where ours works. `silenced`: a settings file in
    the home, a key of it, and the value with which no hook runs. `advice` is what its owner may have to do.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    parts: Callable[[Place], Sequence[Part]]
    folder: str = ""
    lists: str = ""
    knows: str = ""
    has_hooks: bool = True
    silenced: tuple[str, str, bool] = ("", "", True)
    advice: str = ""


def _files(place: Place, agent: str) -> OwnFiles:
    return OwnFiles(place.kept(agent), place.rendered(agent))


def _entry(place: Place, path: Path, *keys: str, value: object = None) -> Entry:
    return Entry(path, keys, value, state_folder(place.environment) / "connected-files")


# Claude Code, 2.1.330: a hook's output goes into the context up to 10,000 characters; the hooks at the end of a
# session have 1.5 seconds together unless they name a time. `alwaysLoad` has the tools there before the first
# request. The hook before a tool allows ours, since a call that nobody allowed fails where nobody can be asked.


def _claude_code(place: Place) -> Sequence[Part]:
    own, files = place.folder("CLAUDE_CONFIG_DIR", ".claude"), _files(place, "claude-code")
    settings, source = own / "settings.json", ("extraKnownMarketplaces", SERVER)
    enabled, cached = ("enabledPlugins", PLUGIN), OwnFiles(own / "plugins/cache" / SERVER, {})
    return files, Registration(
        place, files.root,
        connect=f"claude plugin marketplace add FOLDER && claude plugin install {PLUGIN}",
        disconnect=f"claude plugin uninstall {PLUGIN} && claude plugin marketplace remove {SERVER}",
        found=lambda: (json_at(settings, *enabled), json_at(settings, *source, "source", "path")),
        meant=(True, str(files.root)),
        left=(_entry(place, settings, *enabled), _entry(place, settings, *source), cached),
    )  # fmt: skip


# Codex, 0.169.0, takes the same layout, and copies it. It ends a SessionEnd hook after 3 seconds; a session that a
# background server keeps runs none at all, which is why Stop has the transcript read as well. It gives a server no
# variable but those of its entry. Its user has to trust the hooks once, and again when a file of the plugin changes.


def _codex(place: Place) -> Sequence[Part]:
    own, files = place.folder("CODEX_HOME", ".codex"), _files(place, "codex")
    cache, names = own / "plugins/cache" / SERVER, (".mcp.json", "hooks/hooks.json")

    def found() -> tuple[object, ...]:
        config: object = None
        with suppress(ValueError, DreamdError):
            config = tomllib.loads(read(own / "config.toml") or "")
        copies = [read(path) for name in names for path in cache.glob(f"*/*/{name}")]
        enabled = at(config, ("plugins", PLUGIN, "enabled"))
        return enabled, at(config, ("marketplaces", SERVER, "source")), *copies

    return files, Registration(
        place, files.root,
        connect=f"codex plugin marketplace add FOLDER && codex plugin add {PLUGIN}",
        disconnect=f"codex plugin remove {PLUGIN} && codex plugin marketplace remove {SERVER}",
        found=found,
        meant=(True, str(files.root), *(files.files[f"plugin/{name}"] for name in names)),
        left=(OwnFiles(cache, {}),),
    ), Trust(place)  # fmt: skip


# Gemini CLI, 0.61.0: times are in milliseconds. It wants the folder trusted that an extension is linked from, and
# shows a server's tools to no unattended session without a rule.


def _gemini(place: Place) -> Sequence[Part]:
    own, files = place.home / ".gemini", _files(place, "gemini")
    linked = own / "extensions" / SERVER
    return (
        files,
        OwnFiles(own / "policies/dreamd.toml", {"": _RULE}),
        _entry(place, own / "trustedFolders.json", str(files.root), value="TRUST_FOLDER"),
        Registration(
            place, files.root,
            connect="gemini extensions link --consent FOLDER",
            disconnect=f"gemini extensions uninstall {SERVER}",
            found=lambda: (json_at(linked / ".gemini-extension-install.json", "source"),),
            meant=(str(files.root),),
            left=(OwnFiles(linked, {}),),
        ),
    )  # fmt: skip


def _opencode(place: Place) -> Sequence[Part]:
    path = place.folder("XDG_CONFIG_HOME", ".config") / "opencode/plugin/dreamd.js"
    return (OwnFiles(path, {"": place.rendered("opencode")["dreamd.js"]}),)


def _cursor(place: Place) -> Sequence[Part]:
    own, ingest = place.home / ".cursor", place.ingest("cursor")
    events = {"sessionStart": place.bootstrap("cursor"), "preCompact": ingest, "sessionEnd": ingest}
    hooks = [_entry(place, own / "hooks.json", "hooks", one, value={"command": run}) for one, run in events.items()]
    return (
        _entry(place, own / "mcp.json", "mcpServers", SERVER, value=place.server()),
        *(replace(one, ours=_HOOKS_OF_CURSOR, head={"version": 1}) for one in hooks),
    )


def _server_in(name: str, key: str, **more: str) -> Callable[[Place], Sequence[Part]]:
    """Return what puts the server into this file of the user's configuration."""

    def parts(place: Place) -> Sequence[Part]:
        path = place.folder("XDG_CONFIG_HOME", ".config") / name
        return (_entry(place, path, key, SERVER, value={**more, **place.server()}),)

    return parts


AGENTS = (
    Agent(
        "claude-code", "Claude Code", ("claude",), _claude_code,
        lists=f"claude mcp get plugin:{SERVER}:{SERVER}", knows=r"^ *Status: \W*Connected$",
        silenced=(".claude/settings.json", "disableAllHooks", True),
    ),
    Agent(
        "codex", "Codex", ("codex",), _codex, lists=f"codex mcp get {SERVER}", knows="^ *enabled: true$",
        advice="it runs no hook before you trust it, and 'codex exec' does not say so: start 'codex' once and trust"
        " the hooks, or run 'dreamd connect codex --trust'",
    ),
    Agent(
        "cursor", "Cursor", ("cursor", "cursor-agent"), _cursor, ".cursor",
        lists="cursor-agent mcp list", knows=rf"^\W*{SERVER}: *(ready|connected)",
        advice="enable the server once in its settings, under MCP",
    ),
    Agent(
        "gemini", "Gemini CLI", ("gemini",), _gemini, lists="gemini mcp list", knows=rf"^\W*{SERVER} .* - Connected$",
        silenced=(".gemini/settings.json", "hooksConfig.enabled", False),
        advice="it starts no server in a folder that you have not trusted: start 'gemini' once in each project",
    ),
    Agent(
        "opencode", "opencode", ("opencode",), _opencode,
        lists="opencode mcp list", knows=rf"^\W*{SERVER} +connected *$",
    ),
    Agent(
        "vscode", "VS Code", ("code",), _server_in("Code/User/mcp.json", "servers", type="stdio"), ".config/Code",
        has_hooks=False, advice=_BY_HAND,
    ),
    Agent(
        "zed", "Zed", ("zed", "zeditor"), _server_in("zed/settings.json", "context_servers", source="custom"),
        ".config/zed", has_hooks=False, advice=_BY_HAND,
    ),
)  # fmt: skip


def agent_of(name: str) -> Agent:
    """Return the agent of this name. Raise UsageError if dreamd knows none."""
    found = next((one for one in AGENTS if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in AGENTS)
        raise UsageError(f"dreamd knows no agent {name!r}", f"it connects {known}; any other one: docs/agents.md")
    return found


def installed(place: Place) -> tuple[Agent, ...]:
    """Return the agents that this user has."""
    return tuple(one for one in AGENTS if is_installed(one, place))


def is_installed(agent: Agent, place: Place) -> bool:
    """Return whether this user has the agent: a program on the PATH, or a folder in the home."""
    return any(map(place.which, agent.programs)) or bool(agent.folder and (place.home / agent.folder).is_dir())


def changes(agent: Agent, place: Place) -> list[str]:
    """Return in words what connecting would change; nothing if it is connected. Raise DreamdError if it cannot be."""
    return [said for one in agent.parts(place) if (said := one.change())]


def connect(agent: Agent, place: Place) -> None:
    """Connect the agent; again is harmless. Raise DreamdError, after what was done is undone."""
    parts = agent.parts(place)
    try:
        for one in parts:
            if one.change():
                one.put()
    except DreamdError:
        with suppress(DreamdError):
            disconnect(agent, place)
        raise


def remains(agent: Agent, place: Place) -> list[str]:
    """Return in words what disconnecting would take out; nothing if nothing is there. Raise DreamdError."""
    return [said for one in reversed(agent.parts(place)) if (said := one.remains())]


def disconnect(agent: Agent, place: Place) -> None:
    """Take out what connects the agent, also if its program has gone. Raise DreamdError for what stays."""
    problems = list[DreamdError]()
    for one in reversed(agent.parts(place)):
        try:
            one.take()
        except DreamdError as error:
            problems.append(error)
    if problems:
        raise problems[0]
