"""List what was taken for a secret by its surroundings alone, and bring back what was none.

A key with a shape of its own is gone from the memory for good; what only a word beside it told is kept for a week as
it was given, encrypted, for you alone. `allow` notes it anew as it was, and from then on lets it stand.
"""

import argparse
import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime

from daemon.api.client import daemon
from daemon.cli.parsing import takes_workspace, workspace_of
from daemon.cli.terminal import out, say, show_json
from daemon.config.layers import redaction
from daemon.config.paths import allow_path, allowed, make_private_folder
from state.errors import DreamdError, NotFoundError, NothingToDoError, UsageError
from state.scratch import Note
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.originals import Original, Originals

_ID = 8


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what to do, and with which."""
    parser.add_argument(
        "deed",
        nargs="?",
        choices=("list", "allow"),
        default="list",
        help="list (what is meant without a word), or allow",
    )
    parser.add_argument("text", nargs="?", metavar="ID|TEXT", help="of the list, or any text that is no secret")
    parser.add_argument("--show", action="store_true", help="the whole texts, on a terminal alone")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """List them, or allow one; return 3 if there is none."""
    workspace = workspace_of(arguments)
    if arguments.deed == "allow":
        if not (arguments.text or "").strip():
            raise UsageError("which one? give an id that 'dreamd secrets' lists, or a text that is no secret")
        return _allow(arguments, workspace)
    if arguments.show and not sys.stdout.isatty():
        raise UsageError("--show writes secrets, and only to a terminal", "leave it out")
    originals = Originals(workspace).all(datetime.now(UTC))
    if not originals:
        raise NothingToDoError("nothing was redacted that may be no secret")
    rules = redaction(arguments.config, os.environ)
    rows = [(one, one.text if arguments.show else rules.of(one.text)) for one in originals]
    if arguments.json:
        show_json([replace(one, text=text) for one, text in rows])
        return 0
    for one, text in rows:
        out(f"{one.id}  {one.at}  {one.where}  {', '.join(one.kinds)}", "bold")
        out(f"  {' '.join(text.split())}")
    return 0


def _allow(arguments: argparse.Namespace, workspace: Workspace) -> int:
    originals, now = Originals(workspace), datetime.now(UTC)
    chosen = next((one for one in originals.all(now) if one.id == arguments.text), None)
    if chosen is None and len(arguments.text) == _ID and all(one in "0123456789abcdef" for one in arguments.text):
        raise NotFoundError(f"no original has the id {arguments.text}", "'dreamd secrets' lists them")
    _let(chosen.text if chosen else arguments.text)
    back = [chosen] if chosen else [one for one in originals.all(now) if arguments.text in one.text]
    rules = redaction(arguments.config, os.environ)
    for one in back:
        if rules.of(one.text) == one.text:
            _bring_back(workspace, one, arguments)
            originals.drop(one.id)
            say(f"noted anew as it was given: {one.id}")
    say(f"it is allowed from now on{_told_the_daemon()}")
    return 0


def _told_the_daemon() -> str:
    """Have a daemon that runs read the list; what to do where that cannot be."""
    client = daemon()
    if client is None:
        return ""
    try:
        os.kill(int(client.get("/v1/workspaces")["pid"]), signal.SIGHUP)
    except (DreamdError, OSError) as error:
        return f", but by the daemon only when it starts again ({error})"
    return ", by the daemon too"


def _bring_back(workspace: Workspace, one: Original, arguments: argparse.Namespace) -> None:
    note = Note(one.text, datetime.fromisoformat(one.at))
    NoteInbox(workspace).append(note, redaction(arguments.config, os.environ))


def _let(text: str) -> None:
    import json

    path = allow_path(os.environ)
    make_private_folder(path.parent)
    disk = Disk(path.parent)
    with disk.locked(path, b"[]"):
        texts = dict.fromkeys((*allowed(os.environ), text))
        disk.write_atomic(path, json.dumps(list(texts), ensure_ascii=False, indent=0).encode())
