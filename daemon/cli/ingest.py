"""Ingest: reads transcripts; with --hook, the command that agents' hooks run to have theirs read and dreamt."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import WORKSPACE, arg, command, workspace_of
from state.agents import TRIED, agent_called
from state.errors import (
    BusyError,
    DreamdError,
    NotFoundError,
    NothingToDoError,
    NotKeptError,
    NoWorkspaceError,
    ReadOnlyError,
    StoppedError,
    StorageError,
    UnknownWorkspaceError,
    UsageError,
)

if TYPE_CHECKING:
    from daemon.ingest.agent_hooks import Hook
    from state.stores.disk.workspace import Workspace

# Agents end their hooks after one to three seconds.
_ASKING_SECONDS = 1.0
# Without a daemon, turns of a session start at most one dream in this time.
_BETWEEN_DREAMS_SECONDS = 1_800.0
_HOOK = (
    "what a hook of an agent runs: link the transcript that its JSON on stdin names into the workspace, where"
    " dreams and the daemon read it; at the end of a session have it dreamt"
)


@command(
    arg(
        "paths", nargs="*", type=Path, metavar="PATH",
        help="files, or folders of them; with --found, names of agents",
    ),
    arg("--found", action="store_true", help="show what agents and people wrote down before, and take it in"),
    arg(
        "--mine", action="append", default=[], type=Path, metavar="FILE",
        help="with --found: these instructions are your own, or of people you trust as yourself",
    ),
    arg("--yes", action="store_true", help="with --found: take it in, and ask nothing"),
    arg("--hook", action="store_true", help=_HOOK),
    arg("--agent", metavar="NAME", help="with --hook: whose hook it is"),
    *WORKSPACE,
)  # fmt: skip
def ingest(arguments: argparse.Namespace) -> int:
    """Read transcripts into the long-term memory: sessions of agents, OpenAI-style messages, Markdown, plain text.

    With --found: what CLAUDE.md, AGENTS.md, GEMINI.md, agents' own memories and past sessions of this project have.
    Exit status 1: nothing could be read.
    """
    if arguments.hook:
        return _run_as_hook(arguments)
    if arguments.found:
        from daemon.cli.ingest_found import run_found

        return run_found(arguments)
    if arguments.mine or arguments.yes:
        raise UsageError("--mine and --yes go with --found", "see 'dreamd ingest --help'")
    if not arguments.paths:
        raise UsageError("name the files or folders to read", "see 'dreamd ingest --help'")
    from daemon.api.operations.notes import ingest as operation
    from daemon.cli.perform import read_in
    from daemon.cli.terminal import out, say, show_json
    from state.text.words import counted

    done = read_in(arguments, operation, paths=tuple(str(path.absolute()) for path in arguments.paths))
    for problem in done.problems:
        say(f"problem: {problem}")
    if arguments.json:
        show_json(done)
    else:
        read = f"{counted(done.turns, 'turn')} of {counted(done.files - done.unread, 'file')}"
        out(f"{read}, {counted(done.crystals, 'new crystal')}")
    return int(done.unread == done.files)


def _run_as_hook(arguments: argparse.Namespace) -> int:
    """Run as a hook: print nothing on stdout, and never return 2, with which a hook blocks its agent."""
    if os.environ.get(TRIED):
        return 0
    try:
        _link_and_dream(arguments)
    except DreamdError as error:
        from daemon.cli.terminal import say

        say(f"dreamd: {' '.join(str(error).split())}")
        return int(not isinstance(error, ReadOnlyError))  # a sandbox: nothing can be kept, and nothing is wrong
    return 0


def _link_and_dream(arguments: argparse.Namespace) -> None:
    """Link the transcript, so that it is read; after a session or a turn ask for a dream without waiting for it."""
    from daemon.config.layers import transcripts
    from daemon.ingest.agent_hooks import link, parse_hook
    from daemon.workspace.adoption import is_untold

    if arguments.paths or arguments.found:
        raise UsageError("--hook learns on stdin what to read", "leave out PATH and --found")
    hook = parse_hook(sys.stdin.buffer.read())
    # A session that ended without a word has no transcript.
    is_written = hook.transcript is not None and hook.transcript.exists()
    try:
        workspace = workspace_of(
            arguments, hook.project(os.environ, agent_called(arguments.agent or "")), makes=is_written
        )
    except NoWorkspaceError:  # nothing is kept of this folder
        return
    globs = transcripts(arguments.config, os.environ)
    if hook.transcript is not None and (is_written or not hook.ends_session):
        link(workspace, hook.transcript, globs)
    if is_untold(workspace):
        from daemon.api.keeping import keep

        keep(workspace, wanted=True)
    if (hook.ends_session or hook.ends_turn) and not _left_to_daemon(workspace, hook):
        _dream_apart(workspace, hook, arguments.config)


def _left_to_daemon(workspace: "Workspace", hook: "Hook") -> bool:
    """Return whether a daemon keeps the workspace; at the end of a session, ask it for a dream.

    Otherwise it dreams when due. A busy daemon counts, too, as it watches the transcript.
    """
    from daemon.api.client import NoDaemonError, daemon
    from state.stores.disk.lock import is_stopped, present_holder

    client = daemon()
    if client is None or is_stopped(present_holder(workspace)):
        return False
    try:
        if hook.ends_session:
            fields = {"reason": "session-end", "wait": False}
            client.post("/dream_now", fields, workspace.name, _ASKING_SECONDS)
        else:
            client.post("/dream_status", {}, workspace.name, _ASKING_SECONDS)
    except (NoDaemonError, UnknownWorkspaceError, NotKeptError, NotFoundError):
        return False
    except (NothingToDoError, BusyError, StoppedError, StorageError):
        pass  # the daemon keeps the workspace
    return True


def _dream_apart(workspace: "Workspace", hook: "Hook", config: Path | None) -> None:
    """Start a dream in a process session of its own, so that it survives the agent; its stderr goes to a log.

    It holds the log's lock while it runs, so that of a thousand sessions that end at once only one starts a dream.
    """
    import fcntl
    import subprocess

    from daemon.config.paths import make_private_folder, program
    from daemon.workspace.adoption import dream_log
    from state.stores.disk.syscalls import storage_errors

    log = dream_log(workspace)
    make_private_folder(log.parent)
    with storage_errors(log):
        if hook.ends_turn and log.exists() and abs(time.time() - log.stat().st_mtime) < _BETWEEN_DREAMS_SECONDS:
            return
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as said:
            try:
                fcntl.flock(said, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            said.truncate(0)
            os.utime(said.fileno())
            named = ["--config", str(config.absolute())] if config is not None else []
            subprocess.Popen(  # noqa: S603 - the program is this one
                [*program(), "dream", "--workspace", str(workspace.root), "--reason", "session-end", *named],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
            )  # fmt: skip
