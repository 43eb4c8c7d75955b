"""Append a note to the scratch log; the next dream folds it in."""

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.cli.parsing import named_folder, plain_arguments, takes_workspace, workspace_of
from daemon.config.layers import redaction
from daemon.workspace.adoption import has_global_workspace, init_global_workspace
from state.scratch import DEFAULT_IMPORTANCE, Note
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import SimpleNamespace


def add(parser: "argparse.ArgumentParser") -> None:
    """Add the arguments: the note, and how much it matters."""
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the note; - reads it from stdin")
    parser.add_argument(
        "--importance", type=float, default=DEFAULT_IMPORTANCE, metavar="0–1", help="default %(default)s"
    )
    parser.add_argument(
        "--replaces", default="", metavar="ID|TEXT", help="the line or memory that the note replaces, or words of it"
    )
    takes_workspace(parser)


def plain(words: "Sequence[str]") -> "SimpleNamespace | None":
    """Return the arguments of an ordinary call; None if argparse has to read them."""
    options = {"--importance": float, "--replaces": str}
    read = plain_arguments(words, options, importance=DEFAULT_IMPORTANCE, replaces="", json=False)
    return read if read is not None and read.text else None


def run(arguments: "argparse.Namespace") -> int:
    """Append it durably, without its secrets, then print its stamp. The workspace's lock is not needed."""
    is_new = arguments.everywhere and _makes_global(arguments)
    workspace = workspace_of(arguments)
    text = _stdin() if arguments.text == ["-"] else " ".join(arguments.text)
    secrets = redaction(arguments.config, os.environ)
    given = Note(text, datetime.now(UTC), arguments.importance, replaces=arguments.replaces)
    note = NoteInbox(workspace).append(given, secrets)
    stamp = note.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    if arguments.json:
        import json

        fields = {"at": stamp, "importance": note.importance, "text": note.text}
        fields |= {"replaces": note.replaces} if note.replaces else {}
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{stamp}\n")
    if note.replaces:
        _warn(workspace, arguments, note)
    if is_new:
        from daemon.cli.init import keep

        keep(workspace, wanted=True)
    return 0


def _warn(workspace: Workspace, arguments: "argparse.Namespace", note: Note) -> None:
    """Say if what the note replaces is not found; the note is in the log already."""
    from daemon.api.access import LocalAccess
    from daemon.api.operations.notes import doubt_what_it_replaces
    from daemon.cli.parsing import config_of
    from daemon.cli.terminal import show_notices

    with LocalAccess(workspace, config_of(arguments), "dreamd note") as access:
        doubt_what_it_replaces(access, note)
    show_notices(access.notices)


def _makes_global(arguments: "argparse.Namespace") -> bool:
    """Make the global workspace if there is none; return whether there was none."""
    named_folder(arguments)  # which says so when another one is named too
    if has_global_workspace():
        return False
    init_global_workspace()
    return True


def _stdin() -> str:
    # Whatever bytes come: the log shows those that are no UTF-8 as escapes, and the note is kept.
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
