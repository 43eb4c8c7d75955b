"""Read transcripts into the long-term memory: Claude Code and Codex JSONL, OpenAI-style messages, Markdown, text."""

import argparse
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, config_of, takes_workspace, workspace_of
from daemon.cli.terminal import counted, out, say, show_json, working
from state.errors import BusyError, DreamdError, NothingToDoError, UsageError

if TYPE_CHECKING:
    from daemon.api.dispatch import Caller
    from daemon.api.operations.notes import Ingested

# A daemon often takes in for a moment what was just written; a dream may take longer than anybody waits.
_PATIENCE_SECONDS = 30.0
_POLL_SECONDS = 0.2


def add(parser: argparse.ArgumentParser) -> None:
    """What to read."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files, or folders of them")
    parser.add_argument(
        "--hook",
        action="store_true",
        help="what a hook of Claude Code or Codex runs: link the transcript that its JSON on stdin names into the"
        " workspace, where dreams and the daemon read it; at the end of a session ask for a dream",
    )
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read what is new in them; 1 when nothing could be read."""
    if arguments.hook:
        return _run_as_hook(arguments)
    if not arguments.paths:
        raise UsageError("name the files or folders to read", "see 'dreamd ingest --help'")
    with working("reading…") as tell:
        caller = caller_of(arguments, "ingest", lambda step: tell(step.figures))
        done = _ingested(caller, arguments.paths)
    for problem in done.problems:
        say(f"problem: {problem}")
    if arguments.json:
        show_json(done)
    else:
        read = f"{counted(done.turns, 'turn')} of {counted(done.files - done.unread, 'file')}"
        out(f"{read}, {counted(done.crystals, 'new crystal')}")
    return 1 if done.unread == done.files else 0


def _ingested(caller: "Caller", paths: list[Path]) -> "Ingested":
    """What was read. A daemon that is busy is asked again for a while. Raises BusyError when that is not enough."""
    from daemon.api.client import daemon
    from daemon.api.operations.notes import Ingest, ingest

    request = Ingest(paths=tuple(str(path.absolute()) for path in paths))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return caller.ask(ingest, request)
        except BusyError:
            if daemon() is None or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_SECONDS)


def _run_as_hook(arguments: argparse.Namespace) -> int:
    """As a hook: nothing on stdout, and never status 2, by which hooks stop what the agent does."""
    try:
        _link_and_dream(arguments)
    except DreamdError as error:
        say(f"dreamd: {error}")
        return 1
    return 0


def _link_and_dream(arguments: argparse.Namespace) -> None:
    """Link the transcript, so that it is read; at the end of a session ask for a dream.

    The daemon queues that dream; without a daemon it runs here.
    """
    from daemon.ingest.agent_hooks import link, parse_hook

    if arguments.paths:
        raise UsageError("--hook learns on stdin what to read", "leave out PATH")
    hook = parse_hook(sys.stdin.buffer.read())
    if hook.transcript is not None and hook.transcript.exists():  # a session in which nothing was said has none
        link(workspace_of(arguments), hook.transcript, config_of(arguments).sources.transcripts)
    if not hook.ends_session:
        return
    caller = caller_of(arguments, "ingest")
    from daemon.api.operations.dreams import DreamNow, dream_now

    with suppress(NothingToDoError):
        caller.ask(dream_now, DreamNow(reason="session-end", wait=False))
