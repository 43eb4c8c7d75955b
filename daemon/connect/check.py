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
from contextlib import suppress
from pathlib import Path

from daemon.connect.agent import (
    SECONDS,
    SERVER,
    Agent,
    CheckResult,
    State,
    ask,
    commands_in,
    format_of,
    run,
    running,
)
from daemon.connect.edit import at, holds, read
from daemon.connect.plan import Connection, Written, text_of
from daemon.workspace.agent_files import ShownMemory, is_ours
from state.agents import TRIED
from state.errors import DreamdError
from state.text.words import counted

# What agents hand on to a server beside what its entry names.
_PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "TERM", "TMPDIR")
_PROTOCOL = "2025-06-18"
_DOES_THE_SAME = re.compile(r"\bdreamd\b.*\b(bootstrap|ingest)\b")


def check(
    agent: Agent,
    connection: Connection | None,
    project: Path,
    environment: Mapping[str, str],
    shown: ShownMemory | None,
) -> Iterator[CheckResult]:
    """Try each thing in turn, in this project; nothing is changed, no receipt is left and no dream begun.

    The agent is asked only where its files are as they were written: to say which servers it knows it starts them. No
    program comes from the project by a PATH that is relative.
    """
    environment = {**environment, TRIED: "1"}
    if connection is None:
        yield CheckResult(State.WRONG, "not connected here", f"dreamd connect {agent.name}")
        return
    files = [one for written in connection.files for one in _file(agent, connection, written, shown)]
    yield from files
    settings = [one.setting for written in connection.files for one in written.puts]
    for one in settings:
        if one.path[-1] == SERVER and isinstance(one.value, Mapping) and "command" in one.value:
            yield _try_server(one.value, project, environment)
    for one in settings:
        if one.path[-1].casefold() == "sessionstart" and (commands := commands_in(one)):
            yield _try_hook(commands[0], project, environment)
    if any(one.state is State.WRONG for one in files):
        return
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if folder.startswith("/"))
    asked_in = {**environment, "PATH": path}
    if program := next((one for one in agent.programs if shutil.which(one, path=path)), None):
        least = max(agent.since, agent.since_file if connection.in_file else ())
        yield from _version(agent, program, least, project, asked_in)
    if agent.lists and shutil.which(agent.lists[0], path=path):
        yield _ask_agent(agent, project, asked_in)
    if agent.tries is not None and (program or not agent.lists):
        yield from agent.tries(settings, project, asked_in)


def _file(agent: Agent, connection: Connection, written: Written, shown: ShownMemory | None) -> Iterator[CheckResult]:
    """Yield whether a file has what was put in, or shows the memory, and nothing that does the same again."""
    again = f"dreamd connect {agent.name} writes it again"
    try:
        text = text_of(Path(written.path), connection.folder)
        if written.head is not None:
            if text is None or not is_ours(text):
                yield CheckResult(State.WRONG, f"{written.path} does not show the memory", again)
            elif shown is not None and text != shown.text(agent.name, written.head):
                yield CheckResult(State.WAITS, f"{written.path} does not show the memory as it is now", again)
            else:
                yield CheckResult(State.OK, f"{written.path} shows {len(text):,} characters")
            return
        form = format_of(Path(written.path))
        lacking = [one.setting for one in written.puts if not holds(form, text or "", one.setting)]
        known = read(form, text or "")
    except DreamdError as error:
        yield CheckResult(State.WRONG, f"{written.path}: {error.what}", error.advice)
        return
    if lacking:
        names = ", ".join(".".join(one.path) for one in lacking)
        yield CheckResult(State.WRONG, f"{written.path}: {names} is not as it was written", again)
    else:
        yield CheckResult(State.OK, f"{written.path}: as it was written")
    for one in (one.setting for one in written.puts):
        items = at(known, one.path) if commands_in(one) else []
        others = [each for each in items if each != one.value] if isinstance(items, list) else []
        if any(_DOES_THE_SAME.search(json.dumps(each)) for each in others):
            what = f"{written.path}: another hook of {one.path[-1]} runs dreamd as well"
            yield CheckResult(State.WAITS, what, "take that one out of the file")


