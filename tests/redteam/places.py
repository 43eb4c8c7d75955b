"""What a repository may bring into a workspace's folder: something else under a name that is read, and hostile text.

Of the state nothing lies there; what is put where earlier versions kept it is not looked at.
"""

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from tests.redteam.house import OUTSIDE, House

FILES = (
    "MEMORY.md MEMORY.md.seed-backup .MEMORY.md.displaced GENOME.md memory/economics.json memory/scratch.md"
    " transcripts/talk.md .dreamd"
).split()
FOLDERS = ("memory", "transcripts")
_OBEYED = "\x1b]0;owned\x07\x1b[2J\x1b[31mevil"
_TERMINAL = f"# {_OBEYED}\n- {_OBEYED}\u202e\u2066 kettle\n- kettle \x9b31m \x08\x08\n"
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


def _linked(target: Callable[[House, Path], str | Path]) -> Build:
    def build(house: House, path: Path) -> None:
        aim = target(house, path)  # before nothing has the name any more
        cleared(path).symlink_to(aim)

    return build


def _above(house: House, path: Path) -> str:
    return os.path.relpath(house.outside / "folder" if path.is_dir() else house.secret, path.parent)


def ring(_: House, path: Path) -> None:
    other = cleared(path).with_name(f"{path.name}.back")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


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


KINDS: dict[str, Build] = {
    "key": _linked(lambda house, _: house.key),
    "above": _linked(_above),
    "all_of_it": _linked(lambda _, __: "/"),
    "dangling": _linked(lambda house, _: house.outside / "not-there"),
    "circle": _linked(lambda _, path: path.name),
    "zeros": _linked(lambda _, __: "/dev/zero"),
    "full": _linked(lambda _, __: "/dev/full"),
} | {kind.__name__: kind for kind in (outside, ring, fifo, listening, device, folder, file, sparse, noise, into_git)}
IN_FILES = "outside key above dangling circle ring zeros full fifo listening device folder sparse noise".split()
IN_FOLDERS = "outside above all_of_it dangling circle ring zeros fifo device file".split()


def _placed(name: str, kind: str) -> Build:
    def build(house: House, root: Path) -> None:
        KINDS[kind](house, root / name)

    return build


def _names(_: House, root: Path) -> None:
    """Transcripts whose names a terminal, a log or a list would obey."""
    names = ("new\nline.md", "\x1b[31mred.md", "\udcff\udcfe.md", "-rf.md", "\u202edm.exe.md", "a" * 251 + ".md")
    for name in names:
        line = b"A line of \0\n" if name == "-rf.md" else b"A line of text\n"
        (root / "transcripts" / name).write_bytes(line)


def _deep(_: House, root: Path) -> None:
    """A folder in a folder, deeper than a function may call itself."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(root / "transcripts")
        for _step in range(1200):
            os.mkdir("d")  # noqa: PTH102 - the path as a whole is too long to be named
            os.chdir("d")
    finally:
        os.fchdir(before)
        os.close(before)


def _many_links(_: House, root: Path) -> None:
    """Folders that lead back up, so that there are more ways than can be walked."""
    for number in range(12):
        (root / "transcripts" / f"up{number}").symlink_to("..")
        (root / "transcripts" / f"here{number}").symlink_to(".")


def _old_state(house: House, root: Path) -> None:
    """The state as earlier versions kept it, of somebody who wants it to be obeyed."""
    old = cleared(root / ".dreamd")
    for name in ("history", "segments/retired", "crystals", "checkpoints"):
        (old / name).mkdir(parents=True)
    for name in ("state.db", "id", "fence", "history/000001.json", "checkpoints/dreams.db"):
        (old / name).symlink_to(house.secret)
    os.mkfifo(old / "lock")
    (old / "segments" / "000001.md").write_text(f"- the {OUTSIDE} of a planted log\n", encoding="utf-8")
    (old / "transcripts").write_text(f"{house.secret}\n{house.key}\n", encoding="utf-8")
    (old / "place").write_text(f"1 1 here\n{house.outside}\n", encoding="utf-8")
    (root / "transcripts" / "listed.md").symlink_to(house.secret)


def _modules(house: House, root: Path) -> None:
    """Places where a daemon might be looked for, and configuration, and code."""
    (root / "dreamd.sock").write_text("", encoding="utf-8")
    (root / "config.yaml").write_text(f"sources:\n  transcripts: ['{house.secret}']\n", encoding="utf-8")
    for name in ("sitecustomize", "daemon", "state", "sqlite3", "json"):
        (root / f"{name}.py").write_text(f"open({str(house.ran)!r}, 'w')\n", encoding="utf-8")


def _written(name: str, content: str | bytes) -> Build:
    def build(_: House, root: Path) -> None:
        cleared(root / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return build


TEXTS: dict[str, Build] = {
    "names that are obeyed": _names,
    "folders without end": _deep,
    "folders that lead back": _many_links,
    "state of earlier versions": _old_state,
    "configuration and modules inside": _modules,
    "MEMORY.md: escape sequences": _written("MEMORY.md", _TERMINAL),
    "scratch.md: escape sequences": _written(
        "memory/scratch.md", f"# Scratch\n\n- (importance: 0.9) {_OBEYED} kettle\n"
    ),
    "scratch.md: NULs and half characters": _written("memory/scratch.md", b"- a\0b\n- \xff\xfe\n- \xed\xa0\x80\n"),
    "GENOME.md: escape sequences": _written("GENOME.md", _TERMINAL),
    "economics.json: nested without end": _written("memory/economics.json", b"[" * 100_000),
    ".dreamd: the id of nobody": _written(".dreamd", "0" * 32 + "\n"),
    ".dreamd: a path": _written(".dreamd", "../../../etc\n"),
}


def every() -> dict[str, Build]:
    """Each file and each folder, as each kind of something else; and the texts."""
    places = [(name, kind) for name in FILES for kind in IN_FILES]
    places += [(name, kind) for name in FOLDERS for kind in IN_FOLDERS]
    git = ("MEMORY.md", "memory/scratch.md", "memory", "transcripts/talk.md", "GENOME.md", ".dreamd")
    places += [(name, "into_git") for name in git]
    return TEXTS | {f"{name} {kind}": _placed(name, kind) for name, kind in places}


def some() -> dict[str, Build]:
    """A part of it in which each name and each kind occurs, some of them several times."""
    found = every()
    chosen = dict(TEXTS)
    for names, kinds in ((FILES, IN_FILES), (FOLDERS, IN_FOLDERS)):
        for number, name in enumerate(names):
            for step in (0, 2, 5):
                label = f"{name} {kinds[(number * 3 + step) % len(kinds)]}"
                chosen[label] = found[label]
    worst = ("transcripts all_of_it", "memory/scratch.md sparse", "memory outside")
    return chosen | {name: build for name, build in found.items() if name in worst or name.endswith("into_git")}
