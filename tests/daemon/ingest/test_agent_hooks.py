"""What hooks are told, and what becomes of the transcript that they name."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from daemon.config.paths import program
from daemon.config.settings import Config, SourcesSection
from daemon.ingest.agent_hooks import Hook, link, parse_hook
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.workspace.adoption import dream_log
from daemon.workspace.stores import open_exclusive, utc_now
from state.errors import UsageError
from state.stores.disk.workspace import Workspace
from tests.support.running import Ended, process, until_dreamt_apart
from tests.support.serving import noted, repairs

GLOBS = SourcesSection().transcripts


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "agent" / "chat.md"
    path.parent.mkdir()
    path.write_text("Ada: I prefer tea\n")
    return path


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (b"", "stdin: invalid JSON"),
        (b"no json", "stdin: invalid JSON"),
        (b"[]", "stdin"),
        (b"\xff", "stdin: invalid JSON"),
        (b"{}", "hook_event_name: field required"),
        (b'{"hook_event_name": 7}', "hook_event_name: input should be a valid string"),
        (b'{"hook_event_name": "Stop", "transcript_path": ["secret"]}', "transcript_path"),
    ],
)
def test_what_no_hook_is_told_is_a_usage_error_that_quotes_nothing(said: bytes, wrong: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_hook(said)
    assert wrong in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("said", "hook"),
    [
        ({"hook_event_name": "Other", "session_id": "a", "transcript_path": "/t"}, Hook(Path("/t"), "a")),
        ({"hook_event_name": "SessionEnd", "session_id": "a"}, Hook(None, "a", ends_session=True)),
        ({"hook_event_name": "Stop", "session_id": 7}, Hook(None, "", ends_turn=True)),
        (
            {"hook_event_name": "sessionStart", "conversation_id": "c", "cwd": "/w", "transcript_path": None},
            Hook(None, "c", Path("/w"), begins_session=True),
        ),
        (
            {
                "hook_event_name": "sessionEnd", "conversation_id": "c", "generation_id": "g",
                "workspace_roots": ["/w"], "transcript_path": "/t",
            },
            Hook(Path("/t"), "c", Path("/w"), ends_session=True),
        ),
        ({"hook_event_name": "stop", "conversation_id": "c", "status": "completed"}, Hook(None, "c", ends_turn=True)),
    ],
)  # fmt: skip
def test_events_of_every_agent_are_understood(said: dict[str, object], hook: Hook) -> None:
    assert parse_hook(json.dumps(said).encode()) == hook


@pytest.mark.parametrize(("agent", "meant"), [("claude-code", "/a"), ("gemini", "/a"), ("", "/a"), ("codex", "/b")])
def test_a_variable_that_an_agent_has_inherited_says_nothing(agent: str, meant: str) -> None:
    hook = parse_hook(b'{"hook_event_name": "Stop", "cwd": "/b"}')
    assert hook.project({"CLAUDE_PROJECT_DIR": "/a"}, agent) == Path(meant)


def start(workspace: Workspace, transcript: Path, tried: str = "") -> Ended:
    """The hook at the start of a session, which is killed before it ends."""
    said = {"hook_event_name": "SessionStart", "session_id": "a", "transcript_path": str(transcript)}
    words = ("bootstrap", str(workspace.root), "--format", "hook")
    return process(*words, stdin=json.dumps(said).encode(), DREAMD_TRIED=tried)


def test_a_session_is_linked_at_its_start_and_read_although_it_never_ends(here: Workspace, chat: Path) -> None:
    later, silent = chat.with_name("later.md"), chat.with_name("silent.md")
    for path in (chat, later, silent, chat):
        ended = start(here, path)
        assert (ended.status, "notice" in ended.err) == (0, False)
    later.write_text("Ada: I moved to Berlin\n")
    with open_exclusive(here, Config(), "test") as store:
        read = absorb_transcripts(store, transcript_files(here, Config()), utc_now())
        assert (read.turns, read.problems) == (2, ())
        assert {one.text for one in store.crystals.named("moved")} == {"Ada: I moved to Berlin"}


def test_a_hook_whose_folder_was_removed_finds_the_workspace_above_it(here: Workspace, chat: Path) -> None:
    said = json.dumps({"hook_event_name": "PreCompact", "transcript_path": str(chat)})
    gone = here.root / "gone"
    gone.mkdir()
    script = (
        "import os, sys; from daemon.cli import main; os.rmdir(os.getcwd()); sys.exit(main(['ingest', '--hook']))"
    )
    environment = {**os.environ, "PWD": str(gone)}
    subprocess.run([sys.executable, "-c", script], input=said.encode(), cwd=gone, env=environment, check=True)
    assert (here.root / "transcripts" / "chat.md").is_symlink()


@pytest.mark.parametrize("path", ["/", "\0", "/dev/null"])
def test_a_start_that_names_no_transcript_shows_the_memory_and_links_nothing(here: Workspace, path: str) -> None:
    here.document.write_text("- Ada prefers tea\n")
    ended = start(here, Path(path))
    assert (ended.status, "Ada prefers tea" in ended.out) == (0, True)
    assert not (here.root / "transcripts").exists()


def test_a_check_of_the_hook_links_nothing(here: Workspace, chat: Path) -> None:
    assert start(here, chat, tried="1").status == 0
    assert not (here.root / "transcripts").exists()


def test_each_transcript_has_one_link_which_follows_it(here: Workspace, chat: Path, tmp_path: Path) -> None:
    other, inside = tmp_path / "other" / "chat.md", here.root / "transcripts" / "own.md"
    for path, text in ((other, "Eve: I prefer coffee\n"), (inside, "Ada: I prefer tea\n")):
        path.parent.mkdir()
        path.write_text(text)
    made = [link(here, path, GLOBS) for path in (chat, other, chat, other, inside)]
    assert made[0] == made[2] == here.root / "transcripts" / "chat.md"
    assert made[1] == made[3] != made[0]
    assert made[4] == inside  # where dreams look already
    assert not inside.is_symlink()
    chat.write_text("Ada: I moved to Berlin\n")
    assert [path.read_text() for path in made[:2]] == [chat.read_text(), other.read_text()]
    assert sorted(inside.parent.iterdir()) == sorted({*made})


@pytest.mark.parametrize("globs", [(), ("chats/*.md",), ("/etc/*",), ("**x",)])
def test_a_link_that_nothing_would_find_is_told(here: Workspace, chat: Path, globs: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"sources\.transcripts does not find .* add 'transcripts/\*\*/\*' to it"):
        link(here, chat, globs)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), b"no json"),
        (("PATH",), b"{}"),
        (("--config", "/nowhere.yaml"), b'{"hook_event_name": "SessionEnd"}'),
        (("-w", "/nowhere"), b'{"hook_event_name": "SessionEnd"}'),
        ((), b'{"hook_event_name": "PreCompact", "transcript_path": "/"}'),
    ],
)
def test_a_hook_that_fails_neither_stops_the_agent_nor_speaks_to_it(
    here: Workspace, words: tuple[Any, ...], said: bytes
) -> None:
    ended = process("ingest", "--hook", *words, stdin=said, DREAMD_WORKSPACE=str(here.root))
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("dreamd: ")
    assert ended.err.count("\n") == 1


def ending(workspace: Workspace, transcript: Path | None, event: str = "SessionEnd") -> "subprocess.Popen[bytes]":
    """The hook in a group of its own, as agents start it; stdin has been closed."""
    process = subprocess.Popen(
        [*program(), "ingest", "--hook"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=workspace.root,
        start_new_session=True,
    )
    assert process.stdin
    said = {"hook_event_name": event, "transcript_path": str(transcript) if transcript else None}
    process.stdin.write(json.dumps(said).encode())
    process.stdin.close()
    process.stdin = None
    return process


@pytest.mark.full
def test_without_a_daemon_the_dream_outlives_the_hook_and_its_agent(here: Workspace, chat: Path) -> None:
    """And when two sessions end at once, neither says anything."""
    noted(here, repairs(3))
    ends = [ending(here, chat), ending(here, None)]
    for end in ends:
        assert end.communicate(timeout=300) == (b"", b"")
        assert end.returncode == 0
        with suppress(ProcessLookupError):
            os.killpg(end.pid, signal.SIGKILL)
    until_dreamt_apart(here)
    assert "kettle" in here.document.read_text()
    assert dream_log(here).stat().st_mode & 0o777 == 0o600
    assert "I prefer tea" not in dream_log(here).read_text()


@pytest.mark.full
def test_of_sessions_that_end_while_a_dream_goes_on_none_begins_another(here: Workspace) -> None:
    noted(here, repairs(2))
    dream_log(here).touch()
    with dream_log(here).open() as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        assert ending(here, None).communicate(timeout=300) == (b"", b"")
    until_dreamt_apart(here)
    assert not here.document.exists()
    assert ending(here, None).communicate(timeout=300) == (b"", b"")
    until_dreamt_apart(here)
    assert "kettle" in here.document.read_text()


@pytest.mark.full
def test_the_turns_of_a_session_begin_a_dream_now_and_then(here: Workspace, chat: Path) -> None:
    noted(here, repairs(2))
    dream_log(here).touch()
    for dreams in (False, True):
        assert ending(here, chat, "Stop").communicate(timeout=300) == (b"", b"")
        until_dreamt_apart(here)
        assert here.document.exists() == dreams
        os.utime(dream_log(here), (0, 0))
    assert [path.name for path in (here.root / "transcripts").iterdir()] == [chat.name]


def test_a_hook_loads_little(here: Workspace, chat: Path) -> None:
    said = json.dumps({"hook_event_name": "PreCompact", "transcript_path": str(chat)})
    script = (
        "import sys; from daemon.cli import main; assert main(['ingest', '--hook', '-w', sys.argv[1]]) == 0;"
        "print(*sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, here.root], input=said.encode(), capture_output=True, check=True
    )
    assert not {"pydantic", "yaml", "rich", "subprocess", "sqlite3"} & {*ended.stdout.decode().split()}