def _version(
    agent: Agent, program: str, since: tuple[int, ...], project: Path, environment: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Yield the agent's version, and whether it is one that shows the memory."""
    with suppress(OSError, subprocess.TimeoutExpired):
        found = re.search(r"\d+(\.\d+)+", run([program, "--version"], project, environment).stdout)
        if found is None:
            return
        version = f"{agent.title} {found[0]}"
        if tuple(map(int, found[0].split("."))) >= since:
            yield CheckResult(State.OK, version)
        else:
            what = f"{version} does not show the memory; {'.'.join(map(str, since))} does"
            yield CheckResult(State.WRONG, what, f"update {agent.title}")


def _try_server(entry: Mapping[str, object], project: Path, environment: Mapping[str, str]) -> CheckResult:
    """Try whether the server of an entry starts with next to no environment, and has its tools."""
    first, arguments = entry["command"], entry.get("args", ())
    assert isinstance(arguments, Sequence)
    command = [*map(str, first)] if isinstance(first, list) else [str(first), *map(str, arguments)]
    variables = {name: environment[name] for name in _PASSED_ON if name in environment}
    for own in (entry.get("env"), entry.get("environment")):
        variables |= own if isinstance(own, dict) else {}
    about = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": {"name": "dreamd", "version": "1"}}
    begin, advice = time.monotonic(), f"run: {shlex.join(command)}"
    try:
        with running(command, project, variables) as server:
            ask(server, {"id": 1, "method": "initialize", "params": about})
            seconds = time.monotonic() - begin
            tools = ask(server, {"method": "notifications/initialized"}, {"id": 2, "method": "tools/list"})
    except (OSError, ValueError) as error:
        return CheckResult(State.WRONG, f"the server does not answer: {error}", advice)
    number = len(tools.get("tools", ()))
    what = f"the server answers after {1000 * seconds:.0f} ms, with {counted(number, 'tool')}"
    return CheckResult(State.OK if number else State.WRONG, what, "" if number else advice)


def _try_hook(command: str, project: Path, environment: Mapping[str, str]) -> CheckResult:
    """Try whether the hook gives what goes into the context, in the form that agents take."""
    event = {"session_id": "", "hook_event_name": "SessionStart", "source": "startup", "cwd": str(project)}
    begin, fails = time.monotonic(), "the hook at session start fails"
    try:
        ran = subprocess.run(  # noqa: S602 - as agents run their hooks
            command, shell=True, input=json.dumps(event), capture_output=True, text=True, timeout=SECONDS,
            check=False, cwd=project, env=dict(environment),
        )  # fmt: skip
        # A hook never fails: what went wrong is on stderr.
        given = _context_in(json.loads(ran.stdout)) if ran.returncode == 0 and ran.stdout else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return CheckResult(State.WRONG, f"{fails}: {error}", f"run: {command}")
    if given is None:
        why = ran.stderr.strip() or "it answers in another form"
        return CheckResult(State.WRONG, f"{fails}: {why}", f"run: {command}")
    given_now = f"{len(given):,} characters" if given else "nothing yet, for the memory is empty,"
    return CheckResult(State.OK, f"session start gives {given_now} in {1000 * (time.monotonic() - begin):.0f} ms")


def _context_in(answer: object) -> str | None:
    """Return the text that a hook's answer puts into the context, in any agent's form; None for another answer."""
    found = at(answer, ["additional_context"], at(answer, ["hookSpecificOutput", "additionalContext"]))
    return found if isinstance(found, str) else None


def _ask_agent(agent: Agent, project: Path, environment: Mapping[str, str]) -> CheckResult:
    """Return whether the agent itself knows the server."""
    command = shlex.join(agent.lists)
    try:
        answer = run(agent.lists, project, environment)
    except subprocess.TimeoutExpired as error:
        return CheckResult(State.WAITS, f"'{command}' has not answered in {error.timeout:.0f} s", f"run: {command}")
    except OSError as error:
        return CheckResult(State.WRONG, f"'{command}' fails: {error}", f"run: {command}")
    text = f"{answer.stdout}\n{answer.stderr}"  # Gemini CLI answers on stderr
    if answer.returncode == 0 and re.search(agent.knows, text, re.MULTILINE):
        return CheckResult(State.OK, f"'{command}' knows the server")
    state = State.WAITS if re.search(agent.waits, text, re.MULTILINE) else State.WRONG
    rows = [line.strip() for line in text.splitlines() if "Status" in line or SERVER in line]
    row = next((one for one in rows if "Status" in one), "".join(rows[:1]))
    return CheckResult(state, f"'{command}' has no such server that works: {row}".rstrip(": "), agent.unknown)
