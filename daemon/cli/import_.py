"""Make a workspace of a file that 'dreamd export' wrote, in a folder that is new or empty."""

import argparse
import os
from pathlib import Path

from daemon.api.text import counted
from daemon.cli.init import keep, show_next_steps
from daemon.cli.parsing import config_of, named_folder, takes_workspace
from daemon.cli.terminal import out, say, show_json, working
from daemon.workspace.adoption import open_workspace
from state.codec import plain
from state.errors import DreamdError

_ENDINGS = (".gz", ".tar", ".db", ".dreamd")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which file, and where to."""
    parser.add_argument("file", type=Path, metavar="FILE", help="an archive of 'dreamd export'")
    about = "the workspace to be (else one with the file's name, here)"
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help=about)
    parser.add_argument("--no-daemon", action="store_true", help="the daemon shall not look after it")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Import it, and show how to connect an agent."""
    config_of(arguments)
    wanted, name = not arguments.no_daemon, arguments.file.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    is_named = arguments.folder or arguments.workspace or arguments.everywhere
    folder = (named_folder(arguments) if is_named else None) or Path.cwd() / (name or "workspace")
    with working("importing…"):
        from daemon.upkeep.import_ import import_archive

        is_here = os.path.realpath(folder) == os.path.realpath(Path.cwd())
        done = import_archive(arguments.file, folder)
    workspace, kept, notices = open_workspace(Path(done.workspace)), False, list[str]()
    if done.missing:
        versions = counted(len(done.missing), "version")
        notices.append(f"{versions} had no record: they can be neither shown nor restored")
    if done.foreign:
        what = f"{counted(done.foreign, 'transcript')} outside the workspace"
        notices.append(f"{what} had been read: here none of them is; 'dreamd ingest FILE' reads one")
    if is_here:
        notices.append(f"{workspace.root} is another folder now; 'cd' into it again")
    try:
        kept = keep(workspace, wanted=wanted)
    except DreamdError as error:  # the workspace is there, whatever the registry fails with
        notices.append(f"the daemon does not know of it ({error}); run 'dreamd init {workspace.root}'")
    for notice in notices:
        say(f"notice: {notice}")
    if arguments.json:
        show_json(plain(done) | {"daemon": kept})
        return 0
    what = f"{counted(done.version, 'version')}, {counted(done.crystals, 'crystal')}"
    out(f"{workspace.root} is a workspace now: {what}, as of {done.at:%Y-%m-%d %H:%M:%S} UTC")
    show_next_steps(workspace, kept=kept, wanted=wanted)
    return 0
