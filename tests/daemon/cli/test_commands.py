"""Every command ends with the right status, and what goes wrong is one line."""

import os
import pty
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from daemon.api.text import counted, duration
from daemon.cli import COMMANDS
from daemon.observability.failures import failure
from daemon.observability.printable import safe
from daemon.workspace.adoption import open_workspace
from state.errors import BusyError
from state.stores.disk.lock import acquire
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import running
from tests.support.running import ROOT, Caller, process


def test_every_command_explains_itself(dreamd: Caller) -> None:
    for name in COMMANDS:
        ended = dreamd(name, "--help")
        assert ended.status == 0
        assert f"usage: dreamd {name}" in ended.out
        assert ("--config" in ended.out) is (name != "install-service")
        assert ("--json" in ended.out) is (name not in {"serve", "mcp", "worker", "gateway", "migrate"})


def test_the_help_lists_every_command(dreamd: Caller) -> None:
    ended = dreamd("--help")
    assert ended.status == 0
    assert all(f"  {name} " in ended.out for name in COMMANDS)


def test_no_command_at_all_is_a_usage_error_that_shows_the_help(dreamd: Caller) -> None:
    ended = dreamd()
    assert (ended.status, ended.out.splitlines()[0]) == (2, "usage: dreamd COMMAND …")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("fly",), 2, "there is no command 'fly'"),
        (("note",), 2, "arguments are required: TEXT"),
        (("note", "x", "--loud"), 2, "--loud"),
        (("note", "x", "--importance", "much"), 2, "invalid float value: 'much'"),
        (("note", "x", "--importance", "1.5"), 2, "importance 1.5 is impossible"),
        (("note", "x", "--importance", "nan"), 2, "importance nan is impossible"),
        (("note", "  \n "), 2, "the note is empty"),
        (("note", "x" * 20_000), 2, "20000 bytes and 16384 fit"),
        (("bootstrap", "--context-window", "0"), 2, "0 tokens is impossible"),
        (("search", "tea", "--limit", "0"), 2, "--limit: input should be greater than or equal to 1"),
        (("search", "tea", "--kind", "rumour"), 2, "invalid choice: 'rumour' (choose from 'fact', 'preference'"),
        (("search", "tea", "--trust", "all"), 2, "invalid choice: 'all' (choose from 'web'"),
        (("search", "tea", "--since", "yesterday"), 2, "'yesterday' is no day or time"),
        (("feel", "hungry"), 2, "invalid choice: 'hungry'"),
        (("diff", "1", "2", "3"), 2, "name one version, or two, or --file"),
        (("diff", "one"), 2, "invalid int value"),
        (("diff",), 1, "there is no version yet"),
        (("restore", "7"), 1, "there is no version 7"),
        (("why", "anything"), 1, "no line of MEMORY.md has or had 'anything'"),
        (("review",), 3, "nothing waits for you"),
        (("review", "2026"), 1, "no change and no proposal '2026' waits"),
        (("dream",), 3, "there is nothing new since the last dream"),
        (("dream", "--dry-run"), 3, "there is nothing new since the last dream"),
        (("status", "--config", "/nowhere.yaml"), 2, "/nowhere.yaml: no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_status(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], status: int, said: str
) -> None:
    monkeypatch.setenv("DREAMD_WORKSPACE", str(here))
    ended = dreamd(*words)
    assert (ended.status, ended.out) == (status, "")
    assert said in ended.err
    assert ended.err.startswith("dreamd: ")
    assert ended.err.count("\n") == 1


