"""Whatever becomes of .dreamd, the configuration and the place: one line says so, and nothing is lost."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.workspace.adoption import open_workspace
from tests.support.keeping import KNOWN, PENDING, copied, crystals, one_line, pending, refused, works_again
from tests.support.running import ROOT, Caller

# -------------------------------------------------------------------- state.db

DAMAGED = "MEMORY.md are unharmed, run 'dreamd doctor'"


def zeroed(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(100))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def noisy(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 2 * 4096))


def of_another_program(path: Path, schema: int = 0) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.execute(f"PRAGMA user_version = {schema}")
    connection.close()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [zeroed, cut, noisy, of_another_program, lambda path: of_another_program(path, 1), a_folder],
    ids=["zeroed header", "cut in half", "noise", "another program's", "another program's of our schema", "a folder"],
)
def test_a_state_db_that_cannot_be_used_is_named_and_a_repair_brings_everything_back(
    dreamd: Caller, here: Path, spoil: Callable[[Path], None]
) -> None:
    database, memory = open_workspace(here).state / "state.db", (here / "MEMORY.md").read_bytes()
    spoil(database)
    content = None if database.is_dir() else database.read_bytes()

    refused(dreamd, here, ("dream", "search tea", "history"), "state.db: ", DAMAGED)
    assert dreamd("note", "-w", here, "written meanwhile").status == 0
    shown = dreamd("bootstrap", here).out
    assert [text for text in (*KNOWN, PENDING, "written meanwhile") if text not in shown] == []
    examined = dreamd("doctor", here)
    assert (examined.status, examined.err) == (1, "")
    (problem,) = [row for row in examined.out.splitlines() if row.startswith("problem")]
    assert "run 'dreamd doctor --repair'" in problem
    assert (here / "MEMORY.md").read_bytes() == memory
    assert content is None or database.read_bytes() == content

    assert dreamd("doctor", here, "--repair").status == 0
    assert set(KNOWN) <= crystals_after_opening(dreamd, here)
    works_again(dreamd, here, PENDING, "written meanwhile")
    assert [one["number"] for one in dreamd("history", "-w", here, "--json").json["versions"]] == [2, 1]


def crystals_after_opening(dreamd: Caller, root: Path) -> set[str]:
    assert dreamd("search", "tea", "-w", root).out.startswith(f"1. {KNOWN[0]}")
    return crystals(root)


def test_a_state_db_of_a_later_dreamd_is_left_alone(dreamd: Caller, here: Path) -> None:
    database = open_workspace(here).state / "state.db"
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version = 99")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = database.read_bytes()
    refused(dreamd, here, ("dream", "search tea"), "state.db: written by a newer dreamd (schema 99", "upgrade")
    examined = dreamd("doctor", here).out
    assert "upgrade" in examined
    assert "move it away" not in examined
    assert database.read_bytes() == content
    assert pending(here) == [PENDING]


def test_a_state_db_of_another_workspace_costs_no_line(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    other = copied(here, tmp_path / "other")
    (open_workspace(other).state / "state.db").replace(open_workspace(here).state / "state.db")
    works_again(dreamd, here, PENDING)


# --------------------------------------------------------- the rest of .dreamd


def test_a_state_db_that_is_gone_is_said_and_the_copy_is_restored(dreamd: Caller, here: Path) -> None:
    for file in open_workspace(here).state.glob("state.db*"):
        file.unlink()
    refused(dreamd, here, ("dream", "search tea"), "state.db: ", "run 'dreamd doctor'")
    assert dreamd("doctor", here, "--repair").status == 0
    assert set(KNOWN) <= crystals_after_opening(dreamd, here)
    works_again(dreamd, here, PENDING)


@pytest.mark.parametrize("name", ["index", "checkpoints"])
def test_a_folder_that_a_copy_left_out_is_made_again(dreamd: Caller, here: Path, name: str) -> None:
    folder = open_workspace(here).state / name
    folder.rename(here / "gone")
    assert dreamd("note", "-w", here, "written meanwhile").status == 0
    works_again(dreamd, here, PENDING, "written meanwhile")
    assert folder.is_dir()


def test_the_doctor_names_folders_that_are_missing_or_none(dreamd: Caller, here: Path) -> None:
    (here / "memory").rename(here / "gone")
    examined = dreamd("doctor", here)
    assert examined.status == 0
    assert f"warning  folders       {here / 'memory'} is missing" in examined.out
    assert dreamd("note", "-w", here, "written").status == 0
    (open_workspace(here).state / "checkpoints").rename(here / "gone too")
    (open_workspace(here).state / "checkpoints").write_text("")
    assert (
        f"problem  folders       {open_workspace(here).state / 'checkpoints'} is no folder"
        in dreamd("doctor", here).out
    )
    refused(
        dreamd, here, ("dream", "search tea"), "checkpoints: a file stands where a folder should be; move it away"
    )
    assert pending(here) == sorted(["written", PENDING])


# -------------------------------------------------------------------- the lock

HOLD = """
import sys, time
from pathlib import Path
from daemon.workspace.stores import open_exclusive
from daemon.config.settings import Config
from daemon.workspace.adoption import open_workspace
with open_exclusive(open_workspace(Path(sys.argv[1])), Config(), "dreamd dream"):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def holder(here: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(here)], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_holder_that_lives_is_named_and_one_that_is_dead_is_none(
    dreamd: Caller, here: Path, holder: subprocess.Popen[bytes]
) -> None:
    for command in ("dream", "feel reward", "restore 1"):
        one_line(
            dreamd(*command.split(), "-w", here), 5, f"process {holder.pid} ('dreamd dream' on ", f"kill {holder.pid}"
        )
    assert dreamd("note", "-w", here, "written meanwhile").status == 0
    holder.kill()
    holder.wait()
    assert (open_workspace(here).state / "lock").read_bytes() != b""
    works_again(dreamd, here, PENDING, "written meanwhile")


