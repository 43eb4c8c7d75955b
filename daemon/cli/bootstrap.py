"""Print what an agent reads at session start: MEMORY.md within its budget, then the pending notes."""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import names_folder, plain_arguments, workspace_of
from daemon.config.layers import context_window, redaction
from daemon.observability.printable import safe
from state.bootstrap import Bootstrap, bootstrap, budget_for
from state.errors import DreamdError, UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import leave_receipt
from state.stores.history.segments import Segments

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import SimpleNamespace

DEFAULT_WINDOW = 200_000
# Of what a hook answers, Claude Code gives the model a preview alone when it is longer than 10,000 characters.
HOOK_CHARACTERS = 9_500
_FORMATS = ("md", "json", "hook")
# An agent that is busy may write its message after it has started the hook; what it is given is out by then.
_WAIT_SECONDS = 0.25
_LONGEST_MESSAGE = 1 << 16


# What an agent's hook answers where the memory is somebody else's: nothing of it, and no name from it.
_FOREIGN = Bootstrap(
    "dreamd: the memory in this folder was made by somebody else and is not shown. Its owner adopts it with "
    "'dreamd init --trust' in the folder.\n",
    (),
    0,
    truncated=False,
)


def add(parser: "argparse.ArgumentParser") -> None:
    """For which reader, and in which form."""
    parser.add_argument(
        "--context-window", type=int, metavar="N", help="tokens of the reading model (else dream.context_window)"
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        default="md",
        help="hook: what a session-start hook of Claude Code answers; default %(default)s",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="--format json")
    names_folder(parser)


def plain(words: "Sequence[str]") -> "SimpleNamespace | None":
    """The arguments of an ordinary call; None: argparse has to read them."""
    options = {"--context-window": int, "--format": str}
    read = plain_arguments(words, options, folder=None, context_window=None, format="md")
    if read is None or len(read.text) > 1 or read.format not in _FORMATS:
        return None
    read.folder = Path(read.text[0]) if read.text else None
    return read


def run(arguments: "argparse.Namespace") -> int:
    """Print it, and leave a receipt. Nothing waits, no lock of the workspace is taken; a missing MEMORY.md is empty.

    What somebody else made is no agent's memory. Raises ForeignError then, but for a hook, which says so in one line.
    """
    workspace = workspace_of(arguments)
    if workspace.foreign and arguments.format == "hook":
        sys.stdout.write(_formatted(_FOREIGN, "hook"))
        return 0
    workspace.require_own()
    window = arguments.context_window
    if window is None:
        window = context_window(arguments.config, os.environ, DEFAULT_WINDOW)
    if window < 1:
        raise UsageError(f"a context window of {window} tokens is impossible", "give a positive number")
    most = HOOK_CHARACTERS if arguments.format == "hook" else None
    newest, secrets = Segments(workspace).newest(), redaction(arguments.config, os.environ)
    memory, shown_of = _memory(workspace), _unforgotten(workspace)
    ready = bootstrap(memory, newest.notes, window, most, secrets, shown_of, more=newest.more)
    sys.stdout.write(_formatted(ready, arguments.format))
    budget = budget_for(window) if most is None else min(budget_for(window), most)
    _leave_receipt(workspace, ready, budget, hook=arguments.format == "hook")
    if not ready.text:
        sys.stderr.write(f"{workspace.root} remembers nothing yet; 'dreamd note' and 'dreamd dream' change that\n")
    return 0


def _leave_receipt(workspace: Workspace, ready: Bootstrap, budget: int, *, hook: bool) -> None:
    """Note what was given; an agent that has been given it is not to fail for that."""
    sys.stdout.flush()
    session = _session_of_hook() if hook else ""
    try:
        leave_receipt(workspace, ready, budget, datetime.now(UTC), "hook" if hook else "command line", session)
    except DreamdError as error:
        sys.stderr.write(f"notice: that this was given is not noted: {error}\n")


def _session_of_hook() -> str:
    """The session in what the agent gave its hook on stdin; "" when nothing comes, which is hardly waited for."""
    import json
    import select

    try:
        stdin = sys.stdin.fileno()
        if os.isatty(stdin) or not select.select([stdin], [], [], _WAIT_SECONDS)[0]:
            return ""
        message = json.loads(os.read(stdin, _LONGEST_MESSAGE))
    except (OSError, ValueError, AttributeError, RecursionError):  # it is closed, or says something else
        return ""
    session = message.get("session_id") if isinstance(message, dict) else None
    return session if isinstance(session, str) else ""


def _unforgotten(workspace: Workspace) -> Callable[[str], str]:
    """What may be shown of a note: not what was forgotten for good. Without notes nothing is loaded."""

    @cache
    def unforgotten() -> Callable[[str], str]:
        if not workspace.database.exists():
            return str
        from state.stores.database.tombstones import tombstones_in

        return tombstones_in(workspace.database).without

    def shown_of(text: str) -> str:
        return unforgotten()(text)

    return shown_of


def _memory(workspace: Workspace) -> str:
    content = Disk(workspace.root).read_optional(workspace.document) or b""
    text = content.decode(errors="replace")
    if "\ufffd" in text and "\ufffd".encode() not in content:
        # An agent that gets all but one character is better off than one that gets nothing.
        sys.stderr.write(f"{workspace.document} is not UTF-8 throughout; save it as UTF-8\n")
    return text


def _formatted(ready: Bootstrap, form: str) -> str:
    if form == "md":
        return safe(ready.text) if sys.stdout.isatty() else ready.text
    import json
    from dataclasses import asdict

    if form == "hook":
        answer = {"hookEventName": "SessionStart", "additionalContext": ready.text}
        return json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False) + "\n"
    return json.dumps({"text": ready.text, **asdict(ready)}, ensure_ascii=False) + "\n"
