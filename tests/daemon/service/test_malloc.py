"""Memory that nobody uses goes back."""

import subprocess
import sys
from pathlib import Path

import pytest

from daemon.workspace.vector_index import Embedding
from state.stores.vectors.embedder import Unavailable
from state.stores.vectors.weights import PACKAGE

# Blocks below the size that is mapped on its own; what is left at the top keeps the rest from going back by itself.
_FREED = """
from pathlib import Path
from daemon.service import malloc

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

malloc.share_arenas()
before = resident()
blocks = [bytes(60_000) + bytes([n % 256]) for n in range(3_000)]
full = resident()
del blocks[:-1]
malloc.give_back()
assert full - before > 40_000, (before, full)
assert resident() - before < (full - before) / 4, (before, full, resident())
"""


def test_what_was_freed_goes_back_to_the_system() -> None:
    ended = subprocess.run([sys.executable, "-c", _FREED], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_model_that_nobody_asks_for_is_let_go_and_loaded_again() -> None:
    embedding = Embedding(download=False)
    assert not embedding.rest(0.0)  # there is none yet
    model = embedding.get()
    assert not isinstance(model, Unavailable)
    assert not embedding.rest(3_600.0)
    assert embedding.get() is model
    assert embedding.rest(0.0)
    again = embedding.get()
    assert not isinstance(again, Unavailable)
    assert again is not model
    assert (again.embed(["a search goes on"]) == model.embed(["a search goes on"])).all()  # who had it still has it


def test_a_model_that_appears_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no archive of ChromaDB's
    embedding = Embedding(download=False)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, PACKAGE, None)  # as if it were not installed
        assert isinstance(embedding.get(), Unavailable)
    assert isinstance(embedding.get(), Unavailable)  # it was looked for a moment ago
    embedding.try_again(download=False)
    assert not isinstance(embedding.get(), Unavailable)


def test_why_there_is_none_is_not_forgotten() -> None:
    embedding = Embedding.given(Unavailable("no model is installed"))
    assert not embedding.rest(0.0)
    assert embedding.get() == Unavailable("no model is installed")
