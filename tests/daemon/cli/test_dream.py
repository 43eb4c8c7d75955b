"""Dreaming from the command line, the versions that come of it, and proposals."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.workspace.adoption import open_workspace
from tests.support.running import NOTES, Caller
from tests.support.scripted_model import Reply, Script, ScriptedModel, error, in_turn


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file that a person or an agent reads or writes, with its inode."""
    paths = [*folder.glob("*.md"), *folder.glob("memory/*"), open_workspace(folder).inbox]
    return {str(path): (path.stat().st_ino, path.read_bytes()) for path in paths}


def test_a_dry_run_shows_the_difference_and_writes_nothing(dreamd: Caller, here: Path) -> None:
    for note in NOTES:
        dreamd("note", "-w", here, note)
    before = files(here)
    ended = dreamd("dream", here, "--dry-run")
    assert ended.status == 0
    assert ended.out.startswith("--- MEMORY.md (as it is)\n+++ MEMORY.md (after this dream)\n")
    assert all(f"+- {note}" in ended.out for note in NOTES[:5])
    assert files(here) == before
    assert "commit" not in ended.err
    assert dreamd("history", "-w", here, "--json").json["versions"] == []


def test_a_dream_shows_its_steps_on_stderr_and_what_it_did_on_stdout(dreamd: Caller, here: Path) -> None:
    for note in NOTES:
        dreamd("note", "-w", here, note)
    ended = dreamd("dream", here)
    assert ended.status == 0
    steps = [row.split()[0] for row in ended.err.splitlines()]
    assert steps == ["absorb", "embed", "gather", "synthesize", "evict", "commit"]
    assert ended.out.startswith("version 1, ")
    assert f"  + Active Context: {NOTES[0]}" in ended.out
    assert "extractive (without a model), 6 notes" in ended.out
    assert NOTES[0] in (here / "MEMORY.md").read_text(encoding="utf-8")


def test_the_life_of_a_memory(dreamd: Caller, here: Path) -> None:
    dreamd("note", "-w", here, NOTES[0])
    assert dreamd("dream", here).status == 0
    dreamd("note", "-w", here, NOTES[1])
    assert dreamd("dream", here, "--reason", "session-end").status == 0
    assert dreamd("dream", here).status == 3

    versions = dreamd("history", "-w", here, "--json").json["versions"]
    assert [(one["number"], one["reason"]) for one in versions] == [(2, "session end"), (1, "manual")]
    table = dreamd("history", "-w", here, "--limit", 1).out.splitlines()
    assert table[0].split()[:3] == ["version", "when", "cause"]
    assert len(table) == 2

    assert f"+- {NOTES[1]}" in dreamd("diff", "-w", here).out
    assert dreamd("diff", "2", "-w", here).out == dreamd("diff", "-w", here).out
    assert dreamd("diff", "1", "2", "-w", here).out == dreamd("diff", "-w", here).out
    assert f"+- {NOTES[0]}" in dreamd("diff", "1", "-w", here).out
    assert f"-- {NOTES[1]}" in dreamd("diff", "2", "1", "-w", here).out
    assert dreamd("diff", "9", "-w", here).status == 1

    unchanged = dreamd("diff", "--file", "-w", here)
    assert (unchanged.status, unchanged.out) == (0, "")
    (here / "MEMORY.md").write_text((here / "MEMORY.md").read_text() + "\nmine\n")
    assert "+mine" in dreamd("diff", "--file", "-w", here).out

    restored = dreamd("restore", 1, "-w", here)
    assert restored.status == 0
    assert restored.out.startswith(
        "restored, as version 4; 1 note pending\n"
    )  # what was written by hand is version 3
    assert f"-- {NOTES[1]}" in restored.out
    assert NOTES[1] not in (here / "MEMORY.md").read_text()
    assert NOTES[1] in dreamd("bootstrap", here).out


def test_a_folder_with_a_memory_becomes_a_workspace_when_it_dreams(dreamd: Caller, tmp_path: Path) -> None:
    (tmp_path / "agent" / "memory").mkdir(parents=True)
    (tmp_path / "agent" / "memory" / "scratch.md").write_text("- Ada prefers tea\n")
    assert dreamd("dream", tmp_path / "agent").status == 0
    assert "Ada prefers tea" in (tmp_path / "agent" / "MEMORY.md").read_text()


