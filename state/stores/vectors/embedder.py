"""Embedder: turns texts into vectors with the embedding model on the disk.

That is the folder of the user's own that `embeddings.model` names, or a known model as `dreamd models install` leaves
it: with a record of its files' digests, by which they are checked. With neither, the search is lexical.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from state.errors import StorageError
from state.stores.disk.disk import Disk
from state.stores.vectors.calibration import VERSION, Calibration, measure
from state.stores.vectors.onnx_model import OnnxModel, model_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The models that can be installed, in the order in which they are looked for, by the words that name them.
KNOWN = {"multilingual": "multilingual-e5-small", "english": "all-MiniLM-L6-v2"}
# Of an installed model: {"digest": of what decides its vectors, "files": {path: SHA-256}}.
RECORD = "installed.json"


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of embedders with different names are never mixed."""

    @property
    def name(self) -> str:
        """Return the model, the first 12 digits of its digest, and the calibration's version."""

    @property
    def calibration(self) -> Calibration:
        """Return the calibration that makes its cosines comparable with other models'."""

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":
        """Return one L2-normalised row per text, in order: (n, width). `questions`: they are queries."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No embedder is available. `reason` is one line: what is missing and what to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """A model on the disk: its folder, its size in bytes, and what is wrong with it ("": nothing)."""

    name: str
    path: Path
    bytes: int
    wrong: str


def missing(model: Path | None = None) -> str:
    """Return what to do without an embedding model; `model`: what `embeddings.model` names."""
    return f"no embedding model: run {_command(model)}; until then, search is by words only"


def _command(model: Path | str | None) -> str:
    return f"'dreamd models install{' english' if str(model) in ('english', KNOWN['english']) else ''}'"


def model_folders(environment: Mapping[str, str], word: str = "multilingual") -> tuple[Path, ...]:
    """Return where a model may be installed: dreamd/models in the user's, Python's and the machine's data folders.

    Those are $XDG_DATA_HOME, or ~/.local/share; `share` beside the Python that runs; then $XDG_DATA_DIRS, or
    /usr/local/share and /usr/share.
    """
    own = [environment.get("XDG_DATA_HOME", "")]
    with suppress(RuntimeError):  # there is no home folder
        home = environment.get("HOME", "")
        own.append(str((Path(home) if home.startswith("/") else Path.home()) / ".local" / "share"))
    machine = (environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    # The XDG specification says to ignore paths that are not absolute.
    first = [name for name in own if name.startswith("/")][:1]
    places = dict.fromkeys([*first, f"{sys.prefix}/share", *machine])
    return tuple(Path(place) / "dreamd" / "models" / KNOWN[word] for place in places if place.startswith("/"))


def is_there(model: Path | None = None) -> bool:
    """Return whether there is a model, judging by names alone."""
    return bool(_candidates(None, model))


def _candidates(folders: Sequence[Path] | None, model: Path | None) -> list[Path]:
    if model is not None and str(model) not in KNOWN:
        return [model.expanduser()]
    words = KNOWN if model is None else [str(model)]
    places = [one for word in words for one in model_folders(os.environ, word)] if folders is None else folders
    return [one for one in places if os.path.isfile(one / RECORD)]  # noqa: PTH113 - Path.is_file may raise here


def places(cache: Path, folders: Sequence[Path] | None = None, model: Path | None = None) -> tuple[Place, ...]:
    """Return the models on the disk in the order in which they are tried; the first without a fault is used."""
    store, found = _Cache(cache), list[Place]()
    for folder in _candidates(folders, model):
        name, size, wrong = folder.name, 0, ""
        try:
            size = sum(path.stat().st_size for path in model_files(folder))
            name = _identity(folder, store)
        except (OSError, ValueError, KeyError, StorageError) as error:
            wrong = _one_line(error)
        found.append(Place(name, folder, size, wrong))
    return tuple(found)


def open_embedder(
    cache: Path, folders: Sequence[Path] | None = None, *, model: Path | None = None
) -> Embedder | Unavailable:
    """Return the embedder of the first folder (by default `model_folders`) that has a whole model; never raise.

    `cache` (created if missing) keeps calibrations and the verified digests: a file whose size, times or inode have
    changed is hashed again. If `model`, a folder of the user's own or the word of a known model, is given, only that
    is tried, because vectors of different models are not comparable.
    """
    store, faults = _Cache(cache), []
    # The libraries raise classes without a common base, and no failure here may stop a lexical search.
    for folder in _candidates(folders, model):
        try:
            found = OnnxModel(folder, f"{_identity(folder, store)}-{VERSION}")
            found.calibration = store.calibration(found)
        except Exception as error:  # noqa: BLE001
            faults.append(f"{folder if model is None else f'embeddings.model {model}'}: {_one_line(error)}")
        else:
            return found
    wrong = f"{'; '.join(faults)}; until that is mended, search is by words only"
    return Unavailable(wrong if faults else missing(model))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _identity(folder: Path, cache: "_Cache") -> str:
    """Return the name of the model in the folder. Raise ValueError if it has none, or not the one installed."""
    files = model_files(folder)
    if not (folder / RECORD).is_file():
        return f"{folder.name}@{_sha256(''.join(map(cache.digest, files)).encode())[:12]}"
    record = json.loads((folder / RECORD).read_bytes())
    for path in files:
        name = str(path.relative_to(folder))
        if cache.digest(path) != record["files"].get(name):
            raise ValueError(f"{name} has not the SHA-256 that it was installed with; run {_command(folder.name)}")
    return f"{folder.name}@{record['digest'][:12]}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Cache:
    """A folder of calibrations, with a record of each computed digest and the file's state at that time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes = folder / "digests.json"
        self._disk = Disk(folder)

    def calibration(self, model: OnnxModel) -> Calibration:
        """Return the model's calibration; measure it when it is first loaded on this machine, or if it is torn."""
        path = self._folder / f"{model.name.rpartition('@')[2]}.calibration"
        kept = path.read_bytes() if path.is_file() else b""
        measured = kept[64:]
        if kept[:64] != _sha256(measured).encode():
            measured = measure(model.pooled)
            self._write(path, _sha256(measured).encode() + measured)
        return Calibration.read(measured)

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of a file, computed again only if the file has changed."""
        status = path.stat()
        state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        notes = self._read()
        known = notes.get(str(path))
        if isinstance(known, list) and known[:-1] == state:
            return str(known[-1])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._write(self._notes, json.dumps({**notes, str(path): [*state, digest]}, indent=1).encode())
        return digest

    def _read(self) -> dict[str, Any]:
        try:
            notes = json.loads(self._notes.read_bytes())
        except (OSError, ValueError):
            return {}  # not written yet, or torn: everything is hashed again
        return notes if isinstance(notes, dict) else {}

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._disk.write_atomic(path, content)
