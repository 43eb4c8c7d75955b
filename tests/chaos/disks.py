"""Disks without room: a file system that is full, folders that may not be written."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daemon.workspace.adoption import init_workspace
from tests.chaos.harm import Harm
from tests.chaos.trial import Life, Trial

_SMALL = 16 * 1024**2


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
