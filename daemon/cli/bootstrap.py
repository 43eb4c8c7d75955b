"""Bootstrap: the command that runs at the start of each agent session; it imports almost nothing."""

import argparse
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.cli.parsing import FOLDER, JSON, arg, command, workspace_of
from daemon.config.layers import context_window, new_memories, redaction, transcripts, zone
from daemon.config.paths import is_global
from daemon.observability.printable import safe
from daemon.workspace.adoption import has_global_workspace, is_untold, open_global_workspace, told
from daemon.workspace.session_start import session
from state.agents import TRIED, agent_called, reader_of
from state.bootstrap import Bootstrap, budget_for
from state.errors import (
    DreamdError,
    ForeignError,
    IgnoredError,
    NoMemoryError,
    NoWorkspaceError,
    ReadOnlyError,
    UsageError,
)
from state.stores.disk.workspace import Workspace
from state.stores.history.leave_receipt import leave_receipt

if TYPE_CHECKING:
    from daemon.ingest.agent_hooks import Hook

DEFAULT_WINDOW = 200_000
# A busy agent may write its message, which says in which folder it works, only after it has started the hook.
_WAIT_SECONDS = 0.25
_LONGEST_MESSAGE = 1 << 16


# The hook's answer for another user's memory; it quotes nothing of that memory.
_FOREIGN = Bootstrap(
    "dreamd: this folder says that it has a memory of somebody else's, or is a copy, so none is shown. "
    "'dreamd status' in the folder says what its owner can do.\n",
    (),
    0,
    truncated=False,
)


# What an agent is told in a repository that gets no memory by itself.
_ASKING = "[dreamd: {} has no memory yet; its owner may run 'dreamd init', or 'dreamd ignore .' for none]\n"


@command(
    arg("--context-window", type=int, metavar="N", help="tokens of the reading model (else dream.context_window)"),
    arg(
        "--format", choices=("md", "json", "hook"), default="md",
        help="hook: what an agent's hook at session start answers; default %(default)s",
    ),
    arg(
        "--agent", metavar="NAME",
        help="who reads it, for the receipt and for the limit of its hook: claude-code, codex, cursor, gemini, …",
    ),
    arg("--json", action="store_const", const="json", dest="format", help="--format json"),
    *(one for one in FOLDER if one is not JSON),
)  # fmt: skip
def bootstrap(arguments: argparse.Namespace) -> int:
    """Print what an agent reads at session start: MEMORY.md within its budget, then the pending notes."""
    # It takes no lock and waits for nothing; a missing MEMORY.md counts as empty.
    is_hook = arguments.format == "hook"
    event, agent = _event() if is_hook else None, agent_called(arguments.agent or "")
    workspace = _workspace(arguments, event, agent)
    if not isinstance(workspace, Workspace):
        sys.stdout.write(_formatted(workspace, "hook", agent) if workspace.text else "")
        return 0
    reader, window = reader_of(agent), arguments.context_window
    if window is None:
        window = context_window(arguments.config, os.environ, DEFAULT_WINDOW)
    if window < 1:
        raise UsageError(f"a context window of {window} tokens is impossible", "give a positive number")
    limits = reader if is_hook else None
    policy, here = redaction(arguments.config, os.environ), zone(arguments.config, os.environ)
    given = session(workspace, window, limits, policy, datetime.now(UTC), zone=here)
    ready = given.ready
    sys.stdout.write(_formatted(ready, arguments.format, agent))
    for notice in given.notices:
        sys.stderr.write(f"notice: {safe(notice)}\n")
    _take_note(workspace, ready, window, agent, arguments, event)
    if not ready.text:
        sys.stderr.write(
            f"{safe(str(workspace.root))} remembers nothing yet; 'dreamd note' and 'dreamd dream' change that\n"
        )
    return 0


def _workspace(arguments: argparse.Namespace, event: "Hook | None", agent: str) -> Workspace | Bootstrap:
    """Return the workspace to read, or what a hook is to print instead.

    For another user's memory, and where the owner is to say whether there shall be one, that is one line. Where
    nothing is kept it is what is true everywhere, or nothing. Any other caller than a hook gets an error.
    """
    try:
        start = event.project(os.environ, agent) if event is not None else None
        return workspace_of(arguments, start, is_agents=True)
    except ForeignError:
        if arguments.format != "hook":
            raise
        return _FOREIGN
    except NoWorkspaceError as error:
        if arguments.format != "hook":
            raise
        is_asked = isinstance(error, NoMemoryError) and new_memories(arguments.config, os.environ) == "ask"
        if isinstance(error, NoMemoryError) and is_asked:
            return Bootstrap(_ASKING.format(error.project), (), 0, truncated=False)
        if not isinstance(error, IgnoredError) and has_global_workspace():
            return open_global_workspace()
        return Bootstrap("", (), 0, truncated=False)


def _take_note(
    workspace: Workspace,
    ready: Bootstrap,
    window: int,
    agent: str,
    arguments: argparse.Namespace,
    event: "Hook | None",
) -> None:
    """Record what was given, and link the session's transcript: the session may be killed, and run no other hook.

    A failure is only a notice, as the agent already has its memory.
    """
    sys.stdout.flush()
    if os.environ.get(TRIED):
        return
    is_hook, now = arguments.format == "hook", datetime.now(UTC)
    budget = min(budget_for(window), ready.most or budget_for(window))
    try:
        how, named = "hook" if is_hook else "command line", event.session if event else ""
        leave_receipt(workspace, ready, budget, now, how, named, agent=agent)
    except DreamdError as error:
        sys.stderr.write(f"notice: that this was given is not noted: {safe(str(error))}\n")
    if is_hook and ready.text and is_untold(workspace):
        with suppress(ReadOnlyError):  # then it is said again
            told(workspace)
    if event is None or event.transcript is None or is_global(workspace.root, os.environ):
        return
    from daemon.ingest.agent_hooks import link

    try:
        link(workspace, event.transcript, transcripts(arguments.config, os.environ))
    except DreamdError as error:
        sys.stderr.write(f"notice: this session may not be read: {safe(str(error))}\n")


def _event() -> "Hook | None":
    """Return what the agent sends to its hook on stdin; None if nothing usable comes within 0.25 s."""
    import select

    from daemon.ingest.agent_hooks import parse_hook

    try:
        stdin = sys.stdin.fileno()
        if os.isatty(stdin) or not select.select([stdin], [], [], _WAIT_SECONDS)[0]:
            return None
        return parse_hook(os.read(stdin, _LONGEST_MESSAGE))
    except (OSError, ValueError, AttributeError, UsageError):  # stdin is closed, or has no event
        return None


def _formatted(ready: Bootstrap, form: str, agent: str) -> str:
    if form == "md":
        return safe(ready.text) if sys.stdout.isatty() else ready.text
    import json

    if form == "hook" and agent == "cursor":
        return json.dumps({"additional_context": ready.text}, ensure_ascii=False) + "\n"
    if form == "hook":
        answer = {"hookEventName": "SessionStart", "additionalContext": ready.text}
        return json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False) + "\n"
    return json.dumps({"text": ready.text, **ready._asdict(), "cut": dict(ready.cut)}, ensure_ascii=False) + "\n"
