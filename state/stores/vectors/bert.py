"""BERT without its framework: builds a sentence encoder's ONNX graph from its weights, and runs it.

The architecture is that of sentence-transformers: 12 heads, width 384, erf-GELU, LayerNorm 1e-12; all-MiniLM-L6-v2
has 6 layers, multilingual-e5-small 12. Inputs and output have the names and shapes of ChromaDB's own export of
MiniLM, so one class runs all models. Pooling, the mean over unmasked tokens, is done here.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state.stores.vectors.calibration import Calibration

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDTH = 384
MAX_TOKENS = 256
HEADS = 12
LAYER_NORM_EPSILON = 1e-12
# Raised whenever `build_graph` makes other bytes of the same weights, so that cached graphs are rebuilt.
GRAPH_VERSION = 1

_WORDS = "embeddings.word_embeddings.weight"
_OPSET = 20  # the first one with Gelu
_IR_VERSION = 9
# A batch holds texts of similar length, and at most this many padded tokens, to bound the memory of a run.
_BATCH_TOKENS = 256
_BATCH_TEXTS = 64


@dataclass(frozen=True, slots=True)
class Form:
    """How a model is called: the prefixes that it expects before a text and before a question.

    `words` looks up the word embeddings (texts, tokens, width) of ids, if the graph does not contain their table.
    """

    text: str = ""
    question: str = ""
    words: "Callable[[NDArray[np.int64]], NDArray[np.float32]] | None" = None


class Bert:
    """A loaded model. `embed` may be called from several threads.

    `name` distinguishes its vectors from other models'; `width` is 384, or that of another model of this form.
    """

    def __init__(
        self,
        name: str,
        graph: Path,
        tokenizer: Path,
        *,
        threads: int,
        most_tokens: int = MAX_TOKENS,
        form: Form = Form(),
    ) -> None:
        """Load the model; `threads` is the number of cores that one call of `embed` may use.

        Raise what onnxruntime and tokenizers raise (ValueError, RuntimeError, OSError among others) if the files are
        not a model and its tokenizer; the caller should have checked their digests.
        """
        # onnxruntime sends telemetry to its maker unless this is set before its first import.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime
        from tokenizers import Tokenizer

        self.name = name
        self.calibration = Calibration()
        self._form = form
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Threads that spin between operators would keep the cores of an idle machine awake.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=most_tokens)
        self._inputs = frozenset(one.name for one in self._session.get_inputs())
        self._output = self._session.get_outputs()[0].name
        self.width = int(self._run([[0]]).shape[1])

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":
        """Return one row per text: (n, width) float32, L2-normalised; tokens beyond the maximum are ignored."""
        return self.calibration.centred(self.pooled(texts, questions=questions), questions=questions)

    def pooled(self, texts: Sequence[str], *, questions: bool) -> "NDArray[np.float32]":
        """Return the mean over each text's tokens, (n, width), neither centred nor normalised."""
        import numpy as np

        before = self._form.question if questions else self._form.text
        # A lone surrogate has no UTF-8 form, which the tokenizer requires.
        clean = [(before + text).encode("utf-8", "replace").decode() for text in texts]
        tokens: list[list[int]] = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(clean)]
        vectors = np.empty((len(texts), self.width), dtype=np.float32)
        for rows in _batches([len(ids) for ids in tokens]):
            vectors[rows] = self._run([tokens[row] for row in rows])
        return vectors

    def _run(self, tokens: list[list[int]]) -> "NDArray[np.float32]":
        import numpy as np

        longest = max(len(ids) for ids in tokens)
        input_ids = np.zeros((len(tokens), longest), dtype=np.int64)
        mask = np.zeros_like(input_ids)
        for row, ids in enumerate(tokens):
            input_ids[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        feeds: dict[str, Any] = {
            "input_ids": input_ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(input_ids),
        }
        if self._form.words is not None:
            feeds["words"] = self._form.words(input_ids)
        (hidden,) = self._session.run([self._output], {name: feeds[name] for name in feeds if name in self._inputs})
        weights = mask.astype(np.float32)
        # Every text has at least its two special tokens, so no sum of weights is 0.
        pooled: NDArray[np.float32] = np.einsum("btw,bt->bw", hidden, weights) / weights.sum(axis=1, keepdims=True)
        return pooled


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield row numbers, shortest text first, in batches whose rows × longest stays within _BATCH_TOKENS."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == _BATCH_TEXTS or (len(batch) + 1) * lengths[row] > _BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def read_safetensors(path: Path) -> "dict[str, NDArray[np.float32]]":
    """Return the float32 tensors of a safetensors file by name, mapped read-only.

    The format: eight bytes of length (little-endian), that much JSON, then the tensors at the offsets in it. Raise
    ValueError if the file has another form.
    """
    import json

    import numpy as np

    content = np.memmap(path, dtype=np.uint8, mode="r")
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8:start].tobytes())
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            first, end = entry["data_offsets"]
            raw = content[start + first : start + end]
            tensors[name] = raw.view(np.dtype("<f4")).reshape(entry["shape"])
    return tensors


