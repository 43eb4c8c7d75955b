"""Searching: the embedding model, vectors and ChromaDB index that a search of open stores uses."""

from collections.abc import Callable

from daemon.workspace.stores import Store
from state.errors import OperatorNotice
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Searched
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.embedder import Embedder, Unavailable

BATCH = 256


def embedder_of(store: Store) -> Embedder | None:
    """Return the embedding model, loaded at the first call; None if there is none (with a notice)."""
    embedder, vectors = store.index.embedding.get(), store.crystals.vectors
    if isinstance(embedder, Unavailable):
        store.notices.add(OperatorNotice(embedder.reason))
        return None
    if vectors.may_write:
        vectors.use_model(embedder.name)
    return embedder


def searched_in(store: Store, aside: Crystals | None = None) -> Searched:
    """Return what a search of these stores looks at, with the crystals `aside`."""
    return Searched(store.crystals, embedder_of(store), chroma_of(store), aside, store.config.zone)


def chroma_of(store: Store) -> VectorIndex | None:
    """Return ChromaDB in a process that stays; if it is not open yet, start opening it."""
    return store.index.ready(store.crystals) if store.crystals.vectors.may_write else None


def embed_waiting(store: Store, stop: Callable[[], bool] = lambda: False) -> int:
    """Embed the crystals that have no vector yet, update ChromaDB, and return how many there were."""
    vectors, done = store.crystals.vectors, 0
    if embedder := embedder_of(store):
        while not stop() and (count := vectors.embed_pending(embedder, BATCH)):
            done += count
    tell(store, stop)
    return done


def embed_new(store: Store) -> None:
    """Embed what came in by a few, such as notes, and update ChromaDB; more than a batch waits for a pass."""
    if 0 < store.crystals.vectors.waiting()[0] <= BATCH:
        embed_waiting(store)
    else:
        tell(store)


def tell(store: Store, stop: Callable[[], bool] = lambda: False) -> None:
    """Tell ChromaDB what was embedded, changed or deleted, whoever did that."""
    if store.crystals.vectors.waiting()[1] and not stop():
        store.index.tell(store.crystals, stop)
