"""What the server of `killing` imports before it forks. None of it may start a thread or open a file."""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
os.environ["ANONYMIZED_TELEMETRY"] = "False"

import chromadb  # noqa: F401
import langgraph.checkpoint.sqlite
import langgraph.graph  # noqa: F401
import onnxruntime  # noqa: F401
import tokenizers  # noqa: F401

from daemon.cli import dream  # noqa: F401
from daemon.dream.run import dream_now  # noqa: F401
from daemon.models.litellm_import import load_litellm
from graphs.dream import build  # noqa: F401

load_litellm()
