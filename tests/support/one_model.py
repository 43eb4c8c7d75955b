"""One model: the real embedding model, opened once a process and shared by all that ask for it there.

To open it takes longer than most tests: a command in this process, and one that the server of processes forks, find
it open. Who has no package or another folder for it opens it as ever; `open_embedder` itself has tests of its own.
"""

from pathlib import Path

from daemon.workspace import vector_index
from state.stores.vectors.embedder import Embedder, Unavailable, installed_sources, open_embedder

_open: dict[tuple[Path, Path], Embedder] = {}


def share() -> None:
    """From now on, who loads the model in this process or in one that it forks has the one that is open."""
    vector_index.open_embedder = opened  # type: ignore[assignment, attr-defined]


def opened(folder: Path, *, model: Path | None = None) -> Embedder | Unavailable:
    """The model of this folder. It computes on one thread: a process that is forked has no others."""
    package = installed_sources().package
    if package is None or model is not None:
        return open_embedder(folder, model=model)
    if (folder, package) not in _open:
        found = open_embedder(folder, threads=1)
        if isinstance(found, Unavailable):
            return found
        _open[folder, package] = found
    return _open[folder, package]
