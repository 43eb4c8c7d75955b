"""A pass that is killed at any of its statements is finished by the next one, as if nothing had happened.

What a killed process leaves is consolidated here and compared with a workspace in which nobody died.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.config.settings import Config
from daemon.dream.consolidation import Consolidation, consolidate
from daemon.workspace.stores import Store, open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from state.scratch import Note
from state.signals.curiosity import Cause
from state.stores.crystals.skills import emerging_skills
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.inbox import NoteInbox
from state.trust import Trust
from tests.support.cases import cases
from tests.support.in_memory import BagOfWords
from tests.support.stepping import EVERY_STATEMENT, killed

CONFIG = Config.model_validate({"sources": {"transcripts": ["chats/*.jsonl"]}})
KILLS = 14
NOTES: list[str] = cases(__file__)["NOTES"]
TURNS = (
    "Before you commit, run the linter",
    "Always run the linter before we commit",
    "My parrot is called Admiral",
    "Run the linter before we commit",
)
OLD = "The old ferry timetable hangs in the hall"
OWNERS = "The office of the crew is in room 14"
Row = tuple[Any, ...]


@contextmanager
def opened(workspace: Workspace) -> Iterator[Store]:
    with open_exclusive(workspace, CONFIG, "a test", embedding=Embedding.given(BagOfWords())) as store:
        yield store


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """News of every sort wait for a pass."""
    workspace = init_workspace(contained(tmp_path_factory.mktemp("origin") / "agent"))
    now = utc_now()
    with opened(workspace) as store:
        store.crystals.learn([Crystal(OLD, Origin.SCRATCH, now - timedelta(days=300))])
        said = now - timedelta(days=9)
        store.crystals.learn([Crystal(OWNERS, Origin.SESSION, said, trust=Trust.OWNER, session="s", position=1)])
        store.questions.raise_("What is known about: parrot Admiral?", Cause.MISS, now)
    inbox = NoteInbox(workspace)
    for number, text in enumerate(NOTES):
        inbox.append(Note(text, now - timedelta(minutes=len(NOTES) - number)))
    (workspace.root / "chats").mkdir()
    for number, text in enumerate(TURNS):
        at = (now - timedelta(days=number + 1)).isoformat()
        turn = {"role": "user", "content": text, "timestamp": at}
        (workspace.root / "chats" / f"{number}.jsonl").write_text(json.dumps(turn) + "\n")
    return workspace


def _copy(origin: Workspace, folder: Path) -> Workspace:
    return contained(Path(shutil.copytree(origin.root, folder)).resolve())


def _rest(store: Store) -> None:
    """Passes until nothing is new: the first one's note about the hormones is."""
    for _ in range(5):
        if consolidate(store, utc_now()) == Consolidation():
            return
    raise AssertionError("there is always something new")


def _world(store: Store) -> dict[str, list[Row]]:

    def rows(query: str) -> list[Row]:
        return sorted(tuple(row) for row in store.connection.execute(query))

    return {
        "crystals": rows(
            "SELECT c.text, c.lifecycle, c.importance, c.accesses, c.dreamt_in IS NULL, json_array_length(c.parents),"
            " coalesce(s.text, '') FROM crystals c LEFT JOIN crystals s ON s.key = c.merged_into"
        ),
        "occurrences": rows("SELECT count(*) FROM occurrences"),
        "gaps": rows("SELECT folded, cause, times FROM gaps"),
        "skills": [(one.pattern, one.occurrences, one.sessions) for one in emerging_skills(store.crystals)],
        "feelings": rows("SELECT event, count(*) FROM feelings GROUP BY event"),
        "waiting": rows("SELECT key FROM crystals WHERE vector IS NULL"),
        "files": rows("SELECT file FROM watermarks"),
    }


@pytest.mark.full
def test_a_pass_that_is_killed_anywhere_is_finished_by_the_next(origin: Workspace, tmp_path: Path) -> None:
    def life(workspace: Workspace) -> Callable[[], None]:
        def live() -> None:
            with opened(workspace) as store:
                consolidate(store, utc_now())

        return live

    with opened(_copy(origin, tmp_path / "whole")) as store:
        done = consolidate(store, utc_now())
        assert (done.notes, done.turns, done.archived) == (11, 4, 1)
        _rest(store)
        wanted = _world(store)
    assert wanted["waiting"] == []
    steps = killed(life(_copy(origin, tmp_path / "counted")), steps=EVERY_STATEMENT)
    assert steps is not None
    assert steps > 10 * KILLS
    for number in range(KILLS):
        at = number * steps * 9 // (10 * KILLS)  # not at the very end: no two passes have as many
        workspace = _copy(origin, tmp_path / f"killed-{at}")
        assert killed(life(workspace), at, steps=EVERY_STATEMENT) is None, at
        with opened(workspace) as store:
            _rest(store)
            assert _world(store) == wanted, at
