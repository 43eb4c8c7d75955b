"""Hostile workspaces of the first kind: under the name of a file or a folder stands something else."""

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from tests.redteam.house import OUTSIDE, House

FILES = (
    "MEMORY.md",
    "MEMORY.md.seed-backup",
    ".MEMORY.md.displaced",
    "GENOME.md",
    "memory/economics.json",
    "memory/scratch.md",
    "transcripts/talk.md",
    ".dreamd/id",
    ".dreamd/lock",
    ".dreamd/lock.new",
    ".dreamd/lock.takeover",
    ".dreamd/fence",
    ".dreamd/forgotten.json",
    ".dreamd/bootstraps.jsonl",
    ".dreamd/state.db",
    ".dreamd/state.db-wal",
    ".dreamd/state.db-journal",
    ".dreamd/checkpoints/dreams.db",
    ".dreamd/index/vectors.db",
    ".dreamd/history/000001.json",
    ".dreamd/history/000003.json",
    ".dreamd/history/000003.merging",
    ".dreamd/segments/000009.md",
    ".dreamd/segments/000009.json",
    ".dreamd/segments/retired/000001.0.md",
)
FOLDERS = (
    ".dreamd",
    ".dreamd/history",
    ".dreamd/segments",
    ".dreamd/segments/retired",
    ".dreamd/index",
    ".dreamd/checkpoints",
    ".dreamd/broken",
    "memory",
    "transcripts",
)
Build = Callable[[House, Path], None]


def cleared(path: Path) -> Path:
    """Nothing has the name any more, and something may get it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def outside(house: House, path: Path) -> None:
    """A link to a file or folder of somebody else's, which holds what would be read."""
    target = house.outside / f"{path.name}-of-another"
    is_folder = path.is_dir()
    if path.exists():
        shutil.move(path, target)
    elif not is_folder:
        target.write_text(f"- {OUTSIDE}\n", encoding="utf-8")
    if is_folder:
        (target / "talk.md").write_text(f"The {OUTSIDE} sleeps\n", encoding="utf-8")
    cleared(path).symlink_to(target)


def key(house: House, path: Path) -> None:
    cleared(path).symlink_to(house.key)


def above(house: House, path: Path) -> None:
    """Relative, by `..`."""
    target = house.outside / "folder" if path.is_dir() else house.secret
    cleared(path).symlink_to(os.path.relpath(target, path.parent))


def all_of_it(_: House, path: Path) -> None:
    cleared(path).symlink_to("/")


def dangling(house: House, path: Path) -> None:
    cleared(path).symlink_to(house.outside / "not-there")


def circle(_: House, path: Path) -> None:
    cleared(path).symlink_to(path.name)


def ring(_: House, path: Path) -> None:
    other = cleared(path).with_name(f"{path.name}.back")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


def zeros(_: House, path: Path) -> None:
    cleared(path).symlink_to("/dev/zero")


def full(_: House, path: Path) -> None:
    cleared(path).symlink_to("/dev/full")


def fifo(_: House, path: Path) -> None:
    os.mkfifo(cleared(path))


def listening(_: House, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        before = Path.cwd()
        os.chdir(cleared(path).parent)  # the whole path may be too long for a socket
        try:
            one.bind(path.name)
        finally:
            os.chdir(before)


def device(_: House, path: Path) -> None:
    os.mknod(cleared(path), stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zero


def folder(_: House, path: Path) -> None:
    cleared(path).mkdir()
    (path / "file").write_text("in it\n", encoding="utf-8")


def file(_: House, path: Path) -> None:
    cleared(path).write_text("this is no folder\n", encoding="utf-8")


def sparse(_: House, path: Path) -> None:
    with cleared(path).open("wb") as one:
        one.truncate(1 << 30)


def noise(_: House, path: Path) -> None:
    cleared(path).write_bytes(bytes(range(256)) * 64)


def into_git(house: House, path: Path) -> None:
    """A link to what git obeys: whoever writes there runs code at the next `git status`."""
    config = house.workspace / ".git" / "config"
    config.parent.mkdir(exist_ok=True)
    config.write_text(f"[core]\n\tbare = false\n# {OUTSIDE}\n", encoding="utf-8")
    cleared(path).symlink_to(os.path.relpath(config, path.parent))


IN_FILES = (outside, key, above, dangling, circle, ring, zeros, full, fifo, listening, device, folder, sparse, noise)
IN_FOLDERS = (outside, above, all_of_it, dangling, circle, ring, zeros, fifo, device, file)


def _placed(name: str, kind: Build) -> Build:
    def build(house: House, root: Path) -> None:
        kind(house, root / name)

    return build


def every() -> dict[str, Build]:
    """Each file and each folder, as each kind of something else."""
    found = {f"{name} {kind.__name__}": _placed(name, kind) for name in FILES for kind in IN_FILES}
    found |= {f"{name} {kind.__name__}": _placed(name, kind) for name in FOLDERS for kind in IN_FOLDERS}
    git = ("MEMORY.md", "memory/scratch.md", "memory", "transcripts/talk.md", "GENOME.md", ".dreamd/fence")
    return found | {f"{name} into_git": _placed(name, into_git) for name in git}


def some() -> dict[str, Build]:
    """A part of it in which each name and each kind occurs, some of them several times."""
    found = every()
    chosen = {}
    for names, kinds in ((FILES, IN_FILES), (FOLDERS, IN_FOLDERS)):
        for number, name in enumerate(names):
            for step in (0, 5):
                label = f"{name} {kinds[(number + step) % len(kinds)].__name__}"
                chosen[label] = found[label]
    worst = ("transcripts all_of_it", "memory/scratch.md sparse", ".dreamd/index outside", "memory outside")
    return chosen | {name: build for name, build in found.items() if name in worst or name.endswith("into_git")}
