"""ONNX model: runs a sentence encoder from a folder in sentence-transformers' form.

The folder has `onnx/model.onnx` (or `model.onnx`) and `tokenizer.json`; it may have the settings of pooling, of the
most tokens, and of the prompts that the model expects before a question ("query") and a text ("passage" or
"document"). Pooling is by mean over a text's tokens, and is done here. No code of the folder is run.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state.stores.vectors.calibration import Calibration
from state.stores.vectors.tokenizer import load_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnxruntime import InferenceSession

_TOKENIZER = "tokenizer.json"
_POOLING, _LENGTH, _PROMPTS = (
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)
_USUAL_TOKENS, _MOST_TOKENS = 256, 512
# A batch holds texts of similar length, and at most this many padded tokens, to bound the memory of a run.
_BATCH_TOKENS = 256
_BATCH_TEXTS = 64
# The cores that one call of `embed` may use.
THREADS = 2


def model_files(folder: Path) -> list[Path]:
    """Return the files that are read, the graph first. Raise ValueError if there is no model."""
    graph = next((path for path in (folder / "onnx" / "model.onnx", folder / "model.onnx") if path.is_file()), None)
    if graph is None or not (folder / _TOKENIZER).is_file():
        raise ValueError("no onnx/model.onnx and tokenizer.json there")
    # Large graphs keep their weights beside them, in model.onnx_data or model.onnx.data.
    beside = sorted(path for path in graph.parent.glob("model.onnx?data") if path.is_file())
    settings = [folder / name for name in (_TOKENIZER, _POOLING, _LENGTH, _PROMPTS)]
    return [graph, *beside, *(path for path in settings if path.is_file())]


def open_session(graph: str | bytes) -> "InferenceSession":
    """Return onnxruntime's session for a graph's path or content."""
    # onnxruntime sends telemetry to its maker unless this is set before its first import.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that spin between operators would keep the cores of an idle machine awake.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


class OnnxModel:
    """A loaded model. `embed` may be called from several threads.

    `name` distinguishes its vectors from other models'.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Load the model.

        Raise what onnxruntime and tokenizers raise (ValueError, RuntimeError, OSError among others) if the files are
        not a model and its tokenizer, or ValueError if the pooling is not by mean.
        """
        graph, *_ = model_files(folder)
        pooling = _settings(folder / _POOLING)
        if pooling and not pooling.get("pooling_mode_mean_tokens", False):
            raise ValueError("its pooling is not by mean, which is the only one that is known")
        prompts = _settings(folder / _PROMPTS).get("prompts") or {}
        self._prompts = str(prompts.get("passage") or prompts.get("document") or ""), str(prompts.get("query") or "")
        self.name = name
        self.calibration = Calibration()
        self._session = open_session(str(graph))
        most = int(_settings(folder / _LENGTH).get("max_seq_length") or _USUAL_TOKENS)
        self._tokenize = load_tokenizer(folder / _TOKENIZER, min(most, _MOST_TOKENS))
        self._inputs = frozenset(one.name for one in self._session.get_inputs())
        self._output = self._session.get_outputs()[0].name
        self._width = int(self._run([[0]]).shape[1])

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":
        """Return one row per text: (n, width) float32, L2-normalised; tokens beyond the maximum are ignored."""
        return self.calibration.centred(self.pooled(texts, questions=questions), questions=questions)

    def pooled(self, texts: Sequence[str], *, questions: bool) -> "NDArray[np.float32]":
        """Return the mean over each text's tokens, (n, width), neither centred nor normalised."""
        import numpy as np

        prompt = self._prompts[int(questions)]
        # A lone surrogate has no UTF-8 form, which the tokenizer requires.
        clean = [(prompt + text).encode("utf-8", "replace").decode() for text in texts]
        tokens = self._tokenize(clean)
        vectors = np.empty((len(texts), self._width), dtype=np.float32)
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
        feeds = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": np.zeros_like(input_ids)}
        (hidden,) = self._session.run([self._output], {name: feeds[name] for name in feeds if name in self._inputs})
        weights = mask.astype(np.float32)
        # Every text has at least its two special tokens, so no sum of weights is 0.
        pooled: NDArray[np.float32] = np.einsum("btw,bt->bw", hidden, weights) / weights.sum(axis=1, keepdims=True)
        return pooled


def _settings(path: Path) -> dict[str, Any]:
    """Return the settings in a JSON file of a model; empty if there is no file."""
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


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
