"""Heavy: loads at once what `dreamd` loads late, for a process whose forks find it there."""

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tests.support import one_model

_MODULES = (
    "daemon.cli.bootstrap daemon.cli.doctor daemon.cli.dream daemon.cli.export"
    " daemon.cli.forget daemon.cli.init daemon.cli.ingest daemon.cli.mcp"
    " daemon.cli.note daemon.cli.perform daemon.cli.review daemon.cli.session daemon.cli.status"
    " daemon.workspace.stores daemon.dream.run daemon.upkeep.repair.run"
    " daemon.mcp.alone daemon.process.run daemon.dream.checkpoints daemon.api.operations.table daemon.http.app"
    " graphs.dream state.stores.vectors.chroma chromadb.api.rust uvicorn langgraph.checkpoint.sqlite langgraph.graph"
    " daemon.dream.process re2 state.secrets.redaction openai httpx tiktoken onnxruntime tokenizers"
    " daemon.mcp.server daemon.mcp.http mcp.server anyio._backends._asyncio langgraph.pregel"
    " langchain_core.tracers.stdout langchain_core.tracers.run_collector langchain_core.tracers.context"
    " chromadb.telemetry.product.posthog tests.chaos.lives"
).split()


def load(cache: Path) -> None:
    """Every module that a command needs, the embedding model from this folder, and the rules of secrets."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    os.environ["ANONYMIZED_TELEMETRY"] = "False"
    for name in _MODULES:
        import_module(name)
    from daemon.models.litellm_import import load_litellm
    from state.secrets.redaction import redact

    redact("the rules are made when they are needed first")
    one_model.share()
    one_model.opened(cache)
    litellm = load_litellm()
    litellm.token_counter(model="openai/gpt-4o-mini", text="its vocabulary")
    with suppress(Exception):  # nobody answers there; what the first call loads is loaded
        messages = [{"role": "user", "content": "?"}]
        litellm.completion("openai/gpt-4o-mini", messages, api_base="http://127.0.0.1:9", api_key="k", timeout=2)
