"""Searching: the embedding model, vectors and ChromaDB index that a search of open stores uses."""

from collections.abc import Callable

from daemon.workspace.stores import Store
from state.stores.crystals.nearest import SCANNED_UP_TO
from state.stores.crystals.search import Beside, Searcher
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.embedder import Embedder, Unavailable

BATCH = 256


def embedder_of(store: Store) -> Embedder | None:
    """Return the embedding model, loaded at the first call; None if there is none (with a notice)."""
    embedder, vectors = store.index.embedding.get(), store.crystals.vectors
    if isinstance(embedder, Unavailable):
        store.notices.add(embedder.reason)
        return None
    if vectors.may_write:
        vectors.use_model(embedder.name)
    return embedder


def searcher_of(store: Store, beside: Beside | None = None) -> Searcher:
    """Return a searcher over the indexed crystals, and over those in `beside`."""
    return Searcher(store.crystals, embedder_of(store), chroma_of(store), beside, store.config.zone)


def chroma_of(store: Store) -> VectorIndex | None:
    """Return ChromaDB if the store is too large to scan its vectors; if it is not open yet, start opening it."""
    crystals = store.crystals
    is_large = crystals.newest() > SCANNED_UP_TO and crystals.vectors.may_write
    return store.index.ready(crystals) if is_large else None


def embed_waiting(store: Store, stop: Callable[[], bool] = lambda: False) -> int:
    """Embed the crystals that have no vector yet, update ChromaDB, and return how many there were."""
    vectors, done = store.crystals.vectors, 0
    if embedder := embedder_of(store):
        while not stop() and (count := vectors.embed_pending(embedder, BATCH)):
            done += count
    if done and not stop():
        store.index.tell(store.crystals, stop)
    return done
