"""`note` and `bootstrap` run at every turn of an agent: what they say, and that they load next to nothing."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.cli import bootstrap, note
from daemon.cli.parsing import parser_of
from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.stores import open_exclusive
from state.bootstrap import NOTES_HEADING, TRUNCATED, budget_for
from state.reading import GREETING
from state.scratch import HEADER
from tests.support.running import ROOT, Caller, process

HEAVY = (
    "litellm",
    "chromadb",
    "langgraph",
    "mcp",
    "pydantic",
    "numpy",
    "onnxruntime",
    "rich",
    "cryptography",
    "yaml",
    "sqlite3",
    "argparse",
)


def loaded_by(*words: str) -> set[str]:
    """The heavy modules that a command has imported by its end."""
    script = (
        "import json, sys; from daemon.cli import main; assert main(sys.argv[1:]) == 0;"
        f"json.dump([name for name in {HEAVY!r} if name in sys.modules], sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        cwd=ROOT,
        env={name: os.environ.get(name, "/nonexistent") for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")},
        text=True,
        check=True,
    )
    return set(json.loads(run.stderr))


def test_note_loads_nothing_heavy(here: Path) -> None:
    assert loaded_by("note", "-w", str(here), "Ada likes tea") == set()


def test_bootstrap_loads_nothing_heavy(here: Path) -> None:
    (here / "MEMORY.md").write_text("# Working Memory State\n")
    assert loaded_by("bootstrap", str(here)) == set()
    (here / "memory" / "scratch.md").write_text("- a note\n")
    assert loaded_by("bootstrap", str(here)) == set()


def test_a_bootstrap_of_a_life_with_a_global_workspace_loads_sqlite_alone(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    init_workspace(here)
    everywhere = init_workspace(tmp_path / "data" / "dreamd" / "global")
    for root in (here, everywhere.root):
        (root / "MEMORY.md").write_text("## The Bond\n\n- Ada prefers tea.\n")
        with open_exclusive(open_workspace(root), Config(), "test"):
            pass
    assert loaded_by("bootstrap", str(here)) == {"sqlite3"}


def test_status_loads_no_model_and_no_index(here: Path) -> None:
    assert loaded_by("status", str(here), "--json") <= {"pydantic", "sqlite3", "argparse"}


def test_a_note_is_appended_and_its_stamp_printed(dreamd: Caller, here: Path) -> None:
    ended = dreamd("note", "-w", here, "Ada", "prefers", "tea", "--importance", "0.9")
    assert ended.status == 0
    stamp = ended.out.strip()
    scratch = (here / "memory" / "scratch.md").read_text()
    assert scratch == f"{HEADER}\n\n- [{stamp}] (importance: 0.9) Ada prefers tea\n"


def test_a_note_may_begin_with_a_dash_or_a_number(dreamd: Caller, here: Path) -> None:
    assert dreamd("note", "-w", here, "--", "--verbose is the flag").status == 0
    assert dreamd("note", "-w", here, "-5 degrees this morning").status == 0
    shown = dreamd("bootstrap", here).out
    assert "--verbose is the flag" in shown
    assert "-5 degrees this morning" in shown


def test_a_note_comes_from_stdin_in_any_script_and_any_bytes(here: Path) -> None:
    ended = process("note", "-", "-w", str(here), "--json", stdin="Grüße 東京 🍵\nzweite Zeile\n".encode() + b"\xff")
    assert ended.status == 0
    assert ended.json["text"] == "Grüße 東京 🍵\nzweite Zeile\n\\udcff"
    assert "- [" in (here / "memory" / "scratch.md").read_text(encoding="utf-8")


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


def test_a_workspace_that_remembers_nothing_has_an_empty_bootstrap(dreamd: Caller, here: Path) -> None:
    ended = dreamd("bootstrap", here)
    assert (ended.status, ended.out) == (0, "")
    assert "remembers nothing yet" in ended.err


def test_the_bootstrap_is_memory_then_pending_notes(dreamd: Caller, here: Path) -> None:
    (here / "MEMORY.md").write_text("# Working Memory State\n\n- Ada prefers tea\n")
    dreamd("note", "-w", here, "Ada moved to Berlin")
    ended = dreamd("bootstrap", here)
    memory, _, notes = ended.out.partition(NOTES_HEADING)
    assert "Ada prefers tea" in memory
    assert "Ada moved to Berlin" in notes
    assert ended.err == ""


def test_the_context_window_sets_the_budget_by_argument_file_and_variable(
    dreamd: Caller, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "MEMORY.md").write_text("- a line of thirty characters.\n" * 400)
    config = tmp_path / "config.yaml"
    config.write_text("dream:\n  context_window: 64000\n")
    sizes = [
        len(dreamd("bootstrap", here).out),
        len(dreamd("bootstrap", here, "--config", config).out),
        len(dreamd("bootstrap", here, "--config", config, "--context-window", 128_000).out),
    ]
    monkeypatch.setenv("DREAMD_DREAM__CONTEXT_WINDOW", "1000")
    sizes.append(len(dreamd("bootstrap", here, "--config", config).out))
    budgets = [budget_for(window) for window in (200_000, 64_000, 128_000, 1_000)]
    greeting = len(f"{GREETING}\n\n")
    assert all(budget - 40 < size - greeting <= budget for size, budget in zip(sizes, budgets, strict=True))
    assert TRUNCATED in dreamd("bootstrap", here).out


def test_the_bootstrap_as_json_and_for_a_hook(dreamd: Caller, here: Path) -> None:
    dreamd("note", "-w", here, "Grüße 東京")
    plain = dreamd("bootstrap", here).out
    assert dreamd("bootstrap", here, "--format", "json").json["text"] == plain
    assert dreamd("bootstrap", here, "--json").json["left_out"] == 0
    hook = dreamd("bootstrap", here, "--format", "hook").json["hookSpecificOutput"]
    assert hook == {"hookEventName": "SessionStart", "additionalContext": plain}


def test_a_pending_secret_does_not_reach_an_agent(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    (here / "memory/scratch.md").write_text(f"- the token is {secret}\n", encoding="utf-8")
    assert secret not in dreamd("bootstrap", here).out
    assert "[redacted: github token]" in dreamd("bootstrap", here).out
    config = tmp_path / "config.yaml"
    config.write_text("secrets:\n  redact: false\n")
    assert secret in dreamd("bootstrap", here, "--config", config).out
    config.write_text(f"secrets:\n  allow: [{secret}]\n")
    assert secret in dreamd("bootstrap", here, "--config", config).out
    config.write_text("secrets:\n  redact: perhaps\n")
    ended = dreamd("bootstrap", here, "--config", config)
    assert (ended.status, ended.err.count("secrets.redact is 'perhaps'")) == (2, 1)


def test_what_the_owner_wrote_by_hand_does_not_reach_an_agent_with_its_secret(dreamd: Caller, here: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    (here / "MEMORY.md").write_text(f"- the token is {secret}\n", encoding="utf-8")
    assert dreamd("bootstrap", here).out == f"{GREETING}\n\n- the token is [redacted: github token]\n"
    assert secret in (here / "MEMORY.md").read_text(encoding="utf-8")


def test_a_note_is_stored_without_its_secret_unless_that_is_off(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    said = dreamd("note", "-w", here, "--json", f"the token is {secret}").json
    assert said["text"] == "the token is [redacted: github token]"
    assert secret not in (here / "memory/scratch.md").read_text(encoding="utf-8")
    config = tmp_path / "config.yaml"
    config.write_text("secrets:\n  redact: false\n")
    dreamd("note", "-w", here, "--config", config, f"the token is {secret}")
    assert secret in (here / "memory/scratch.md").read_text(encoding="utf-8")


def test_a_memory_with_a_broken_byte_still_reaches_the_agent(dreamd: Caller, here: Path) -> None:
    (here / "MEMORY.md").write_bytes(b"- Ada prefers tea\n- broken \xff\n")
    ended = dreamd("bootstrap", here)
    assert ended.status == 0
    assert "Ada prefers tea" in ended.out
    assert "not UTF-8" in ended.err


def test_what_a_hook_injects_is_never_cut_off_by_the_agent(dreamd: Caller, here: Path) -> None:
    (here / "MEMORY.md").write_text("# Working Memory State\n\n" + "- a line of memory\n" * 600)
    for number in range(60):
        dreamd("note", "-w", here, f"{number}: " + "a note that is rather long " * 8)
    hook = dreamd("bootstrap", here, "--format", "hook").json["hookSpecificOutput"]
    assert 8_000 < len(hook["additionalContext"]) <= 9_500
    assert "59: a note that is rather long" in hook["additionalContext"]
    assert len(dreamd("bootstrap", here).out) > 9_500


PARTS = ["Ada", "likes tea", "-", "--", "-5 degrees", "", "--json", "--importance", "0.9", "nan", "-1", "much", "-w"]
PARTS += [
    "--config",
    "--workspace",
    "/nowhere",
    "--format",
    "hook",
    "md",
    "html",
    "--context-window",
    "8000",
    "-wx",
    "-g",
    "--global",
]


@pytest.mark.parametrize("name", ["note", "bootstrap"])
@given(words=st.lists(st.sampled_from(PARTS), max_size=5))
def test_what_is_read_without_argparse_is_what_argparse_reads(name: str, words: list[str]) -> None:
    command = importlib.import_module(f"daemon.cli.{name}")
    read = command.plain(words)
    if read is None:
        return
    parser = parser_of(name, "")
    command.add(parser)
    wanted = vars(parser.parse_intermixed_args(words))
    assert {key: repr(value) for key, value in vars(read).items() if key in wanted} == {
        key: repr(value) for key, value in wanted.items()
    }


def test_an_ordinary_call_is_read_without_argparse() -> None:
    assert note.plain(["Ada", "likes", "tea", "-w", "/here", "--importance", "0.9", "--json"]) is not None
    assert bootstrap.plain(["/here", "--format", "hook"]) is not None
    assert bootstrap.plain([]) is not None
