"""What is noted is found, dreamt, told of, corrected, compared and brought back, and what of it is printed."""

import json
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import open_readonly
from tests.support.running import NOTES, Caller
from tests.support.scripted_model import Script, ScriptedModel, in_turn
from tests.support.transcript import Transcript

WRITTEN = {
    "operations": [{"op": "add", "section": "The Bond", "text": "Ada drinks tea.", "cites": ["N1"]}],
    "consumed": ["N1"],
}


def test_a_dream_by_a_model_says_what_it_cost_and_why_says_who_wrote(
    told: Transcript, serve: Callable[[Script], ScriptedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DREAMD_MODEL__NAME", "openai/gpt-4o")
    monkeypatch.setenv("DREAMD_MODEL__API_BASE", serve(in_turn(WRITTEN)).url)
    told("""
        $ dreamd note Ada prefers tea over coffee in the morning
        noted
        $ dreamd dream
        version 1: learnt 1; …
        + The Bond: Ada drinks tea.
        …1 call, …$0.0…
        $ dreamd why Ada drinks tea
        …a dream (on request), gpt-4o…
    """)
    status = told("$ dreamd status --json\n…").json
    assert status["last_dream"]["tokens"] == status["spending"]["tokens"] > 0


def test_an_owner_who_searches_beside_another_process_asks_no_question(told: Transcript, here: Path) -> None:
    for note in NOTES:
        told(f"$ dreamd note {note}\nnoted")
    told("""
        $ dreamd search favourite hot drink --limit 1
        1. Ada prefers tea over coffee in the morning
        …from a note, …
        $ dreamd search 東京 --limit 1
        1. Grüße aus Köln, 東京で会いましょう 🍵
        …
        $ dreamd search lattice quantum chromodynamics
        1. …
        Left out: 5 near and unlikely; all: true (--all) shows them
        ! …Nothing answers this well…
        $ busy dreamd search tea in the morning --limit 1
        1. Ada prefers tea…
        ! notice: searched as it stands: …
    """)
    with open_readonly(open_workspace(here), Config()) as store:
        assert store.questions.open(10) == []  # what its owner misses is no question of an agent


def test_transcripts_are_read_once_and_what_cannot_be_is_named(told: Transcript, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "My parrot is called Admiral"}, {"role": "assistant", "content": "Noted."}]
    (tmp_path / "t" / ".hidden").mkdir(parents=True)
    (tmp_path / "t" / ".hidden" / "no.md").write_text("never read\n")
    (tmp_path / "t" / "chat.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe\x00\x01" * 100)
    (tmp_path / "empty").mkdir()
    told(
        """
        $ dreamd ingest <folder>/t
        2 turns of 1 file, … new crystal…
        ! …chat.jsonl: 2 turns…
        $ dreamd ingest <folder>/t --json
        …"turns": 0,
        "crystals": 0,…
        $ dreamd search name of the parrot --limit 1
        1. My parrot is called Admiral…
        $ dreamd ingest <folder>/t <folder>/bad.md <folder>/missing.md
        no turns of 1 file, no new crystals
        ! …problem: …bad.md…problem: <folder>/missing.md does not exist; check the path
        $ dreamd ingest <folder>/missing.md
        no turns of no files, no new crystals
        ! …does not exist…
        [1]
        $ dreamd ingest <folder>/empty
        ! …there are no files in these folders; …
        [3]
    """,
        folder=tmp_path,
    )


def test_a_folder_becomes_a_workspace_by_init_alone(told: Transcript, tmp_path: Path, dreamd: Caller) -> None:
    old = "# Notes\n\nAda prefers tea over coffee.\n"
    for name, file, text in (("my agent", "MEMORY.md", old), ("other", "memory/scratch.md", "- Ada prefers tea\n")):
        (tmp_path / name / file).parent.mkdir(parents=True)
        (tmp_path / name / file).write_text(text)
    (tmp_path / "pictures").mkdir()
    told(
        """
        $ dreamd init <agent>
        <agent> is a workspace now
        MEMORY.md: 1 crystal made of it; the file is as it was, and MEMORY.md.seed-backup is a copy of it
        …dreamd setup
        …note -w '<agent>'…
        $ dreamd init <agent> --json
        …"created": false,
        "seed_crystals": 0,
        "backup": "<agent>/MEMORY.md.seed-backup",…
        $ dreamd dream <folder>/other
        ! dreamd: <folder>/other is no workspace yet; run 'dreamd init <folder>/other'
        [2]
        $ dreamd search -w <folder>/other tea
        ! dreamd: <folder>/other is no workspace yet; run 'dreamd init <folder>/other'
        [2]
        $ dreamd dream <folder>/pictures
        ! dreamd: …dreamd init…
        [2]
        $ dreamd init /proc/dreamd-test
        ! dreamd: …/proc/dreamd-test…
        [1]
    """,
        folder=tmp_path,
        agent=tmp_path / "my agent",
    )
    assert (tmp_path / "my agent" / "MEMORY.md").read_text() == old
    assert list((tmp_path / "pictures").iterdir()) == []
    assert stat.S_IMODE(open_workspace(tmp_path / "my agent").state.stat().st_mode) == 0o700


_COMPLETING = {
    "bash": 'COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _dreamd; printf "%s\n" "${COMPREPLY[@]}"',
    "fish": "complete -C $argv[1] | string split --fields 1 \\t; true",
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_every_command(told: Transcript, tmp_path: Path, shell: str) -> None:
    from daemon.cli import COMMANDS

    script = told(f"$ dreamd completion {shell}\n…").out
    assert all(f" {name} " in script or f":{name})" in script for name in COMMANDS)
    assert "importance" in script
    if shell not in _COMPLETING or shutil.which(shell) is None:
        return  # zsh completes in a terminal alone, and has bash's words
    (file := tmp_path / "script").write_text(script)
    name = ["dreamd"] if shell == "bash" else []
    for line, words in (
        ("dreamd his", ["history"]),
        ("dreamd note --imp", ["--importance"]),
        ("dreamd feel re", ["reward"]),
        ("dreamd config set model.on", ["model.on_failure"]),
    ):
        asked = [shell, "-c", f"source '{file}'; {_COMPLETING[shell]}", *name, line]
        assert subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split() == words
