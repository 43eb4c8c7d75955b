"""Check: whether a connected agent really reaches its memory, tried as the agent does it.

Its files hold what was written; the server that they name answers; the hook that they name gives the memory; and the
agent itself, where it is installed, knows the server.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from daemon.connect.agent import SERVER, Agent, CheckResult, Setting, State, needs_dreamd
from daemon.connect.change import missing
from daemon.connect.json_rpc import SECONDS, asked, running
from daemon.connect.plan import text_of
from daemon.connect.record import Connection
from state.agents import TRIED
from state.errors import DreamdError

# What agents hand on to a server beside what its entry names.
_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "TERM", "TMPDIR")
_PROTOCOL = "2025-06-18"


def check(
    agent: Agent, connection: Connection | None, project: Path, environment: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Try each thing in turn, in this project; nothing is changed, no receipt is left and no dream begun.

    The agent is asked only where its files are as they were written: to say which servers it knows it starts them. No
    program comes from the project by a PATH that is relative.
    """
    environment, is_as_written = {**environment, TRIED: "1"}, True
    if connection is None:
        yield CheckResult(State.WRONG, "not connected here", f"dreamd connect {agent.name}")
        return
    for written in connection.files:
        try:
            changed = missing(written, text_of(Path(written.path), connection.folder))
        except DreamdError as error:
            yield CheckResult(State.WRONG, f"{written.path}: {error.what}", error.advice)
            is_as_written = False
            continue
        is_as_written &= not changed
        names = ", ".join(".".join(one.path) for one in changed)
        what = f"{written.path}: {f'{names} is not as it was written' if changed else 'as it was written'}"
        advice = f"dreamd connect {agent.name} writes it again" if changed else ""
        yield CheckResult(State.WRONG if changed else State.OK, what, advice)
    settings = [one for written in connection.files for one in written.settings]
    for what in dict.fromkeys(filter(None, map(needs_dreamd, settings))):
        yield CheckResult(State.WRONG, what, f"'dreamd connect {agent.name}' writes it so that nothing breaks")
    for server, variables in filter(None, map(_server_in, settings)):
        yield _answers(server, variables, project, environment)
    for hook in filter(None, map(_start_in, settings)):
        yield _gives(hook, project, environment)
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    asked_in = {**environment, "PATH": os.pathsep.join(folder for folder in folders if folder.startswith("/"))}
    if is_as_written and agent.lists and shutil.which(agent.lists[0], path=asked_in["PATH"]):
        yield _knows(agent, project, asked_in)
        if agent.tries is not None:
            yield from agent.tries(project, asked_in)


def _server_in(setting: Setting) -> tuple[list[str], dict[str, str]] | None:
    """The command of the server in a setting, and its variables."""
    value = setting.value
    if setting.path[-1] != SERVER or not isinstance(value, Mapping) or "command" not in value:
        return None
    command = value["command"]
    words = [*command] if isinstance(command, list) else [command, *value.get("args", ())]
    return words, {**value.get("env", {}), **value.get("environment", {})}


def _start_in(setting: Setting) -> str:
    """The command of the hook at the start of a session in a setting; "" when it is another one."""
    if setting.path[-1].casefold() != "sessionstart" or not isinstance(setting.value, Mapping):
        return ""
    inner = setting.value.get("hooks", [setting.value])
    return str(inner[0].get("command", ""))


def _answers(
    command: Sequence[str], variables: Mapping[str, str], project: Path, environment: Mapping[str, str]
) -> CheckResult:
    """Whether the server starts with next to no environment, and has its tools."""
    about = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": {"name": "dreamd", "version": "1"}}
    passed_on = {name: environment[name] for name in _PASSED_ON if name in environment}
    begin = time.monotonic()
    advice = f"run: {shlex.join(command)}"
    try:
        with running(command, project, {**passed_on, **variables}) as server:
            asked(server, {"id": 1, "method": "initialize", "params": about})
            seconds = time.monotonic() - begin
            tools = asked(server, {"method": "notifications/initialized"}, {"id": 2, "method": "tools/list"})
    except (OSError, ValueError) as error:
        return CheckResult(State.WRONG, f"the server does not answer: {error}", advice)
    number = len(tools.get("tools", ()))
    what = f"the server answers after {1000 * seconds:.0f} ms, with {number} tools"
    return CheckResult(State.OK if number else State.WRONG, what, "" if number else advice)


def _gives(command: str, project: Path, environment: Mapping[str, str]) -> CheckResult:
    """Whether the hook gives what goes into the context, in the form that agents take."""
    said = {"session_id": "", "hook_event_name": "SessionStart", "source": "startup", "cwd": str(project)}
    begin = time.monotonic()
    try:
        ran = subprocess.run(  # noqa: S602 - as agents run their hooks
            command, shell=True, input=json.dumps(said), capture_output=True, text=True, timeout=SECONDS,
            check=False, cwd=project, env=dict(environment),
        )  # fmt: skip
        # A hook never fails: what went wrong is on stderr.
        given = _context_in(json.loads(ran.stdout)) if ran.returncode == 0 and ran.stdout else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return CheckResult(State.WRONG, f"the hook at session start fails: {error}", f"run: {command}")
    if given is None:
        why = ran.stderr.strip() or "it answers in another form"
        return CheckResult(State.WRONG, f"the hook at session start fails: {why}", f"run: {command}")
    milliseconds = 1000 * (time.monotonic() - begin)
    given_now = f"{len(given):,} characters" if given else "nothing yet, for the memory is empty,"
    return CheckResult(State.OK, f"session start gives {given_now} in {milliseconds:.0f} ms")


def _context_in(answer: object) -> str | None:
    """The text that a hook's answer puts into the context, in each agent's form."""
    if not isinstance(answer, Mapping):
        return None
    found = answer.get("additional_context", answer.get("hookSpecificOutput"))
    if isinstance(found, Mapping):
        found = found.get("additionalContext")
    return found if isinstance(found, str) else None


def _knows(agent: Agent, project: Path, environment: Mapping[str, str]) -> CheckResult:
    """Whether the agent itself knows the server."""
    asked = shlex.join(agent.lists)
    try:
        ran = subprocess.run(  # noqa: S603
            agent.lists, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=project,
            env=dict(environment), stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(State.WRONG, f"'{asked}' fails: {error}", f"run: {asked}")
    knows = ran.returncode == 0 and re.search(agent.knows, ran.stdout) is not None
    told = [line.strip() for line in ran.stdout.splitlines()]
    status = next((line for line in told if "Status" in line), next((line for line in told if SERVER in line), ""))
    what = f"'{asked}' {'knows the server' if knows else f'has no such server that works: {status}'.rstrip(': ')}"
    waits = re.search(agent.waits, ran.stdout) is not None
    return CheckResult(
        State.OK if knows else State.WAITS if waits else State.WRONG, what, "" if knows else agent.unknown
    )
