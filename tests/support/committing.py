"""A real dream that is ready to commit, in a folder to copy for each way the commit may fail."""

import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from daemon.config.settings import Config, ModelSection
from daemon.dream.memory import WorkspaceMemory
from daemon.dream.run import Mode, Outcome, dream_now
from daemon.workspace.stores import Store, open_exclusive
from daemon.workspace.vector_index import Embedding
from state.document.sections import SectionName
from state.dream import Dream, Reason
from state.stores.database.connection import open_unmigrated
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.lineage import Lineage
from state.stores.vectors.embedder import Unavailable
from tests.support import lived
from tests.support.conversing import KEY
from tests.support.faults import PowerCut, Unsynced
from tests.support.model_characters import good
from tests.support.scripted_model import Script, ScriptedModel
from tests.support.working import noted, working

OLD_NOTES = (
    "The staging server listens on port 8080",
    "Ada prefers tea over coffee in the morning",
    "We decided to use SQLite for the ledger",
)
NEW_NOTES = (
    "The staging server listens on port 9090",  # a second value for the same port
    "Next goal: write the retrieval benchmark",
    "Deploy failed again because of the expired certificate",
)
FURTHER = "Invoice 4711 was paid by Oslo"
BY_HAND = "Ada's sister is called Grace"
lines = lived.lines
WORDS_ONLY = Embedding.given(Unavailable("left out of this test"))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workspace in which everything except the commit of `dream` has happened."""

    root: Path
    dream: Dream

    def copied(self, target: Path) -> Path:
        return Path(shutil.copytree(self.root, target)).resolve()

    def copy(self, target: Path) -> Workspace:
        return contained(self.copied(target))


def id_of(database: Path, text: str) -> str:
    """Return the id of the crystal with this text."""
    with closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("SELECT id FROM crystals WHERE text = ?", (text,)).fetchone()[0])


@contextmanager
def opened(
    workspace: Workspace, system: System | None = None, embedding: Embedding | None = WORDS_ONLY
) -> Iterator[Store]:
    """Open the workspace as its owner; without an embedding model it opens in milliseconds and searches by words."""
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.memory.disk.system = system or Unsynced()
        store.connection.execute("PRAGMA synchronous = OFF")  # only a real power failure would make a difference
        yield store


def dreamt(store: Store, *notes: str, mode: Mode = Mode.AUTO) -> Outcome:
    noted(store, *notes)
    return dream_now(store, Reason.MANUAL, mode)


@contextmanager
def thinking(folder: Path, script: Script = good, **sections: Any) -> Iterator[tuple[ScriptedModel, Store]]:
    """Open the workspace in this folder, whose model follows a script."""
    with ScriptedModel(script) as model, patch.dict(os.environ, OPENAI_API_KEY=KEY):
        section = ModelSection(name="openai/gpt-4o-mini", api_base=model.url)
        with working(folder, Config(model=section, **sections)) as store:
            yield model, store


@contextmanager
def with_model(store: Store) -> Iterator[Store]:
    """Yield the stores with a scripted model, so that LangGraph saves checkpoints of their dreams."""
    with ScriptedModel(good) as model, patch.dict(os.environ, OPENAI_API_KEY="sk-scripted", NO_PROXY="127.0.0.1"):
        yield replace(store, config=Config(model=ModelSection(name="openai/gpt-4o-mini", api_base=model.url)))


def cut_off(store: Store, *notes: str) -> Dream:
    """Run a dream up to a power cut right before its commit, and return it."""
    made = list[Dream]()

    def commit(_: WorkspaceMemory, dream: Dream) -> Dream:
        made.append(dream)
        raise PowerCut

    with patch.object(WorkspaceMemory, "commit", commit), suppress(PowerCut):
        dreamt(store, *notes)
    return made[0]


def prepared(folder: Path) -> Prepared:
    """Create a first version, a line by the owner's hand, and a second dream that is not committed."""
    workspace = init_workspace(contained(folder))
    with opened(workspace) as store:
        dreamt(store, *OLD_NOTES)
        time.sleep(1.1)  # in real use dreams are more than a second apart, so their timestamps differ
        write(workspace, lambda text: added(text, BY_HAND))
        dream = cut_off(store, *NEW_NOTES)
    assert dream.number == 3  # the owner's edit is version 2
    assert dream.taken
    return Prepared(workspace.root, dream)


def write(workspace: Workspace, change: Callable[[str], str]) -> str:
    text = workspace.document.read_text(encoding="utf-8") if workspace.document.exists() else ""
    workspace.document.write_text(change(text), encoding="utf-8")
    return change(text)


def added(text: str, line: str, section: SectionName = SectionName.BOND) -> str:
    """Return the text with a line added at the top of a section, as a person would type it."""
    heading = f"## {section.value}\n"
    assert heading in text
    return text.replace(heading, f"{heading}- {line}\n", 1)


def without(text: str, line: str) -> str:
    """Return the text without the rows that contain this line."""
    rows = [row for row in text.split("\n") if line not in row]
    assert len(rows) < len(text.split("\n"))
    return "\n".join(rows)


def places(store: Store) -> dict[str, int]:
    """Count each note's occurrences among pending notes and crystals that a dream absorbed."""
    rows = store.connection.execute("SELECT text FROM crystals WHERE origin = 'scratch' AND dreamt_in IS NOT NULL")
    consumed = [row["text"] for row in rows]
    pending = [note.text for note in tuple(store.notes.each_pending())]
    return dict(Counter(consumed + pending))


def is_committed(workspace: Workspace, dream: Dream) -> bool:
    """Return whether state.db has this dream's version, whatever the files say."""
    with open_unmigrated(workspace.database) as connection:
        return Lineage(connection).version_of(dream.id) is not None
