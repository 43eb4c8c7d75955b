"""Cached embedder: keeps the vectors of the texts that it embedded last.

A line that leaves MEMORY.md is embedded while its pointer is tried, in a transaction that is rolled back, and again
when the dream is committed; and every dream asks for the keywords of the same pointers. Each is computed once.
"""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from state.stores.vectors.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# At 384 numbers each: 800 KB.
REMEMBERED_TEXTS = 512


class CachedEmbedder:
    """An embedder that caches the vectors of another one; several threads may use it."""

    def __init__(self, inner: Embedder, texts: int = REMEMBERED_TEXTS) -> None:
        self._inner = inner
        self._most = texts
        self._known: OrderedDict[tuple[str, bool], NDArray[np.float32]] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """The name of the inner embedder: the vectors are the same."""
        return self._inner.name

    @property
    def width(self) -> int:
        """Numbers per vector."""
        return self._inner.width

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":
        """Return one row per text, in order; only texts that are not cached are computed, each once."""
        import numpy as np

        with self._lock:
            found = {text: self._known[text, questions] for text in texts if (text, questions) in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            found |= zip(new, self._inner.embed(new, questions=questions), strict=True)
            with self._lock:
                # A copy: a row would keep the whole batch.
                self._known |= {(text, questions): found[text].copy() for text in new[-self._most :]}
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
        rows = [found[text] for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.width), dtype=np.float32)

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._known.clear()