LONG = "x" * 200_000
# Of each command, wrong values of its arguments: out of range, empty, too long, no number, no name.
WRONG: dict[str, list[tuple[str, ...]]] = {
    "init": [("--trust=0",), ("a", "b")],
    "connect": [("nobody",), ("",)],
    "disconnect": [("nobody",), ("",)],
    "note": [("",), (LONG,), ("x", "--importance", "-1"), ("x", "--importance", "2"), ("x", "--importance", "")],
    "bootstrap": [("--context-window", "0"), ("--context-window", "-1"), ("--context-window", "all")],
    "dream": [("--reason", ""), ("--reason", "0")],
    "search": [("tea", "--limit", wrong) for wrong in ("0", "-1", "1001", "", "all")]
    + [("tea", option, wrong) for option in ("--origin", "--kind", "--trust") for wrong in ("", "0")]
    + [("tea", option, wrong) for option in ("--since", "--until", "--as-of") for wrong in ("", "0", "-1")]
    + [(LONG,), ("tea", "--session", LONG), ("tea", "--speaker", LONG)],
    "status": [("--json=0",)],
    "open": [("--once=0",)],
    "history": [("--limit", wrong) for wrong in ("0", "-1", "100001", "", "all")],
    "diff": [("0",), ("-1",), ("",), ("all",), ("1", "0"), ("-1", "1"), (str(10**10),), ("1", "2", "3")],
    "restore": [("0",), ("-1",), ("",), ("all",), (str(10**10),)],
    "why": [("",), (LONG,)],
    "why-not": [("",), (LONG,), ("tea", "--session", LONG)],
    "supersede": [("", "L1"), ("L1", ""), (LONG, "L1"), ("L1", LONG)],
    "forget": [("", "--yes"), (LONG, "--yes")],
    "secrets": [("0",), ("allow", "")],
    "review": [("1", "--accept", "--undo")],
    "feel": [("",), ("0",), ("reward", "--because", LONG), ("reward", "--because", "x" * 2_001)],
    "mood": [("1",)],
    "ingest": [("--found", "nobody"), ()],
    "session": [("",), ("0",), ("show", ""), ("show", LONG), ("stats", LONG), ("restore", "s", LONG)]
    + [("events", "s", "--limit", wrong) for wrong in ("0", "-1", "", "all", str(10**10))],
    "export": [("--json=0",)],
    "import": [("",), ("/",)],
    "models": [("0",), ("",)],
    "config": [("dream.mode", "auto")],
    "doctor": [("--repair=0",), ("--dry-run",)],
}
# These start what stays, or keep a fleet.
STAY = {"serve", "mcp", "worker", "gateway", "migrate", "fleet", "install-service"}


def test_a_wrong_argument_is_a_usage_error_of_every_command(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DREAMD_WORKSPACE", str(here))
    assert dreamd("note", "Ada drinks tea.").status == dreamd("dream").status == 0
    assert WRONG.keys() | STAY == COMMANDS.keys()
    other = []
    for command, words in ((command, words) for command, wrong in WRONG.items() for words in wrong):
        ended = dreamd(command, *words)
        if ended.status != 2 or "a defect" in ended.err or ended.err.count("\n") != 1:
            other.append((command, *(word[:20] for word in words), ended.status, ended.err[:200]))
    assert not other, "\n".join(map(str, other))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diff", "0"), "N: input should be greater than or equal to 1"),
        (("restore", "0"), "N: input should be greater than or equal to 1"),
        (("why", ""), "TEXT: string should have at least 1 character"),
        (("feel", "reward", "--because", "x" * 2_001), "--because: string should have at most 2000 characters"),
        (("history", "--limit", "0"), "--limit: input should be greater than or equal to 1"),
        (("search", "tea", "--limit", "1001"), "--limit: input should be less than or equal to 1000"),
        (("session", "stats", LONG), "SESSION: string should have at most"),
    ],
)
def test_a_usage_error_names_the_argument_and_what_is_allowed(
    dreamd: Caller, here: Path, words: tuple[str, ...], said: str
) -> None:
    ended = dreamd(*words, "-w", here)
    assert ended.status == 2
    assert said in ended.err


def test_with_json_a_failure_is_an_object_as_well(dreamd: Caller, here: Path) -> None:
    ended = dreamd("restore", "7", "-w", here, "--json")
    assert ended.status == 1
    assert ended.json == {"error": ended.err.removeprefix("dreamd: ").strip(), "code": "NOT_FOUND", "details": {}}


