"""A `System` that fails on purpose: at one call, from that call on, or by a power cut before or amid it.

    disk = Disk(root, FaultySystem(root, fail_at=3, fault=Fault.CRASH))

`FaultySystem` also tracks what a disk would hold after a power cut: `image()` rebuilds the folder from synced data
only, from all data, or with unsynced data half written. An fsync is recorded but not executed.
"""

import errno
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TypeVar

from state.stores.disk.syscalls import System
from tests.support.folders import PLACE
from tests.support.long_variants import is_whole

# `make test` fails each of a scenario's first calls, then every n-th: fewer than 1 / _SHARE of all.
_FIRST_CALLS, _EVERY_NTH, _SHARE = 7, 9, 10


class PowerCut(BaseException):
    """The power is off: every later call raises this again."""


class Unsynced(System):
    """A `System` without fsync, for speed where no power cut is simulated."""

    def fsync(self, fd: int) -> None:
        pass


class Fault(Enum):
    """What happens at the chosen call of the system."""

    ERROR = auto()  # this call fails (a write after half of it), later ones work
    ERROR_ONWARDS = auto()  # this call and all later ones that change the disk fail
    CRASH = auto()  # the power fails before the call
    TORN_CRASH = auto()  # the power fails amid the call: half of a write is done, any other call fully


class Names(Enum):
    """Which renames, links and unlinks survive a power cut."""

    SYNCED = auto()
    ALL = auto()


class Bytes(Enum):
    """Which written bytes survive a power cut."""

    SYNCED = auto()
    TORN = auto()
    ALL = auto()


@dataclass
class _File:
    synced: bytes
    live: bytes


@dataclass
class _Change:
    """One change of directory entries: the file of each name afterwards (None: the name is gone)."""

    names: dict[Path, _File | None]
    synced: bool = False


