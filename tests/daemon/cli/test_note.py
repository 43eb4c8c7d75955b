"""`note` and `bootstrap` run at every turn of an agent: what they say, and that they load next to nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from state.bootstrap import NOTES_HEADING, TRUNCATED, budget_for
from state.reading import GREETING
from state.scratch import HEADER
from tests.support.running import ROOT, Caller, process
from tests.support.transcript import Transcript

SECRET = "ghp_" + "a1B2" * 9


def test_a_note_is_appended_and_a_secret_in_it_is_left_out(told: Transcript, here: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("secrets:\n  redact: false\n")
    told(
        """
        $ dreamd note Ada prefers tea --importance 0.9
        noted
        $ dreamd note -- "--verbose is the flag"
        noted
        $ dreamd note "-5 degrees this morning"
        noted
        $ dreamd note the token is <secret>
        noted (with 1 secret left out)
        $ dreamd note the token is <secret> --json
        …"text": "the token is [redacted: github token]"}
        $ piping "Grüße 東京 🍵\\nzweite Zeile\\n\udcff" | dreamd note - --json
        {"at": "…Z", "importance": 0.7, "text": "Grüße 東京 🍵\\nzweite Zeile\\n\\\\udcff"}
        $ dreamd bootstrap
        …-5 degrees this morning…--verbose is the flag…(importance: 0.9) Ada prefers tea
    """,
        secret=SECRET,
    )
    scratch = (here / "memory" / "scratch.md").read_text(encoding="utf-8")
    assert scratch.startswith(f"{HEADER}\n\n- [")
    assert SECRET not in scratch
    told("$ dreamd note the token is <secret> --config <config>\nnoted", config=tmp_path / "config.yaml")
    assert SECRET in (here / "memory" / "scratch.md").read_text(encoding="utf-8")


def test_a_terminal_of_another_charset_stops_nothing(here: Path) -> None:
    """It is the interpreter that learns of the charset, as it starts."""
    assert process("note", "Grüße 東京 🍵", "-w", str(here)).status == 0
    environment = {name: os.environ[name] for name in ("XDG_STATE_HOME", "XDG_DATA_HOME")} | {"HOME": "/nonexistent"}
    run = subprocess.run(
        [sys.executable, "-m", "daemon", "bootstrap", str(here)],
        capture_output=True,
        cwd=ROOT,
        env={**environment, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert b"Gr\\xfc\\xdfe" in run.stdout


def test_the_bootstrap_is_memory_then_pending_notes_in_each_form(told: Transcript, here: Path) -> None:
    told("""
        $ dreamd bootstrap
        ! <here> remembers nothing yet; 'dreamd note' and 'dreamd dream' change that
    """)
    (here / "MEMORY.md").write_bytes(b"# Working Memory State\n\n- Ada prefers tea\n- broken \xff\n")
    told("$ dreamd note Grüße 東京\nnoted")
    ended = told("$ dreamd bootstrap\n…\n! …not UTF-8…")
    memory, _, notes = ended.out.partition(NOTES_HEADING)
    assert ("Ada prefers tea" in memory, "Grüße 東京" in notes) == (True, True)
    assert told("$ dreamd bootstrap --json\n…").json["text"] == ended.out
    hook = told("$ dreamd bootstrap --format hook\n…").json["hookSpecificOutput"]
    assert hook == {"hookEventName": "SessionStart", "additionalContext": ended.out}
    assert told("$ dreamd bootstrap --format hook --agent cursor\n…").json == {"additional_context": ended.out}


def test_the_context_window_sets_the_budget_and_a_hook_is_never_cut_off_by_the_agent(
    told: Transcript, dreamd: Caller, here: Path, tmp_path: Path
) -> None:
    (here / "MEMORY.md").write_text("- a line of thirty characters.\n" * 400)
    (tmp_path / "c.yaml").write_text("dream:\n  context_window: 64000\n")
    sizes = [
        len(told(f"$ {words}\n…", config=tmp_path / "c.yaml").out) - len(f"{GREETING}\n\n")
        for words in (
            "dreamd bootstrap",
            "dreamd bootstrap --config <config>",
            "dreamd bootstrap --config <config> --context-window 128000",
            "DREAMD_DREAM__CONTEXT_WINDOW=1000 dreamd bootstrap --config <config>",
        )
    ]
    budgets = [budget_for(window) for window in (200_000, 64_000, 128_000, 1_000)]
    assert all(budget - 40 < size <= budget for size, budget in zip(sizes, budgets, strict=True))
    assert TRUNCATED in told("$ dreamd bootstrap\n…").out
    for number in range(60):
        dreamd("note", "-w", here, f"{number}: " + "a note that is rather long " * 8)
    hook = told("$ dreamd bootstrap --format hook\n…").json["hookSpecificOutput"]["additionalContext"]
    assert 8_000 < len(hook) <= 9_500
    assert "59: a note that is rather long" in hook
    assert len(told("$ dreamd bootstrap\n…").out) > 9_500


@pytest.mark.parametrize("file", ["MEMORY.md", "memory/scratch.md"])
def test_a_secret_written_by_hand_does_not_reach_an_agent(
    told: Transcript, here: Path, tmp_path: Path, file: str
) -> None:
    config = tmp_path / "config.yaml"
    (here / file).write_text(f"- the token is {SECRET}\n", encoding="utf-8")
    assert SECRET not in told("$ dreamd bootstrap\n…[redacted: github token]…").out
    assert SECRET in (here / file).read_text(encoding="utf-8")
    for text in ("redact: false", f"allow: [{SECRET}]"):
        config.write_text(f"secrets:\n  {text}\n")
        told("$ dreamd bootstrap --config <config>\n…<secret>…", config=config, secret=SECRET)
    config.write_text("secrets:\n  redact: perhaps\n")
    told("$ dreamd bootstrap --config <config>\n! dreamd: …secrets.redact is 'perhaps'…\n[2]")
