"""Archive: exports a whole workspace into one file, while agents and the daemon go on, and imports such a file."""

import argparse
import os
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.keeping import keep
from daemon.cli.parsing import FOLDER, WORKSPACE, arg, caller_of, command, config_of, named_folder
from daemon.cli.perform import retry_while_busy, show
from daemon.cli.terminal import out, say, show_json, show_notices, spinner
from daemon.cli.workspace import show_next_steps
from daemon.workspace.adoption import open_workspace
from state.codec import plain
from state.errors import DreamdError, StorageError, UsageError
from state.stores.disk.disk import Disk
from state.stores.disk.syscalls import System, storage_errors
from state.text.words import counted
from state.zone import clock_time

if TYPE_CHECKING:
    from daemon.upkeep.export import Exported

_STDOUT = "-"
# A nightly backup waits for a dream, which may take minutes.
_PATIENCE_SECONDS = 600.0
_ENDINGS = (".db", ".dreamd")


@command(
    arg(
        "-o", "--output", metavar="FILE",
        help="the file, replaced if it is there, or a folder for it; - writes to stdout"
        " (else NAME-DATE-TIME.dreamd.db here)",
    ),
    *FOLDER,
)  # fmt: skip
def export(arguments: argparse.Namespace) -> int:
    """Write the whole workspace into one file: a backup that can be taken while agents and the daemon go on."""
    from daemon.api.operations.upkeep import export_archive

    is_piped = arguments.output == _STDOUT
    if is_piped and arguments.json:
        raise UsageError("--json needs stdout for itself", "name a file with --output")
    if is_piped and sys.stdout.isatty():
        raise UsageError("an archive is nothing for a terminal", "name a file, or send stdout to one")
    with spinner("exporting…"):
        caller = caller_of(arguments, "export")
        target = None if is_piped else _target(arguments.output, caller.workspace.root)
        done = retry_while_busy(lambda: caller.ask(export_archive), _PATIENCE_SECONDS, say)
        made = Path(done.path)
        try:
            with storage_errors(target or made):
                if target is not None:
                    _move(made, target)
                else:
                    with made.open("rb") as file:
                        shutil.copyfileobj(file, sys.stdout.buffer)
                    sys.stdout.buffer.flush()
        finally:
            with suppress(FileNotFoundError):
                made.unlink()
    if target is not None:
        show(_exported_text, replace(done, path=str(target)), as_json=arguments.json)
    return 0


def _exported_text(done: "Exported") -> str:
    counts = f"{counted(done.version, 'version')}, {counted(done.crystals, 'crystal')}"
    return f"{done.path}: {counts}, {done.bytes:,} bytes"


def _target(output: str | None, root: Path) -> Path:
    """Return the path of the file to write. Raise UsageError if that is no file, or has no folder."""
    path = Path(output) if output else Path.cwd()
    with storage_errors(path):
        if path.is_dir():
            path /= f"{root.name or 'workspace'}-{time.strftime('%Y%m%d-%H%M%S')}.dreamd.db"
        path = Path(os.path.realpath(path))
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no regular file", "name a file, or - for stdout")
        if not path.parent.is_dir():
            raise UsageError(f"{path.parent} is no folder", "make it first, or name another one")
    return path


def _move(made: Path, target: Path) -> None:
    """Move the archive, perhaps to another disk, so that it appears complete and readable by its owner only.

    It is copied in pieces, since it may be larger than memory, and without links, which a USB stick may not have.
    """
    beside = target.with_name(f".dreamd-export-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        # Under a new name: an existing file would pass on its permissions.
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as copy, made.open("rb") as file:
            shutil.copyfileobj(file, copy)
            copy.flush()
            System().fsync(fd)
        if beside.stat().st_size != made.stat().st_size:
            raise StorageError(f"{target} could not be written whole", "try again")
        beside.replace(target)
        Disk(target.parent).fsync_folder(target.parent)
    finally:
        beside.unlink(missing_ok=True)


@command(
    arg("file", type=Path, metavar="FILE", help="an archive of 'dreamd export'"),
    arg(
        "folder",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="the workspace to be (else one with the file's name, here)",
    ),
    arg("--no-daemon", action="store_true", help="the daemon shall not look after it"),
    *WORKSPACE,
)
def import_(arguments: argparse.Namespace) -> int:
    """Make a workspace of a file that 'dreamd export' wrote, in a folder that is new or empty."""
    config = config_of(arguments)
    wanted, name = not arguments.no_daemon, arguments.file.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    is_named = arguments.folder or arguments.workspace or arguments.everywhere
    folder = (named_folder(arguments) if is_named else None) or Path.cwd() / (name or "workspace")
    is_here = os.path.realpath(folder) == os.path.realpath(Path.cwd())
    with spinner("importing…"):
        from daemon.upkeep.import_ import import_archive

        done = import_archive(arguments.file, folder)
    workspace, kept, notices = open_workspace(Path(done.workspace)), False, list[str]()
    if done.missing:
        versions = counted(len(done.missing), "version")
        notices.append(f"{versions} without a record can be neither shown nor restored")
    if done.foreign:
        what = f"{counted(done.foreign, 'transcript')} outside the workspace"
        notices.append(f"{what} had been read, and is not read here; 'dreamd ingest FILE' reads one")
    if is_here:
        notices.append(f"{workspace.root} is another folder now; 'cd' into it again")
    try:
        kept = keep(workspace, wanted=wanted)
    except DreamdError as error:  # the import has succeeded, even if the registration fails
        notices.append(f"the daemon does not know of it ({error}); run 'dreamd init {workspace.root}'")
    show_notices(notices)
    if arguments.json:
        show_json(plain(done) | {"daemon": kept})
        return 0
    what = f"{counted(done.version, 'version')}, {counted(done.crystals, 'crystal')}"
    out(f"{workspace.root} is a workspace now: {what}, as of {clock_time(done.at, config.zone)}")
    show_next_steps(workspace, kept=kept, wanted=wanted, is_new=True)
    return 0
