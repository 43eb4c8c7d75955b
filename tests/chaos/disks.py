"""Disks that fail: any call with EIO or ENOSPC, a file system that is full, folders that may not be written."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.workspace.adoption import init_workspace
from tests.chaos.harm import Blow, Harm
from tests.chaos.kills import transcript
from tests.chaos.trial import Life, Trial, demand
from tests.support import lived

_SMALL = 16 * 1024**2


def failing(trial: Trial) -> None:
    """Any call that changes the disk fails, once or from then on; the command says so, and the next one works."""
    root, chat = trial.workspace.root, transcript(trial)
    words: list[tuple[str | Path, ...]] = [("restore", "1", "-w", root), ("ingest", chat, "-w", root)]
    words += [("dream", root)] * 4
    for _ in trial.rounds((2, 5), (1, 3)):
        if trial.rng.random() < 0.3:
            _failing_note(trial)
        else:
            command = trial.rng.choice(words)
            trial.dreamd(*command, harm=trial.harm(str(command[0]), Blow.EIO, Blow.ENOSPC))
    trial.dreamd("ingest", chat, "-w", root)


def _failing_note(trial: Trial) -> None:
    harm = trial.harm("note", Blow.EIO, Blow.ENOSPC)
    life = trial.note(harm)
    if life.status and harm.lasting:
        trial.torn = True  # what was written could not be blanked either
    elif life.status:
        demand(trial.tried[-1] not in lived.pending(trial.workspace), f"refused, and in the log: {life}")


def _anything(trial: Trial, harm: Harm) -> Life:
    """One of the commands that write, or one that reads."""
    command = trial.rng.choice(("note", "dream", "dream", "restore 1", "status"))
    trial.tally.faults += 1
    if command == "note":
        return trial.note(harm)
    return trial.dreamd(*command.split(), "-w", trial.workspace.root, harm=harm)


def full(trial: Trial) -> None:
    """The file system has little or no space left; with space again everything goes on."""
    with _small(trial) as room:
        for _ in range(trial.rng.randint(1, 3)):
            trial.append(trial.rng.randint(1, 3))
            leave = int(trial.rng.random() ** 2 * 1.5e6)
            with _filled(trial, room, leave), trial.reading():
                for _ in range(trial.rng.randint(1, 3)):
                    life = _anything(trial, Harm() if room else Harm(file_kib=leave // 1024))
                    trial.torn |= life.words[0] == "note" and life.status != 0
            trial.remember()


@contextmanager
def _small(trial: Trial) -> Iterator[Path | None]:
    """The workspace on a file system of its own; None where this user may not mount one."""
    mounted = trial.folder / "small"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "none", str(mounted)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        yield None
        return
    before = trial.workspace
    try:
        root = Path(shutil.copytree(before.root, mounted / "agent"))
        shutil.rmtree(before.root)
        trial.workspace = init_workspace(root, trial.home.environment(), resume=True)
        yield mounted
    finally:
        shutil.copytree(root, before.root)
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)
        trial.workspace = init_workspace(before.root, trial.home.environment(), resume=True)


@contextmanager
def _filled(trial: Trial, room: Path | None, leave: int) -> Iterator[None]:
    """Only so many bytes are left on it, until the end of the block."""
    if room is None:
        yield
        return
    ballast = room / "ballast"
    system = os.statvfs(room)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, system.f_bavail * system.f_frsize - leave))
    trial.wrote(f"{leave} bytes left")
    try:
        yield
    finally:
        ballast.unlink()


def read_only(trial: Trial) -> None:
    """A folder may not be written for a while, and permissions hold for root too."""
    workspace = trial.workspace
    folders = (
        workspace.root, workspace.state, workspace.checkpoints, workspace.index, workspace.scratch.parent,
    )  # fmt: skip
    for _ in trial.rounds((1, 3), (1, 3)):
        closed = trial.rng.sample(folders, trial.rng.choice((1, 1, 2)))
        modes = {folder: folder.stat().st_mode & 0o777 for folder in closed}
        trial.wrote(f"closed: {', '.join(map(str, closed))}")
        try:
            for folder in closed:
                folder.chmod(0o500)
            for _ in range(trial.rng.randint(1, 2)):
                _anything(trial, Harm(poor=True))
        finally:
            for folder, mode in modes.items():
                folder.chmod(mode)
