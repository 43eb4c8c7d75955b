"""List what was taken for a secret by its surroundings alone, and bring back what was none.

A key with a shape of its own is gone from the memory for good; what only a word beside it told is kept for a week as
it was given, encrypted, for you alone. `allow` notes it anew as it was, and from then on lets it stand.
"""

import argparse
import json
import os
import re
import signal
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from daemon.api.client import daemon
from daemon.cli.parsing import takes_workspace, workspace_of
from daemon.cli.perform import show
from daemon.cli.terminal import say
from daemon.config.layers import redaction
from daemon.config.paths import allow_path, allowed, make_private_folder
from state.errors import DreamdError, NotFoundError, NothingToDoError, UsageError
from state.scratch import Note
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.originals import Original, Originals


@dataclass(frozen=True, slots=True)
class Redacted:
    """What may be no secret, without what is one by these rules."""

    originals: tuple[Original, ...]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: what to do, and with which."""
    about = "list (what is meant without a word), or allow"
    parser.add_argument("deed", nargs="?", choices=("list", "allow"), default="list", help=about)
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
    shown = tuple(replace(one, text=one.text if arguments.show else rules.of(one.text)) for one in originals)
    show(_redacted_text, Redacted(shown), as_json=arguments.json)
    return 0


def _redacted_text(found: Redacted) -> str:
    return "\n".join(
        f"{one.id}  {one.at}  {one.where}  {', '.join(one.kinds)}\n  {' '.join(one.text.split())}"
        for one in found.originals
    )


def _allow(arguments: argparse.Namespace, workspace: Workspace) -> int:
    """Let the text stand from now on, and note what it was taken out of anew."""
    originals, now, given = Originals(workspace), datetime.now(UTC), arguments.text
    chosen = next((one for one in originals.all(now) if one.id == given), None)
    if chosen is None and re.fullmatch("[0-9a-f]{8}", given):
        raise NotFoundError(f"no original has the id {given}", "'dreamd secrets' lists them")
    path = allow_path(os.environ)
    make_private_folder(path.parent)
    disk = Disk(path.parent)
    with disk.locked(path, b"[]"):
        texts = dict.fromkeys((*allowed(os.environ), chosen.text if chosen else given))
        disk.write_atomic(path, json.dumps(list(texts), ensure_ascii=False, indent=0).encode())
    rules = redaction(arguments.config, os.environ)
    for one in [chosen] if chosen else [one for one in originals.all(now) if given in one.text]:
        if rules.of(one.text) == one.text:
            NoteInbox(workspace).append(Note(one.text, datetime.fromisoformat(one.at)), rules)
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
