"""What a session start is given beside the project's memory: what is true everywhere, one line for a person."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.config.paths import global_root
from daemon.config.settings import Config
from daemon.dream.lines.standing import standing_lines
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.session_start import session
from daemon.workspace.stores import open_exclusive
from state.bootstrap import EVERYWHERE_HEADING
from state.reading import GREETING
from state.secrets.policy import DEFAULT
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import receipts
from tests.support.running import Caller, process

NOW = datetime(2026, 3, 12, 9, tzinfo=UTC)
GLOBAL = "# Working Memory State\n\n## The Bond\n\n- Ada prefers tea.\n\n## Active Context\n\n- Work elsewhere.\n"


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who has nothing yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def everywhere() -> Workspace:
    """The global workspace of a person."""
    workspace = init_workspace(global_root(os.environ))
    workspace.document.write_text(GLOBAL)
    return workspace


def attention(here: Path, now: datetime) -> str:
    return session(open_workspace(here), 200_000, None, DEFAULT, now).ready.attention


@pytest.mark.parametrize("form", ["md", "json", "hook"])
def test_what_is_true_everywhere_stands_before_the_project(
    dreamd: Caller, here: Path, everywhere: Workspace, form: str
) -> None:
    (here / "MEMORY.md").write_text("# Working Memory State\n\n## The Bond\n\n- The project is a ledger.\n")
    ended = dreamd("bootstrap", here, "--format", form)
    assert (ended.status, ended.err) == (0, "")
    text = ended.out
    if form == "json":
        text = ended.json["text"]
    elif form == "hook":
        text = ended.json["hookSpecificOutput"]["additionalContext"]
    assert text.startswith(
        f"{GREETING}\n\n{EVERYWHERE_HEADING}\n\n## The Bond\n\n- Ada prefers tea.\n\n# Working Memory State\n"
    )
    assert "Work elsewhere" not in text
    assert everywhere.document.read_text() == GLOBAL


def test_the_global_workspace_is_read_alone_and_whole(dreamd: Caller, everywhere: Workspace) -> None:
    assert dreamd("bootstrap", everywhere.root).out == f"{GREETING}\n\n{GLOBAL}"


@pytest.mark.parametrize("kind", ["damaged", "fifo", "folder", "link", "a file in its place", "binary"])
def test_a_global_workspace_that_cannot_be_read_is_left_out(
    dreamd: Caller, here: Path, everywhere: Workspace, kind: str
) -> None:
    (here / "MEMORY.md").write_text("- The project is a ledger.\n")
    if kind == "damaged":
        (everywhere.state / "place").unlink()
    elif kind == "a file in its place":
        everywhere.root.rename(everywhere.root.parent / "was")
        everywhere.root.symlink_to("/dev/null")
    else:
        everywhere.document.unlink()
    if kind == "fifo":
        os.mkfifo(everywhere.document)
    elif kind == "folder":
        everywhere.document.mkdir()
    elif kind == "link":
        everywhere.document.symlink_to("/dev/zero")
    elif kind == "binary":
        everywhere.document.write_bytes(os.urandom(20_000) + b"\0")
    ended = dreamd("bootstrap", here, "--format", "hook")
    assert ended.status == 0
    text = json.loads(ended.out)["hookSpecificOutput"]["additionalContext"]
    assert text == f"{GREETING}\n\n- The project is a ledger.\n"
    if kind not in ("a file in its place", "binary"):
        assert ended.err.startswith("notice: the global workspace was left out: ")


def test_a_receipt_says_who_read_how_much_and_what_was_cut(dreamd: Caller, here: Path, everywhere: Workspace) -> None:
    (here / "MEMORY.md").write_text("## The Bond\n\n- Ada prefers tea.\n" + "- a line of the project\n" * 400)
    dreamd("bootstrap", here, "--agent", "Codex", "--format", "hook")
    (one,) = receipts(open_workspace(here))
    assert (one.agent, one.budget, one.most, one.cut.same) == ("codex", 4_000, 9_500, 1)
    assert one.lines + one.cut.budget == 401
    assert one.characters / 6 < one.tokens < one.characters / 2
    assert f"hook (codex): version 0, {one.characters:,} characters" in dreamd("status", here).out
    dreamd("bootstrap", here, "--agent", "the heron nests in March", "--context-window", 200_000)
    assert next(receipts(open_workspace(here))).agent == "other"
    assert next(receipts(open_workspace(here))).budget == 8_000


def test_a_person_is_told_of_one_thing_the_most_urgent(dreamd: Caller, here: Path) -> None:
    dreamd("note", "-w", here, "Ada moved to Berlin")
    now = datetime.now(UTC)
    assert attention(here, now) == ""
    assert (
        attention(here, now + timedelta(days=3, hours=1)) == "[dreamd: notes wait 3 days for a dream: dreamd dream]"
    )
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        store.ledger.begin("a", "manual", now)
        store.ledger.end("a", "failed", "model: no answer about tea", now)
        assert attention(here, now) == "[dreamd: the last dream failed: dreamd status]"
        store.ledger.begin("b", "manual", now + timedelta(seconds=1))
        store.ledger.end("b", "rejected", "collapse", now)
        assert attention(here, now) == "[dreamd: the guards refused the last dream: dreamd status]"
        store.ledger.begin("c", "manual", now + timedelta(seconds=2))
        store.ledger.end("c", "committed", "", now)
        assert attention(here, now) == ""
        assert "1 day for" in attention(here, now + timedelta(days=1, hours=1))
        store.ledger.skip("d", "interval", "nothing new", now + timedelta(seconds=3))
        assert attention(here, now) == ""
        record = "INSERT INTO changes (dream, place, at, record, decision) VALUES ('c', ?, '', '{}', 'waiting')"
        store.crystals.connection.execute(record, (0,))
        assert attention(here, now) == "[dreamd: 1 change waits for the owner: dreamd review]"
        store.crystals.connection.execute(record, (1,))
    assert attention(here, now + timedelta(days=9)) == "[dreamd: 2 changes wait for the owner: dreamd review]"
    assert dreamd("bootstrap", here).out.endswith("\n\n[dreamd: 2 changes wait for the owner: dreamd review]\n")


def test_what_waits_in_the_global_workspace_is_told_in_every_project(here: Path, everywhere: Workspace) -> None:
    with open_exclusive(everywhere, Config(), "test") as store:
        store.crystals.connection.execute(
            "INSERT INTO changes (dream, place, at, record, decision) VALUES ('c', 0, '', '{}', 'waiting')"
        )
    assert attention(here, NOW) == "[dreamd: 1 change waits for the owner: dreamd review --global]"
    assert attention(everywhere.root, NOW) == "[dreamd: 1 change waits for the owner: dreamd review]"


def test_a_dream_leaves_room_for_what_is_true_everywhere(here: Path, everywhere: Workspace) -> None:
    everywhere.document.write_text("## The Bond\n\n" + "- Ada likes tea in the morning.\n- Ada reads.\n" * 99)
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        budget = standing_lines(store, NOW).budget
    assert 7_800 < budget < 8_000
    (here / "MEMORY.md").write_text("- Ada paints the wall of the harbour.\n".ljust(budget - 1, "x") + "\n")
    given = session(open_workspace(here), 200_000, None, DEFAULT, NOW).ready
    assert (given.truncated, len(given.text)) == (False, 8_000 + len(f"{GREETING}\n\n"))


@pytest.mark.parametrize("kind", ["fifo", "link", "garbage", "empty"])
def test_a_database_that_cannot_be_read_keeps_nothing_from_the_agent(dreamd: Caller, here: Path, kind: str) -> None:
    (here / "MEMORY.md").write_text("- The project is a ledger.\n")
    database = open_workspace(here).database
    if kind == "fifo":
        os.mkfifo(database)
    elif kind == "link":
        database.symlink_to("/dev/zero")
    else:
        database.write_bytes(b"garbage" * 1_000 if kind == "garbage" else b"")
    dreamd("note", "-w", here, "Ada moved to Berlin")
    ended = dreamd("bootstrap", here)
    assert ended.status == 0
    assert "The project is a ledger." in ended.out
    assert "Ada moved to Berlin" in ended.out


def test_from_a_global_note_to_the_answer_of_a_hook(here: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    note = "Ada prefers tea over coffee"
    assert process("note", "--global", note, XDG_DATA_HOME=data).status == 0
    assert process("dream", "--global", XDG_DATA_HOME=data).status == 0
    message = json.dumps({"hook_event_name": "SessionStart", "session_id": "0193f2a1"}).encode()
    words = ("bootstrap", str(here), "--format", "hook", "--agent", "codex")
    for _ in range(2):
        ended = process(*words, stdin=message, XDG_DATA_HOME=data)
        assert (ended.status, ended.err.partition(" remembers")[0]) in ((0, ""), (0, str(here)))
        given = ended.json["hookSpecificOutput"]["additionalContext"]
        assert given == f"{GREETING}\n\n{EVERYWHERE_HEADING}\n\n## The Bond\n\n- Ada prefers tea over coffee\n"
    ended = process(
        "why-not", "tea over coffee", "-w", str(here), "--session", "0193f2a1", "--json", XDG_DATA_HOME=data
    )
    assert [one["code"] for one in ended.json["reasons"]] == ["given"]
    assert "hook (codex)" in process("status", str(here), XDG_DATA_HOME=data).out