@dataclass
class FaultySystem(System):
    """Counts the calls that change the disk, and injects the fault at call number `fail_at` (from 0)."""

    root: Path
    fail_at: int | None = None
    fault: Fault = Fault.ERROR
    code: int = errno.ENOSPC
    calls: list[str] = field(default_factory=list)
    off: bool = False
    _start: dict[Path, _File] = field(default_factory=dict)
    _now: dict[Path, _File] = field(default_factory=dict)
    _changes: list[_Change] = field(default_factory=list)
    _open: dict[int, _File | Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.root.resolve()
        for path in self.root.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                self._start[path] = _File(content, content)
        self._now = dict(self._start)

    @property
    def met(self) -> bool:
        return self.fail_at is not None and len(self.calls) > self.fail_at

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if flags & os.O_CREAT and not path.exists():
            self._meet(f"create {path.name}", lambda: None)
            fd = super().open(path, flags, mode)
            self._change({path: _File(b"", b"")})
        else:
            self._alive()
            fd = super().open(path, flags, mode)
        self._open[fd] = path if stat.S_ISDIR(os.fstat(fd).st_mode) else self._file(path)
        return fd

    def write(self, fd: int, block: bytes) -> int:
        return self._put(fd, "write", block, lambda piece: os.write(fd, piece))

    def pwrite(self, fd: int, block: bytes, offset: int) -> int:
        return self._put(fd, "pwrite", block, lambda piece: os.pwrite(fd, piece, offset))

    def fsync(self, fd: int) -> None:
        self._meet("fsync", lambda: self._sync(fd))
        self._sync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self._rename(source, target, super().rename, "rename")

    def rename_new(self, source: Path, target: Path, /) -> None:
        self._rename(source, target, super().rename_new, "rename_new")

    def exchange(self, one: Path, other: Path, /) -> None:
        def swap() -> None:
            System.exchange(self, one, other)
            self._change({one: self._file(other), other: self._file(one)})

        self._meet(f"exchange {other.name}", swap)
        swap()

    def link(self, source: Path, target: Path, /) -> None:
        def link() -> None:
            System.link(self, source, target)
            self._change({target: self._file(source)})

        self._meet(f"link {target.name}", link)
        link()

    def unlink(self, path: Path) -> None:
        self._alive()
        if not path.exists():
            super().unlink(path)  # raises and changes nothing, so it is not counted

        def unlink() -> None:
            System.unlink(self, path)
            self._change({path: None})

        self._meet(f"unlink {path.name}", unlink)
        unlink()

    def mkdir(self, path: Path, mode: int) -> None:
        self._meet(f"mkdir {path.name}", lambda: System.mkdir(self, path, mode))
        super().mkdir(path, mode)

    def after_power_cut(self, names: Names, content: Bytes) -> dict[Path, bytes]:
        """Return the files that the disk would hold if the power failed now."""
        files = dict(self._start)
        for change in self._changes:
            if change.synced or names is Names.ALL:
                for path, file in change.names.items():
                    if file is None:
                        files.pop(path, None)
                    else:
                        files[path] = file
        return {path.relative_to(self.root): _kept(file, content) for path, file in files.items()}

    def image(self, target: Path, names: Names, content: Bytes) -> Path:
        """Rebuild in `target` what the disk would hold if the power failed now."""
        for folder in (self.root, *(path for path in self.root.rglob("*") if path.is_dir())):
            (target / folder.relative_to(self.root)).mkdir(parents=True, exist_ok=True)
        for name, kept in self.after_power_cut(names, content).items():
            (target / name).write_bytes(kept)
        return target

    def _rename(self, source: Path, target: Path, call: Callable[[Path, Path], None], name: str) -> None:
        def rename() -> None:
            call(source, target)
            self._change({target: self._file(source), source: None})

        self._meet(f"{name} {target.name}", rename)
        rename()

    def _put(self, fd: int, name: str, block: bytes, put: Callable[[bytes], int]) -> int:
        def half() -> None:
            put(block[: len(block) // 2])
            self._note(fd)

        # A full disk first causes a short write, then an error at the next one.
        if self._is_next() and self.fault in (Fault.ERROR, Fault.ERROR_ONWARDS) and len(block) > 1:
            self.calls.append(name)
            self.fail_at = len(self.calls)
            half()
            return len(block) // 2
        self._meet(name, half)
        done = put(block)
        self._note(fd)
        return done

    def _sync(self, fd: int) -> None:
        opened = self._open[fd]
        if isinstance(opened, _File):
            self._note(fd)
            opened.synced = opened.live
        else:
            # A name is durable once its folder is synced; both names of a move become durable together.
            for change in self._changes:
                change.synced = change.synced or any(path.parent == opened for path in change.names)

    def _note(self, fd: int) -> None:
        opened = self._open[fd]
        if isinstance(opened, _File):
            opened.live = Path(f"/proc/self/fd/{fd}").read_bytes()

    def _file(self, path: Path) -> _File:
        """Return the file of this name; a file that appeared without us (a shell's `>>`) has nothing synced."""
        if path not in self._now:
            self._start[path] = self._now[path] = _File(b"", path.read_bytes() if path.exists() else b"")
        return self._now[path]

    def _change(self, names: dict[Path, _File | None]) -> None:
        self._changes.append(_Change(names))
        for path, file in names.items():
            if file is None:
                self._now.pop(path, None)
            else:
                self._now[path] = file

    def _alive(self) -> None:
        if self.off:
            raise PowerCut

    def _is_next(self) -> bool:
        return not self.off and len(self.calls) == self.fail_at

    def _meet(self, name: str, torn: Callable[[], None]) -> None:
        """Count the call, and inject the fault if it is the chosen call, or a later one for ERROR_ONWARDS."""
        self._alive()
        chosen, later = self._is_next(), self.fail_at is not None and len(self.calls) > self.fail_at
        self.calls.append(name)
        if chosen and self.fault in (Fault.CRASH, Fault.TORN_CRASH):
            if self.fault is Fault.TORN_CRASH:
                torn()
            self.off = True
            raise PowerCut
        if (chosen and self.fault is Fault.ERROR) or ((chosen or later) and self.fault is Fault.ERROR_ONWARDS):
            raise OSError(self.code, os.strerror(self.code))


def _kept(file: _File, content: Bytes) -> bytes:
    if content is Bytes.SYNCED:
        return file.synced
    if content is Bytes.ALL:
        return file.live
    if file.live.startswith(file.synced):
        return file.live[: (len(file.synced) + len(file.live)) // 2]
    return file.live[: len(file.live) // 2] + file.synced[len(file.live) // 2 :]


Faulty = TypeVar("Faulty", bound=FaultySystem)


def share(runs: int) -> int:
    """Return the number of runs to expect: all in `make test-rest`, a tenth in `make test`."""
    return runs if is_whole() else runs // _SHARE


def every_fault(
    faults: tuple[Fault, ...],
    prepare: Callable[[Path], Path],
    scenario: Callable[[Faulty], object],
    kind: type[Faulty] = FaultySystem,  # type: ignore[assignment]
) -> int:
    """Run the scenario with call 0, 1, 2 … failing in each way, until it has no further call; return the runs.

    `prepare` creates a new folder for each run and returns the root that the system watches. `make test` fails each
    of the first calls, and some of the later ones.
    """
    runs = 0
    for fault in faults:
        for fail_at in itertools.count():
            if not (is_whole() or fail_at < _FIRST_CALLS or fail_at % _EVERY_NTH == 0):
                continue
            runs += 1
            with tempfile.TemporaryDirectory(dir=PLACE) as folder:
                system = kind(prepare(Path(folder) / f"{fault.name}{fail_at}"), fail_at, fault)
                scenario(system)
            if not system.met:
                break
    return runs


def images(system: FaultySystem) -> Iterator[Path]:
    """Yield each state that the disk may have after a power cut once, rebuilt in a folder of its own."""
    seen: list[dict[Path, bytes]] = []
    for names, content in itertools.product(Names, Bytes):
        if (files := system.after_power_cut(names, content)) not in seen:
            seen.append(files)
            with tempfile.TemporaryDirectory(dir=PLACE) as folder:
                yield system.image(Path(folder) / "image", names, content)