def test_a_folder_without_a_memory_does_not(dreamd: Caller, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    ended = dreamd("dream", tmp_path / "pictures")
    assert ended.status == 2
    assert "dreamd init" in ended.err
    assert list((tmp_path / "pictures").iterdir()) == []


def test_a_proposal_waits_until_it_is_approved_or_rejected(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DREAMD_DREAM__MODE", "propose")
    dreamd("note", "-w", here, NOTES[0])
    ended = dreamd("dream", here)
    assert ended.status == 0
    assert ended.out.startswith("proposal ")
    assert not (here / "MEMORY.md").exists()
    assert dreamd("dream", here).status == 3

    shown = dreamd("review", "-w", here)
    assert f"+- {NOTES[0]}" in shown.out
    (proposal,) = dreamd("review", "-w", here, "--json").json["proposals"]
    assert dreamd("review", proposal["id"][:10], "-w", here).out == shown.out
    assert dreamd("review", "--approve", "--decline", "-w", here).status == 2

    assert dreamd("review", "--reject", "-w", here, "--json").json["proposals"][0]["verdict"] == "declined"
    assert dreamd("review", "-w", here).status == 3
    assert NOTES[0] in dreamd("bootstrap", here).out

    assert dreamd("dream", here).status == 0
    approved = dreamd("review", "--approve", "-w", here)
    assert approved.out.endswith("is committed as version 1\n")
    assert NOTES[0] in (here / "MEMORY.md").read_text()


@pytest.fixture
def with_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], ScriptedModel]]:
    servers: list[ScriptedModel] = []

    def start(script: Script) -> ScriptedModel:
        server = ScriptedModel(script).__enter__()
        servers.append(server)
        monkeypatch.setenv("DREAMD_MODEL__NAME", "openai/gpt-4o")
        monkeypatch.setenv("DREAMD_MODEL__API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
        return server

    yield start
    for server in servers:
        server.__exit__()


WRITTEN = {
    "operations": [{"op": "add", "section": "The Bond", "text": "Ada drinks tea.", "cites": ["N1"]}],
    "consumed": ["N1"],
}


def test_a_dream_by_a_model_says_what_it_cost_and_why_says_who_wrote(
    dreamd: Caller, here: Path, with_model: Callable[[Script], ScriptedModel]
) -> None:
    dreamd("note", "-w", here, NOTES[0])
    with_model(in_turn(WRITTEN))
    ended = dreamd("dream", here)
    assert ended.status == 0, ended.err
    assert "  + The Bond: Ada drinks tea." in ended.out
    assert "1 call, " in ended.out
    assert "$0.0" in ended.out
    (story,) = dreamd("why", "Ada drinks tea", "-w", here, "--json").json["lines"]
    assert "gpt-4o" in story["writing"]["model"]
    assert story["writing"]["prompts"][0].startswith("dream@")
    last = dreamd("status", here, "--json").json
    assert last["last_dream"]["tokens"] == last["spending"]["tokens"] > 0


def test_a_model_that_fails_fails_the_dream_and_keeps_every_note(
    dreamd: Caller, here: Path, with_model: Callable[[Script], ScriptedModel]
) -> None:
    dreamd("note", "-w", here, NOTES[0])
    with_model(in_turn(error(401)))
    ended = dreamd("dream", here, "--json")
    assert (ended.status, ended.json["code"]) == (1, "MODEL_ERROR")
    assert "does not accept the key (401)" in ended.err.splitlines()[-1]
    assert NOTES[0] in dreamd("bootstrap", here).out
    assert dreamd("status", here, "--json").json["last_dream"]["outcome"] == "failed"


def test_an_answer_that_the_guards_refuse_ends_with_4_and_status_shows_the_figures(
    dreamd: Caller, here: Path, with_model: Callable[[Script], ScriptedModel]
) -> None:
    dreamd("note", "-w", here, NOTES[0])
    with_model(in_turn(Reply(content="half an answ", finish_reason="length")))
    ended = dreamd("dream", here)
    assert ended.status == 4
    assert "every note is pending" in ended.err
    assert not (here / "MEMORY.md").exists()
    status = dreamd("status", here)
    assert "rejected" in status.out
    assert "refused      " in status.out


def test_init_takes_in_an_old_memory_once_and_shows_how_to_connect(dreamd: Caller, tmp_path: Path) -> None:
    folder = tmp_path / "my agent"
    folder.mkdir()
    old = "# Notes\n\nAda prefers tea over coffee.\n"
    (folder / "MEMORY.md").write_text(old)
    ended = dreamd("init", folder)
    assert ended.status == 0
    assert "1 crystal made of it" in ended.out
    assert (folder / "MEMORY.md").read_text() == old
    assert (folder / "MEMORY.md.seed-backup").read_text() == old
    assert stat.S_IMODE(open_workspace(folder).state.stat().st_mode) == 0o700
    assert f"dreamd connect -w '{folder}'" in ended.out
    assert f"dreamd note -w '{folder}'" in ended.out

    again = dreamd("init", folder, "--json").json
    assert (again["created"], again["seed_crystals"]) == (False, 0)
    assert again["backup"] == str(folder / "MEMORY.md.seed-backup")


def test_init_makes_the_working_directory_a_workspace(
    dreamd: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert dreamd("init", "--json").json["workspace"] == str(tmp_path)
    assert open_workspace(tmp_path).state.is_dir()
