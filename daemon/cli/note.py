"""Append a note to the scratch log; the next dream folds it in."""

import argparse
import os
import sys
from datetime import UTC, datetime

from daemon.cli.parsing import config_of, named_folder, takes_workspace, workspace_of
from daemon.config.layers import redaction
from daemon.workspace.adoption import has_global_workspace, init_global_workspace
from state.scratch import DEFAULT_IMPORTANCE, Note
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: the note, and how much it matters."""
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the note; - reads it from stdin")
    parser.add_argument(
        "--importance", type=float, default=DEFAULT_IMPORTANCE, metavar="0–1", help="default %(default)s"
    )
    parser.add_argument(
        "--replaces", default="", metavar="ID|TEXT", help="the line or memory that the note replaces, or words of it"
    )
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Append it durably, without its secrets. Neither the workspace's lock nor its database is needed."""
    is_new = arguments.everywhere and _makes_global(arguments)
    workspace = workspace_of(arguments)
    # Whatever bytes come: the log shows those that are no UTF-8 as escapes, and the note is kept.
    text = (
        sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        if arguments.text == ["-"]
        else " ".join(arguments.text)
    )
    given = Note(text, datetime.now(UTC), arguments.importance, replaces=arguments.replaces)
    note = NoteInbox(workspace).append(given, redaction(arguments.config, os.environ))
    if arguments.json:
        import json

        fields = {"at": f"{note.at:%Y-%m-%dT%H:%M:%SZ}", "importance": note.importance, "text": note.text}
        fields |= {"replaces": note.replaces} if note.replaces else {}
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    else:
        secrets = note.text.count("[redacted: ") - text.count("[redacted: ")
        left_out = f" (with {secrets} secret{'s' * (secrets > 1)} left out)" if secrets > 0 else ""
        sys.stdout.write(f"noted{left_out}\n")
    if note.replaces:
        _warn(workspace, arguments, note)
    if is_new:
        from daemon.cli.init import keep

        keep(workspace, wanted=True)
    return 0


def _warn(workspace: Workspace, arguments: argparse.Namespace, note: Note) -> None:
    """Say if what the note replaces is not found; the note is in the log already."""
    from daemon.api.access import LocalAccess
    from daemon.api.operations.notes import doubt_what_it_replaces
    from daemon.cli.terminal import show_notices

    with LocalAccess(workspace, config_of(arguments), "dreamd note") as access:
        doubt_what_it_replaces(access, note)
    show_notices(access.notices)


def _makes_global(arguments: argparse.Namespace) -> bool:
    """Make the global workspace if there is none; return whether there was none."""
    named_folder(arguments)  # which says so when another one is named too
    if has_global_workspace():
        return False
    init_global_workspace()
    return True
