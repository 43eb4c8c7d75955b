"""Searching: what a search of open stores is done with: their embedding model, their vectors, and ChromaDB."""

from collections.abc import Callable

from daemon.workspace.stores import Store
from state.stores.crystals.nearest import SCANNED_UP_TO
from state.stores.crystals.search import Beside, Searcher
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.embedder import Embedder, Unavailable

BATCH = 256


def embedder_of(store: Store) -> Embedder | None:
    """Return the embedding model, loaded at the first call; None when there is none (a notice says so)."""
    embedder, vectors = store.index.embedding.get(), store.crystals.vectors
    if isinstance(embedder, Unavailable):
        store.notices.add(embedder.reason)
        return None
    if vectors.may_write:
        vectors.use_model(embedder.name)
    return embedder


def searcher_of(store: Store, beside: Beside | None = None) -> Searcher:
    """Return a searcher of the crystals that are indexed now, and of those `beside` them."""
    return Searcher(store.crystals, embedder_of(store), chroma_of(store), beside)


def chroma_of(store: Store) -> VectorIndex | None:
    """Return ChromaDB if the store is too large to read its vectors; while it is not open yet, have it opened."""
    crystals = store.crystals
    is_large = crystals.newest() > SCANNED_UP_TO and crystals.vectors.may_write
    return store.index.ready(crystals) if is_large else None


def embed_waiting(store: Store, stop: Callable[[], bool] = lambda: False) -> int:
    """Embed the crystals that wait for a vector, have ChromaDB told, and return how many."""
    vectors, done = store.crystals.vectors, 0
    if embedder := embedder_of(store):
        while not stop() and (count := vectors.embed_pending(embedder, BATCH)):
            done += count
    if done and not stop():
        store.index.tell(store.crystals, stop)
    return done
