"""A line tells its values through time, what no evidence of it has, and how agents used it."""

from pathlib import Path

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.memory import ChangeOfLine, change_lines, lines
from daemon.api.operations.search import memory_bootstrap, memory_search, memory_why
from daemon.config.settings import Config, DreamSection
from daemon.journal.story import LineStory, LineUse
from daemon.workspace.adoption import init_workspace
from graphs.review import LineAction
from state.stores.disk.workspace import Workspace
from tests.daemon.pages.lives import dreamt
from tests.support.revising import revises
from tests.support.running import Caller

EARLY, LATE = "The import starts at 02:15 and takes 40 minutes", "Now the import starts at 03:10, Baltix is late"
SAID = "The import starts at 03:20 for Baltix and takes 40 minutes"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A line was written and revised; the model was ten minutes wrong."""
    workspace = init_workspace(tmp_path / "memory")
    with revises({LATE: EARLY}, {LATE: SAID}):
        for note in (EARLY, LATE):
            dreamt(workspace, note, rules=DreamSection())
    return workspace


def access(workspace: Workspace) -> LocalAccess:
    return LocalAccess(workspace, Config(), "a test")


def story(workspace: Workspace, words: str = "The import starts") -> LineStory:
    with access(workspace) as there:
        return there.run(memory_why, memory_why.bind(text=words)).lines[0]


def marked(workspace: Workspace) -> list[str]:
    """What the list of all lines marks; the line's own story says the same."""
    with access(workspace) as there:
        sections = there.run(lines, lines.bind()).sections
    every = [line for section in sections for line in section.lines if line.text.startswith("The import")]
    assert [one.unsupported for one in every] == [story(workspace).unsupported]
    return [one.text[span.start : span.end] for one in every for span in one.unsupported]


def test_a_line_tells_its_values_and_what_its_notes_do_not_say(workspace: Workspace, dreamd: Caller) -> None:
    told = story(workspace)
    assert [(one.value, one.because, one.by_owner) for one in told.values] == [
        ("02:15", EARLY, False),
        ("03:20", LATE, False),
    ]
    assert [one.at for one in told.values] == [one.at for one in reversed(told.entries)]
    assert marked(workspace) == ["03:20"]
    said = dreamd("why", "The import", "-w", workspace.root).out
    assert "  not in its evidence: 03:20\n" in said
    assert "  its values: 02:15 since " in said


def test_what_its_owner_writes_is_theirs(workspace: Workspace) -> None:
    right = "The import starts at 03:10"
    with access(workspace) as there:
        change = ChangeOfLine(action=LineAction.EDIT, line=story(workspace).id, expected=SAID, text=right)
        there.run(change_lines, change_lines.bind(changes=(change,)))
    assert [(one.value, one.by_owner) for one in story(workspace).values][1:] == [("03:20", False), ("03:10", True)]
    assert marked(workspace) == []


def test_of_a_line_whose_evidence_is_not_all_there_nothing_is_said(workspace: Workspace) -> None:
    with access(workspace) as there, there.exclusive() as store:
        store.connection.execute("DELETE FROM crystals WHERE text = ?", (LATE,))
    assert marked(workspace) == []


def test_a_line_tells_how_many_starts_had_it_and_how_many_searches_found_it(workspace: Workspace) -> None:
    assert story(workspace).use == LineUse()
    with access(workspace) as there:
        for _ in range(2):
            there.run(memory_bootstrap, memory_bootstrap.bind())
        there.run(memory_search, memory_search.bind(query="when does the import start"))
    assert story(workspace).use == LineUse(starts=2, given=2, searches=1)
