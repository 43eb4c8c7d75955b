"""What dreams without a model replaced, in a workspace of an older dreamd, comes back as a note; once and no more."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.dream.lines.brought_back import BROUGHT_BACK, bring_back
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive
from state.stores.disk.workspace import Workspace
from tests.support.notes import pending_notes
from tests.support.running import Caller

ALLERGY, TEA = "Marta is allergic to hazelnuts.", "Marta quit coffee and drinks green tea."
# section, text, fate, the version that it died in, the line in its place
REPLACED = (
    ("L91", "The Bond", ALLERGY, "revised", 1, "L1"),
    ("L92", "The Bond", ALLERGY.upper(), "revised", 1, "L1"),
    ("L93", "Emerging Skills", "releases → Confidence: 59% | Occurrences: 3", "revised", 1, "L1"),
    ("L94", "The Bond", TEA, "revised", 1, "L1"),
    ("L95", "The Bond", "Marta has a cat.", "evicted", 1, ""),
    ("L96", "The Bond", "The owner deleted this.", "revised", 1, "L1"),
    ("L97", "The Bond", "Hormonal event: dopamine spike (achievement detected).", "revised", 1, "L1"),
    ("L98", "The Bond", "The owner corrected this by hand.", "revised", 1, "L98"),
)


@pytest.fixture
def here(tmp_path: Path, dreamd: Caller) -> Workspace:
    """A workspace as an older dreamd left it."""
    workspace = init_workspace(tmp_path / "here")
    dreamd("note", TEA, "-w", workspace.root)
    assert dreamd("dream", "-w", workspace.root).status == 0
    with closing(sqlite3.connect(workspace.database)) as connection, connection:
        connection.executemany(
            "INSERT INTO lines (id, section, text, fate, died_in, successor, crystal, importance, trust, born_in,"
            " born_at) VALUES (?, ?, ?, ?, ?, ?, '', .6, 'agent', 1, '2026-03-01T12:00:00.000000+00:00')",
            REPLACED,
        )
        connection.execute("INSERT INTO tombstones VALUES ('The owner deleted this.', '2026-03-01T12:00:00+00:00')")
        connection.execute("DELETE FROM meta WHERE name = ?", (BROUGHT_BACK,))
    return workspace


@pytest.fixture
def dreamd(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


def test_a_fact_that_code_replaced_stands_again_after_the_next_dream(dreamd: Caller, here: Workspace) -> None:
    told = dreamd("doctor", "-w", here.root).out
    assert "1 that dreams without a model had replaced come back as notes with the next dream" in told
    assert dreamd("dream", "-w", here.root).status == 0
    assert [row for row in here.document.read_text().splitlines() if "hazelnuts" in row] == [f"- {ALLERGY}"]
    assert "1 that dreams without a model had replaced came back as notes" in dreamd("doctor", "-w", here.root).out
    assert dreamd("dream", "-w", here.root).status == 3  # there is nothing new: it does not come a second time


def test_whoever_is_killed_before_it_is_recorded_writes_no_note_twice(here: Workspace) -> None:
    with open_exclusive(here, Config(), "a test") as store:
        for _ in range(2):
            assert bring_back(store) == 1
            store.crystals.connection.execute("DELETE FROM meta WHERE name = ?", (BROUGHT_BACK,))
        assert bring_back(store) == 1
        assert bring_back(store) == 0
    (note,) = pending_notes(here)
    assert (note.text, note.importance, note.at.isoformat()) == (ALLERGY, 0.6, "2026-03-01T12:00:00+00:00")