def test_a_holder_that_was_stopped_is_not_waited_for(
    dreamd: Caller, here: Path, holder: subprocess.Popen[bytes]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    works_again(dreamd, here, PENDING)


def test_a_lock_file_with_anything_in_it_is_free(dreamd: Caller, here: Path) -> None:
    (open_workspace(here).state / "lock").write_bytes(b'{"pid": "\xff')
    (open_workspace(here).state / "fence").write_bytes(b"\xff\xfe")
    assert dreamd("status", here).status == 0
    works_again(dreamd, here, PENDING)


# ------------------------------------------------- configuration and environment


OF_A_BOOTSTRAP_TOO = (b"- dream\n- limits\n", b"dream: \xff\n", b"secrets: {allow: 7}\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"- dream\n- limits\n", ("holds list, not sections",)),
        (b"just a text\n", ("holds str, not sections",)),
        (b"dream: \xff\n", ("make it a readable text file",)),
        (b"dream: !!python/object/apply:os.system [id]\n", ("line 1", "not YAML")),
        (b"dream:\n\tmode: auto\n", ("line 2", "not YAML")),
        (b"dream: often\n", ("dream is 'often'",)),
        (b"limits: {usd_per_day: .nan}\n", ("limits.usd_per_day is nan",)),
        (b"secrets: {allow: 7}\n", ("secrets.allow is 7",)),
        (b"sources: {transcripts: ['/etc/*']}\n", ("sources.transcripts", "'/etc/*'", "inside the workspace")),
        (b"sources: {transcripts: ['../*']}\n", ("sources.transcripts", "'../*'", "inside the workspace")),
        (b"sources: {transcripts: ['']}\n", ("sources.transcripts", "inside the workspace")),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_a_usage_error(
    dreamd: Caller, here: Path, tmp_path: Path, content: bytes, words: tuple[str, ...]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content)
    for command in ("dream", "bootstrap") if content in OF_A_BOOTSTRAP_TOO else ("dream",):
        one_line(dreamd(command, here, "--config", file), 2, *words)
    assert pending(here) == [PENDING]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("DREAMD_DREAM__MODE", "never", "DREAMD_DREAM__MODE: dream.mode is 'never'"),
        ("DREAMD_DREAM__CONTEXT_WINDOW", "", "DREAMD_DREAM__CONTEXT_WINDOW: dream.context_window is None"),
        ("DREAMD_DREAM__MIN_CHUNKS", "many", "dream.min_chunks is 'many'"),
        ("DREAMD_LIMITS__USD_PER_DAY", "-1", "limits.usd_per_day is -1"),
        ("DREAMD_DREAM", "5", "DREAMD_DREAM: dream is 5"),
        ("DREAMD_DREEM__MODE", "auto", "there is no key 'dreem'"),
        ("DREAMD_CONFIG", "/nowhere.yaml", "/nowhere.yaml: no such file"),
        ("DREAMD_CONFIG", "/etc", "/etc: no such file"),
        ("DREAMD_WORKSPACE", "/nowhere", "/nowhere does not exist"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_a_usage_error_that_names_it(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv("DREAMD_WORKSPACE", str(here))
    monkeypatch.setenv(variable, value)
    one_line(dreamd("status"), 2, said)


def test_without_a_place_for_the_model_the_search_is_by_words_and_says_so(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    found = dreamd("search", "tea", "-w", here)
    assert found.status == 0
    assert found.out.startswith(f"1. {KNOWN[0]}")
    assert "search is by words only" in found.err
    ended = dreamd("dream", here)
    assert ended.status == 0
    assert ended.err.count("search is by words only") == 1
    assert PENDING in (here / "MEMORY.md").read_text()


def test_without_a_home_everything_works(dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    works_again(dreamd, here, PENDING)


# ------------------------------------------------------------------- the model


@pytest.mark.full
def test_a_model_that_cannot_be_had_costs_no_note(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = (here / "MEMORY.md").read_bytes()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("DREAMD_MODEL__NAME", "nosuch/model")
    one_line(dreamd("dream", here), 1, "'nosuch/model' names no provider", "write provider/model")
    monkeypatch.setenv("DREAMD_MODEL__NAME", "openai/gpt-4o")
    one_line(dreamd("dream", here), 1, "openai/gpt-4o wants a key and there is none", "set OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    monkeypatch.setenv("DREAMD_MODEL__API_BASE", "http://127.0.0.1:9/v1")
    one_line(dreamd("dream", here), 1, "127.0.0.1:9", "cannot be reached", "check model.api_base")
    assert (here / "MEMORY.md").read_bytes() == memory
    assert pending(here) == [PENDING]
    monkeypatch.setenv("DREAMD_MODEL__ON_FAILURE", "extractive")
    monkeypatch.setenv("DREAMD_MODEL__NAME", "nosuch/model")
    ended = dreamd("dream", here)
    assert "notice: the model failed, extractive instead: " in ended.err
    assert PENDING in (here / "MEMORY.md").read_text()