def test_an_argument_that_cannot_be_read_is_an_object_as_well(dreamd: Caller) -> None:
    assert dreamd("restore", "--json").json["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("command", ["bootstrap", "status", "doctor", "dream", "history", "mood"])
def test_a_workspace_that_is_missing_or_a_file_is_a_usage_error(dreamd: Caller, tmp_path: Path, command: str) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for wrong, said in (
        (tmp_path / "nowhere", "does not exist"),
        (file, "is a file"),
        (tmp_path, "no workspace yet"),
    ):
        ended = dreamd(command, "-w", wrong)
        assert (ended.status, ended.err.count("\n")) == (2, 1)
        assert said in ended.err
        assert "dreamd init" in ended.err or "name the folder" in ended.err


def test_a_folder_that_cannot_be_made_is_a_failure_that_names_it(dreamd: Caller) -> None:
    ended = dreamd("init", "/proc/dreamd-test")
    assert (ended.status, ended.err.count("\n")) == (1, 1)
    assert "/proc/dreamd-test" in ended.err


def test_the_workspace_is_found_from_a_folder_inside_it(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "deep" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(here / "deep" / "deeper")
    assert dreamd("status", "--json").json["workspace"] == str(here)


def test_outside_of_every_workspace_init_is_named(
    dreamd: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = dreamd("status")
    assert ended.status == 2
    assert "dreamd init" in ended.err


def test_two_workspaces_at_once_are_a_usage_error(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    assert dreamd("status", here, "-w", here).status == 0
    assert dreamd("status", here, "-w", tmp_path).status == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("dreams:\n  mode: auto\n", "there is no key 'dreams'"),
        ("dream:\n  moode: auto\n", "there is no key 'dream.moode'"),
        ("dream:\n  mode: never\n", "dream.mode is 'never'"),
        ("dream:\n  context_window: wide\n", "dream.context_window is 'wide'"),
        ("limits:\n  usd_per_day: -1\n", "limits.usd_per_day is -1"),
        ("dream: [\n", "not YAML"),
        ("dream: " + "[" * 5_000 + "]" * 5_000, "nested too deep"),
        ("dream: {mode: 2026-13-45}\n", "month"),
    ],
)
def test_a_wrong_configuration_is_a_usage_error_that_names_file_and_key(
    dreamd: Caller, here: Path, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    ended = dreamd("status", here, "--config", file)
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert said in ended.err
    assert str(file) in ended.err


def test_a_busy_workspace_ends_with_5_and_names_who_holds_it(dreamd: Caller, here: Path) -> None:
    with acquire(open_workspace(here), "another command"):
        for command in ("dream", "restore 1", "feel reward", "ingest x"):
            ended = dreamd(*command.split(), "-w", here)
            assert ended.status == BusyError.exit_status
            assert f"process {os.getpid()} ('another command'" in ended.err


def test_what_only_reads_works_in_a_busy_workspace(dreamd: Caller, here: Path) -> None:
    assert dreamd("note", "Ada likes tea", "-w", here).status == 0
    with acquire(open_workspace(here), "another command"):
        for command in ("note x", "bootstrap", "status", "history", "mood", "search tea", "doctor"):
            ended = dreamd(*command.split(), "-w", here)
            assert ended.status == 0, ended.err
        assert "held by process" in dreamd("search", "tea", "-w", here).err


@pytest.mark.full
def test_every_command_that_prints_a_value_prints_it_as_json(dreamd: Caller, here: Path) -> None:
    assert dreamd("init", here, "--json").json["created"] is False
    assert dreamd("note", "Ada likes tea", "-w", here, "--json").json["text"] == "Ada likes tea"
    for command in ("bootstrap", "status", "history", "mood", "feel reward", "search tea", "dream", "doctor"):
        ended = dreamd(*command.split(), "-w", here, "--json")
        assert ended.status == 0, ended.err
        assert ended.json is not None
    for command in ("diff", "diff --file", "why tea", "restore 1"):
        assert dreamd(*command.split(), "-w", here, "--json").json


def test_a_defect_is_one_line_that_says_how_to_see_more() -> None:
    told = failure(KeyError("lost"))
    assert told.exit_status == 1
    assert "KeyError: 'lost'" in told.message
    assert "DREAMD_DEBUG=1" in told.message


def test_an_error_of_the_system_says_what_to_do() -> None:
    assert "disk is full" in failure(OSError(28, "No space left on device", "/w/x")).message
    assert "read-only" in failure(OSError(30, "Read-only file system", "/w/x")).message
    assert "chmod" in failure(PermissionError(13, "Permission denied", "/w/x")).message


def test_nothing_that_a_memory_holds_moves_the_cursor() -> None:
    assert safe("a\x1b[2Jb\x9b1m\u202ec\r\n\td") == "a\\x1b[2Jb\\x9b1m\\u202ec\\r\n\td"


def test_spans_and_numbers_are_said_in_words() -> None:
    assert [duration(s) for s in (-5, 0, 59, 60, 3_599, 7_200, 172_800)] == [
        "0 s", "0 s", "59 s", "1 min", "59 min", "2 h", "2 d",
    ]  # fmt: skip
    assert [counted(n, "note") for n in (0, 1, 2, 1_000)] == ["no notes", "1 note", "2 notes", "1,000 notes"]


def test_a_reader_that_goes_away_is_no_error(here: Path) -> None:
    command = f"{sys.executable} -m daemon --help | true; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, cwd=ROOT, check=True)
    assert run.stderr == b""


class Interrupted:
    """A stdin at which somebody presses Ctrl-C."""

    @property
    def buffer(self) -> "Interrupted":
        return self

    def read(self) -> bytes:
        raise KeyboardInterrupt


def test_an_interruption_ends_with_130_and_leaves_no_trace(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Interrupted())
    ended = dreamd("note", "-", "-w", here)
    assert (ended.status, ended.err.count("\n")) == (130, 1)
    assert not (here / "memory" / "scratch.md").exists()


@pytest.mark.full
def test_colour_is_for_terminals_that_want_it(here: Path) -> None:
    def on_a_terminal(**environment: str) -> str:
        leader, follower = pty.openpty()
        run = subprocess.run(
            [sys.executable, "-m", "daemon", "status", str(here)],
            stdout=follower,
            cwd=ROOT,
            env={
                "HOME": "/nonexistent",
                "TERM": "xterm-256color",
                "XDG_DATA_HOME": os.environ["XDG_DATA_HOME"],
                **environment,
            },
            check=True,
        )
        os.close(follower)
        shown = os.read(leader, 100_000).decode()
        os.close(leader)
        assert run.returncode == 0
        return shown

    open_workspace(here).state.chmod(0o755)
    assert "\x1b[31m" in on_a_terminal()
    assert "\x1b[31m" not in on_a_terminal(NO_COLOR="1")
    assert "\x1b[" not in process("status", str(here)).out


@pytest.mark.full
def test_the_status_does_not_wait_for_a_daemon_that_hangs(
    dreamd: Caller, here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path_factory.mktemp("s") / "s"
    monkeypatch.setenv("DREAMD_SOCKET", str(path))
    with closing(socket.socket(socket.AF_UNIX)) as listener:  # it takes the connection, and never answers
        listener.bind(str(path))
        listener.listen()
        ended = dreamd("status", here, "--json")
    assert ended.status == 0
    assert ended.json["workspace"] == str(here)
    assert [problem["what"] for problem in ended.json["problems"]] == [
        "the daemon does not answer: it is stopped, or overrun"
    ]


@pytest.mark.parametrize(("words", "told"), [(("history",), False), (("search", "tea"), False), (("dream",), True)])
def test_that_the_daemon_has_its_own_configuration_is_said_where_it_matters(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch, *, words: tuple[str, ...], told: bool
) -> None:
    house = OwnHouse()
    house.register(here)
    monkeypatch.setenv("DREAMD_WORKSPACE", str(here))
    monkeypatch.setenv("DREAMD_DREAM__CONTEXT_WINDOW", "128000")
    assert dreamd("note", "Ada prefers tea over coffee").status == 0
    with running(house) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        ended = dreamd(*words)
    assert ("with its own configuration" in ended.err) is told
