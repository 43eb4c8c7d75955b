"""Check: whether a connected agent really reaches its memory, tried as the agent does it.

What connects it is as it was written; its server answers; its hook gives the memory; and the agent itself, where it
is installed, knows the server and runs the hooks.
"""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from daemon.connect.agents import Agent, changes
from daemon.connect.json_file import at, json_at
from daemon.connect.place import SECONDS, SERVER, Place, talk
from daemon.connect.plugin import Trust
from state.agents import TRIED
from state.errors import DreamdError
from state.text.words import counted

# What agents hand on to a server beside what its entry names.
_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "TERM", "TMPDIR")
_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": SERVER, "version": "1"}}
_MESSAGES: tuple[dict[str, object], ...] = (
    {"id": 1, "method": "initialize", "params": _CLIENT},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)


class State(StrEnum):
    """How it stands with what was tried: it works, it is wrong, or the agent waits for a word of its owner's."""

    OK = "ok"
    WRONG = "WRONG"
    WAITS = "waits for you"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was tried. `advice` says what to do where it is not OK."""

    state: State
    what: str
    advice: str = ""


def check(agent: Agent, place: Place, folder: Path) -> Iterator[CheckResult]:
    """Try each thing in turn, in this folder; nothing is changed, no receipt is left and no dream begun.

    The agent is asked only where it is connected as it should be: to say which servers it knows it starts them.
    """
    place = replace(place, environment={**place.environment, TRIED: "1"})
    try:
        if wrong := changes(agent, place):
            yield CheckResult(
                State.WRONG, f"not connected, or changed since: {wrong[0]}", f"dreamd connect {agent.name}"
            )
            return
    except DreamdError as error:
        yield CheckResult(State.WRONG, error.what, error.advice)
        return
    yield CheckResult(State.OK, "connected as it was written")
    yield _try_server(place, folder)
    if agent.has_hooks:
        yield _try_hook(place.bootstrap(agent.name), place, folder)
    else:
        yield CheckResult(State.WAITS, "it shows no memory by itself", agent.advice)
    file, key, silent = agent.silenced
    if file and json_at(place.home / file, *key.split(".")) is silent:
        yield CheckResult(State.WRONG, f"~/{file} has {key}, so no hook runs", "take that out of the file")
    if not agent.lists or place.which(agent.lists.split()[0]) is None:
        return
    if agent.name == "codex":
        yield _try_trust(place, agent.advice)
    yield _ask_agent(agent, place, folder)


def _try_server(place: Place, folder: Path) -> CheckResult:
    """Return whether the server starts with next to no environment, and has its tools."""
    server, given, begin = place.server(), place.environment, time.monotonic()
    command = [server["command"], *server["args"]]
    variables = {name: given[name] for name in _PASSED_ON if name in given} | server["env"]
    try:
        tools = talk(command, folder, variables, *_MESSAGES)[-1]["tools"]
    except (OSError, ValueError, KeyError) as error:
        return CheckResult(State.WRONG, f"the server does not answer: {error}", f"run: {shlex.join(command)}")
    milliseconds = 1000 * (time.monotonic() - begin)
    return CheckResult(State.OK, f"the server answers in {milliseconds:.0f} ms, with {counted(len(tools), 'tool')}")


def _try_hook(command: str, place: Place, folder: Path) -> CheckResult:
    """Return whether the hook gives what goes into the context, in the form that agents take."""
    event = {"session_id": "", "hook_event_name": "SessionStart", "source": "startup", "cwd": str(folder)}
    begin, given = time.monotonic(), ""
    try:
        ran = subprocess.run(  # noqa: S602 - as agents run their hooks
            command, shell=True, input=json.dumps(event), capture_output=True, text=True, timeout=SECONDS,
            check=False, cwd=folder, env=dict(place.environment),
        )  # fmt: skip
        # A hook never fails: what went wrong is on stderr. Outside of every project it says nothing at all.
        answer = json.loads(ran.stdout or "null")
        found = at(answer, ("additional_context",)), at(answer, ("hookSpecificOutput", "additionalContext"))
        given = next((one for one in found if isinstance(one, str)), "")
        problem = "" if any(isinstance(one, str) for one in found) else f"{ran.stdout} {ran.stderr}".strip()
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        return CheckResult(State.WRONG, f"the hook at session start fails: {problem}", f"run: {command}")
    what = f"{len(given):,} characters" if given else "nothing yet, for there is no memory here,"
    return CheckResult(State.OK, f"session start gives {what} in {1000 * (time.monotonic() - begin):.0f} ms")


def _try_trust(place: Place, advice: str) -> CheckResult:
    """Return whether Codex runs the hooks."""
    try:
        known = Trust(place).hooks()
    except (OSError, ValueError, KeyError) as error:
        return CheckResult(State.WRONG, f"'codex app-server' does not say whether hooks run: {error}", advice)
    skipped = [str(one.get("eventName")) for one in known if one.get("trustStatus") != "trusted"]
    if skipped or not known:
        return CheckResult(State.WAITS, f"Codex skips the hooks of {', '.join(skipped) or 'every event'}", advice)
    return CheckResult(State.OK, f"Codex runs {counted(len(known), 'hook')}")


def _ask_agent(agent: Agent, place: Place, folder: Path) -> CheckResult:
    """Return whether the agent itself knows the server."""
    try:
        answer = place.run(agent.lists.split(), folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(State.WAITS, f"'{agent.lists}' does not answer: {error}", f"run: {agent.lists}")
    text = f"{answer.stdout}\n{answer.stderr}"  # Gemini CLI answers on stderr
    if answer.returncode == 0 and re.search(agent.knows, text, re.MULTILINE):
        return CheckResult(State.OK, f"'{agent.lists}' knows the server")
    state = State.WAITS if re.search("(?i)trust|approv|disabled|not loaded", text) else State.WRONG
    row = next((line.strip() for line in text.splitlines() if "Status" in line or SERVER in line), "")
    return CheckResult(state, f"'{agent.lists}' has no such server that works: {row}".rstrip(": "), agent.advice)
