"""Files of dreamd's own in which agents read the memory: as MEMORY.md is, within what they take, and no input."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from daemon.dream.restore import restore
from daemon.upkeep.forget import forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import init_workspace
from daemon.workspace.agent_files import MARK, ShownFile, ShownMemory, is_ours, write_agent_files
from daemon.workspace.stores import Store
from state.agents import READERS
from state.secrets.policy import DEFAULT
from tests.support.committing import FURTHER, OLD_NOTES, dreamt, lines, opened
from tests.support.long_variants import examples

PORT, TEA, LEDGER = OLD_NOTES
HEAD = '---\napplyTo: "**"\n---\n'
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(init_workspace(tmp_path / "agent")) as store:
        yield store


def memory_of(store: Store) -> ShownMemory:
    return ShownMemory(store.workspace, DEFAULT, os.environ)


@pytest.fixture
def file(store: Store) -> Path:
    """The file that VS Code reads, as `dreamd connect` makes it."""
    root = store.workspace.root
    path = root / ".github" / "instructions" / "dreamd.instructions.md"
    path.parent.mkdir(parents=True)
    path.write_text(memory_of(store).text("vscode", HEAD))
    memory_of(store).keep(ShownFile(str(path), str(root), "vscode", HEAD))
    return path


def test_it_follows_each_version(store: Store, file: Path) -> None:
    dreamt(store, *OLD_NOTES)
    assert file.read_text().startswith(f"{HEAD}{MARK}\n\n")
    assert all(f"- {note}\n" in file.read_text() for note in OLD_NOTES)
    dreamt(store, FURTHER)
    assert FURTHER in file.read_text()
    restore(store, 1)
    assert FURTHER not in file.read_text()


def test_what_is_typed_in_it_is_no_edit_of_memory(store: Store, file: Path) -> None:
    dreamt(store, *OLD_NOTES)
    file.write_text(file.read_text() + "- Call the dentist\n")
    dreamt(store, FURTHER)
    assert "dentist" not in file.read_text()
    assert not [line for line in lines(store.workspace) if "dentist" in line]


def test_what_is_forgotten_goes_from_it(store: Store, file: Path) -> None:
    dreamt(store, *OLD_NOTES)
    forget(store, ForgetRequest(text=TEA), NOW)
    assert TEA not in file.read_text()
    assert PORT in file.read_text()


def test_one_that_was_taken_away_or_is_somebody_else_s_is_left_so(store: Store, file: Path) -> None:
    file.write_text("mine\n")
    dreamt(store, *OLD_NOTES)
    assert file.read_text() == "mine\n"
    file.unlink()
    file.parent.rmdir()
    dreamt(store, FURTHER)
    assert not file.parent.exists()
    assert not [notice for notice in store.notices if str(file) in notice]


def test_one_that_leads_out_of_the_project_is_told_and_not_written(store: Store, file: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(before := file.read_text())
    file.unlink()
    file.symlink_to(outside)
    dreamt(store, *OLD_NOTES)
    assert outside.read_text() == before
    assert [notice for notice in store.notices if str(file) in notice]


def test_one_that_a_crash_left_behind_is_written_at_the_next_start(store: Store, file: Path) -> None:
    dreamt(store, *OLD_NOTES)
    now = file.read_text()
    file.write_text(f"{HEAD}{MARK}\n\nof a version before\n")
    write_agent_files(store)
    assert file.read_text() == now


@pytest.mark.parametrize("agent", ["claude-code", "codex", "cursor"])
def test_no_memory_is_longer_than_what_the_agent_takes_nor_hides_nor_imports(store: Store, agent: str) -> None:
    rows = st.text(st.characters(codec="utf-8"), max_size=300) | st.sampled_from(
        ["<!-- x", "@/etc/passwd", "é" * 300]
    )

    @examples(60, suppress_health_check=list(HealthCheck))
    @given(st.lists(rows, max_size=40), st.sampled_from([1, 20]))
    def holds(words: list[str], times: int) -> None:
        memory = "# Working Memory State\n\n## The Bond\n\n" + "".join(f"- {row}\n" for row in words * times)
        store.workspace.document.write_bytes(memory.encode())
        text = memory_of(store).text(agent, HEAD)
        assert text.startswith(f"{HEAD}{MARK}\n")
        assert is_ours(text)
        assert len(text.encode()) <= READERS[agent].file_bytes
        assert text.count("\n") <= READERS[agent].file_lines
        assert "<!--" not in text.removeprefix(f"{HEAD}{MARK}")
        assert "\n- @/etc" not in text

    holds()
