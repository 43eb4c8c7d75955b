"""An embedder without a model, a vector index without files, and a transaction that is rolled back."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from state.stores.crystals.crystals import Crystals
from state.stores.vectors.calibration import Calibration
from state.stores.vectors.chroma import VectorIndex
from state.text.words import content_terms


class BagOfWords:
    """Embeds a text as the normalised sum of one pseudorandom vector per word, so texts that share words are near."""

    def __init__(self, name: str = "bag-of-words", width: int = 384) -> None:
        self.name = name
        self.width = width
        self.calibration = Calibration()
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> NDArray[np.float32]:  # noqa: ARG002
        self.texts.extend(texts)
        return np.stack([self._direction(text) for text in texts])

    def _direction(self, text: str) -> NDArray[np.float32]:
        total = np.full(self.width, 1e-6, dtype=np.float32)
        for word in sorted(content_terms(text)):
            total += np.random.default_rng(crc32(word.encode())).standard_normal(self.width).astype(np.float32)
        return np.asarray(total / np.linalg.norm(total), dtype=np.float32)


class ListIndex(VectorIndex):
    """A brute-force index over all vectors it was given, without files."""

    def __init__(self) -> None:
        self.vectors: dict[str, NDArray[np.float32]] = {}
        self.failed = False

    def tell(self, crystals: Crystals, limit: int = 1_000) -> int:
        """Take at most `limit` changes; return how many it took."""
        if not self.vectors:  # like a newly built ChromaDB index
            crystals.vectors.index_anew()
        changes, records = crystals.vectors.unindexed(limit)
        for id_ in changes.values():
            self.vectors.pop(id_, None)
        self.vectors.update((one.id, one.vector) for one in records)
        crystals.vectors.mark_indexed(changes)
        return len(changes)

    def nearest(self, vector: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
        scored = [(id_, float(known @ vector)) for id_, known in self.vectors.items()]
        return sorted(scored, key=lambda pair: -pair[1])[:k]


@contextmanager
def trial(connection: sqlite3.Connection) -> Iterator[None]:
    """Roll back everything written in the block."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