def build_graph(weights: "dict[str, NDArray[np.float32]]", *, most_tokens: int = MAX_TOKENS) -> bytes:
    """Return the model as a serialised ONNX graph.

    Inputs: input_ids, attention_mask, token_type_ids, each int64 (texts, tokens); without a word table in the weights
    also words, float32 (texts, tokens, 384). Output: last_hidden_state, float32 (texts, tokens, 384).
    """
    graph = _Graph(has_words=_WORDS in weights)
    hidden = _embeddings(graph, weights, most_tokens)
    blocked = graph.add("Sub", graph.number(1.0), graph.add("Cast", "attention_mask", to=1))
    bias = graph.add("Mul", graph.add("Unsqueeze", blocked, graph.whole(1, 2)), graph.number(-1e9))
    layers = {name.split(".")[2] for name in weights if name.startswith("encoder.layer.")}
    for layer in range(len(layers)):
        hidden = _layer(graph, weights, f"encoder.layer.{layer}.", hidden, bias)
    graph.add("Identity", hidden, output="last_hidden_state")
    return graph.serialize()


def _embeddings(graph: "_Graph", weights: "dict[str, NDArray[np.float32]]", most_tokens: int) -> str:
    words = graph.add("Gather", graph.tensor(weights[_WORDS]), "input_ids") if _WORDS in weights else "words"
    types = graph.add("Gather", graph.tensor(weights["embeddings.token_type_embeddings.weight"]), "token_type_ids")
    tokens = graph.add("Shape", "input_ids", start=1, end=2)
    table = graph.tensor(weights["embeddings.position_embeddings.weight"][:most_tokens])
    places = graph.add("Slice", table, graph.whole(0), tokens, graph.whole(0))
    total = graph.add("Add", graph.add("Add", words, types), places)
    return _normalise(graph, weights, "embeddings.LayerNorm", total)


def _layer(graph: "_Graph", weights: "dict[str, NDArray[np.float32]]", prefix: str, hidden: str, bias: str) -> str:
    def heads(which: str, order: list[int]) -> str:
        projected = _linear(graph, weights, f"{prefix}attention.self.{which}", hidden)
        return graph.add("Transpose", graph.add("Reshape", projected, graph.whole(0, 0, HEADS, -1)), perm=order)

    scale = graph.number(1.0 / math.sqrt(WIDTH / HEADS))
    scores = graph.add("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
    shares = graph.add("Softmax", graph.add("Add", graph.add("Mul", scores, scale), bias), axis=-1)
    mixed = graph.add("Transpose", graph.add("MatMul", shares, heads("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
    attended = _linear(graph, weights, f"{prefix}attention.output.dense", _flat(graph, mixed))
    hidden = _normalise(graph, weights, f"{prefix}attention.output.LayerNorm", graph.add("Add", attended, hidden))
    inner = graph.add("Gelu", _linear(graph, weights, f"{prefix}intermediate.dense", hidden))
    outer = _linear(graph, weights, f"{prefix}output.dense", inner)
    return _normalise(graph, weights, f"{prefix}output.LayerNorm", graph.add("Add", outer, hidden))


def _flat(graph: "_Graph", heads: str) -> str:
    return graph.add("Reshape", heads, graph.whole(0, 0, WIDTH))


def _linear(graph: "_Graph", weights: "dict[str, NDArray[np.float32]]", name: str, value: str) -> str:
    product = graph.add("MatMul", value, graph.tensor(weights[f"{name}.weight"].T))
    return graph.add("Add", product, graph.tensor(weights[f"{name}.bias"]))


def _normalise(graph: "_Graph", weights: "dict[str, NDArray[np.float32]]", name: str, value: str) -> str:
    scale, shift = graph.tensor(weights[f"{name}.weight"]), graph.tensor(weights[f"{name}.bias"])
    return graph.add("LayerNormalization", value, scale, shift, axis=-1, epsilon=LAYER_NORM_EPSILON)


class _Graph:
    """An ONNX graph under construction; methods other than `serialize` return the name of a value in it."""

    def __init__(self, *, has_words: bool) -> None:
        self._has_words = has_words
        self._nodes: list[Any] = []
        self._tensors: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: float | list[int]) -> str:
        from onnx import helper

        name = output or f"value_{len(self._nodes)}"
        settings: dict[str, Any] = {**attributes}
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **settings))
        return name

    def tensor(self, values: "NDArray[Any]") -> str:
        import numpy as np
        from onnx import numpy_helper

        name = f"tensor_{len(self._tensors)}"
        self._tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def number(self, value: float) -> str:
        import numpy as np

        return self.tensor(np.array(value, dtype=np.float32))

    def whole(self, *values: int) -> str:
        import numpy as np

        return self.tensor(np.array(values, dtype=np.int64))

    def serialize(self) -> bytes:
        from onnx import TensorProto, helper

        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in names]
        output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", WIDTH])
        if not self._has_words:
            inputs.append(helper.make_tensor_value_info("words", TensorProto.FLOAT, ["texts", "tokens", WIDTH]))
        graph = helper.make_graph(self._nodes, "all-MiniLM-L6-v2", inputs, [output], self._tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
        serialised: bytes = model.SerializeToString(deterministic=True)
        return serialised
