"""What users would pick in the place of memory_search, as far as it runs without a language model.

    uv pip install --group peers      and then: python -m benchmarks.retrieval --peers

Each gets the same texts and questions, and for meaning the same embedding model, told which are questions. Mem0
stores the texts as they are (`infer=False`); LangMem's tool searches LangGraph's store.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from langchain_core.embeddings import Embeddings

if TYPE_CHECKING:
    from benchmarks.retrieval import Search, Workspace

FIRST = 10


def bm25s(workspace: "Workspace") -> "Search":
    """Rank by the words alone, with the library's own tokenizer, its English stop words and a stemmer's absence."""
    import bm25s as library

    texts, ids = _texts(workspace)
    index = library.BM25()
    index.index(library.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    def search(question: str) -> list[str]:
        words = library.tokenize(question, stopwords="en", show_progress=False)
        found, _ = index.retrieve(words, k=min(FIRST, len(ids)), show_progress=False)
        return [ids[int(place)] for place in found[0]]

    return search


def chroma(workspace: "Workspace") -> "Search":
    """Ask a collection of ChromaDB, as its first page shows it."""
    import chromadb

    texts, ids = _texts(workspace)
    client = chromadb.EphemeralClient()
    collection = client.get_or_create_collection(f"peer-{id(workspace)}", metadata={"hnsw:space": "cosine"})
    collection.add(ids=ids, documents=texts, embeddings=np.array(_vectors(workspace, texts), dtype=np.float32))

    def search(question: str) -> list[str]:
        vectors = np.array(_vectors(workspace, [question], questions=True), dtype=np.float32)
        return list(collection.query(query_embeddings=vectors, n_results=min(FIRST, len(ids)))["ids"][0])

    return search


def langmem(workspace: "Workspace") -> "Search":
    """Ask the tool by which LangMem has an agent search."""
    import json

    from langgraph.store.memory import InMemoryStore
    from langmem import create_search_memory_tool

    texts, ids = _texts(workspace)
    store = InMemoryStore(index={"dims": 384, "embed": _Model(workspace), "fields": ["content"]})
    for id_, text in zip(ids, texts, strict=True):
        store.put(("memories",), id_, {"content": text})
    tool = create_search_memory_tool(("memories",), store=store)

    def search(question: str) -> list[str]:
        found = tool.invoke({"query": question, "limit": FIRST})
        return [one["key"] for one in json.loads(found)]

    return search


def mem0(workspace: "Workspace") -> "Search":
    """Ask Mem0 over its usual store, Qdrant. Nothing is sent anywhere: telemetry is off, and no model is asked."""
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = folder = tempfile.mkdtemp()
    from mem0 import Memory

    def embed(text: str, memory_action: str | None = None) -> list[float]:
        return _vectors(workspace, [text], questions=memory_action == "search")[0]

    store = {"path": f"{folder}/qdrant", "collection_name": "peer", "embedding_model_dims": 384}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "embedder": {"provider": "langchain", "config": {"model": _Model(workspace)}},
            "llm": {"provider": "openai", "config": {"api_key": "none"}},
            "history_db_path": f"{folder}/history.db",
        }
    )
    # Mem0 knows questions from texts, but its adapter of LangChain's models embeds both as questions.
    memory.embedding_model.embed = embed
    for id_, text in zip(*reversed(_texts(workspace)), strict=True):
        memory.add(text, user_id="ada", infer=False, metadata={"crystal": id_})

    def search(question: str) -> list[str]:
        found = memory.search(question, filters={"user_id": "ada"}, top_k=FIRST)
        return [one["metadata"]["crystal"] for one in found["results"]]

    return search


PEERS: dict[str, Callable[["Workspace"], "Search"]] = {
    "bm25s": bm25s,
    "ChromaDB alone": chroma,
    "LangMem (LangGraph's store)": langmem,
    "Mem0, infer=False": mem0,
}


class _Model(Embeddings):
    """The embedding model in LangChain's form."""

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return _vectors(self._workspace, texts)

    def embed_query(self, text: str) -> list[float]:
        return _vectors(self._workspace, [text], questions=True)[0]


def _texts(workspace: "Workspace") -> tuple[list[str], list[str]]:
    """Return the texts, each with who spoke and when, and their ids."""
    crystals = workspace.conversation.crystals
    return [f"{one.context}: {one.text}" if one.context else one.text for one in crystals], [
        one.id for one in crystals
    ]


def _vectors(workspace: "Workspace", texts: Sequence[str], *, questions: bool = False) -> list[list[float]]:
    vectors: list[list[float]] = workspace.embedder.embed(texts, questions=questions).tolist()
    return vectors
