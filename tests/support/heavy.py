"""What loads slowly: modules that `dreamd` imports late, and the real embedding model, opened once per process.

Commands in this process, and those forked from it, find both loaded. Without an installed model, or with another
model folder, the model is opened as usual; `open_embedder` has tests of its own.
"""

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from daemon.workspace import vector_index
from state.stores.vectors import onnx_model
from state.stores.vectors.embedder import Embedder, Unavailable, is_there, open_embedder

_MODULES = (
    "daemon.cli.archive daemon.cli.bootstrap daemon.cli.dream daemon.cli.ingest daemon.cli.mcp daemon.cli.note"
    " daemon.cli.perform daemon.cli.review daemon.cli.service daemon.cli.session daemon.cli.upkeep"
    " daemon.cli.workspace"
    " daemon.workspace.stores daemon.dream.run daemon.upkeep.repair"
    " daemon.mcp.alone daemon.process.run daemon.dream.checkpoints daemon.api.operations.table daemon.http.app"
    " graphs.dream state.stores.vectors.chroma chromadb.api.rust uvicorn langgraph.checkpoint.sqlite langgraph.graph"
    " daemon.dream.process re2 state.secrets.redaction openai httpx tiktoken onnxruntime tokenizers"
    " daemon.mcp.server daemon.mcp.http mcp.server anyio._backends._asyncio langgraph.pregel"
    " langchain_core.tracers.stdout langchain_core.tracers.run_collector langchain_core.tracers.context"
    " chromadb.telemetry.product.posthog tests.chaos.harm"
).split()


def load(cache: Path) -> None:
    """Load every module that a command needs, the embedding model from this folder, and the rules for secrets."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    os.environ["ANONYMIZED_TELEMETRY"] = "False"
    for name in _MODULES:
        import_module(name)
    from daemon.models.known import load_litellm
    from state.secrets.redaction import redact

    redact("the rules are made when they are needed first")
    share()
    opened(cache)
    litellm = load_litellm()
    litellm.token_counter(model="openai/gpt-4o-mini", text="its vocabulary")
    with suppress(Exception):  # nobody answers there, but the first call loads more modules
        messages = [{"role": "user", "content": "?"}]
        litellm.completion("openai/gpt-4o-mini", messages, api_base="http://127.0.0.1:9", api_key="k", timeout=2)


_open: dict[Path, Embedder] = {}


def share() -> None:
    """Make this process, and those forked from it, reuse the model that is already open."""
    vector_index.open_embedder = opened  # type: ignore[assignment, attr-defined]


def opened(folder: Path, *, model: Path | None = None) -> Embedder | Unavailable:
    """Return the model of this folder, computing on one thread because a forked process has no others."""
    if model is not None or not is_there():
        return open_embedder(folder, model=model)
    if folder not in _open:
        onnx_model.THREADS = 1
        found = open_embedder(folder)
        if isinstance(found, Unavailable):
            return found
        _open[folder] = found
    return _open[folder]
