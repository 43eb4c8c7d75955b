"""What is noted, what a session start is given of it and beside it, and the receipt that each leaves."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.search import memory_bootstrap
from daemon.config.paths import global_root
from daemon.config.settings import Config
from daemon.dream.consolidation import consolidate
from daemon.dream.standing import standing_lines
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.session_start import session
from daemon.workspace.stores import open_exclusive, utc_now
from state.bootstrap import EVERYWHERE_HEADING, HERE_HEADING, NOTES_HEADING, TRUNCATED, budget_for
from state.document.operations import Action, Operation
from state.document.sections import SectionName
from state.dream import Proposed
from state.reading import head, length_given
from state.scratch import HEADER
from state.secrets.policy import DEFAULT
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import KEPT, BootstrapReceipt, receipts
from state.stores.history.leave_receipt import path_of
from state.stores.history.proposals import Proposals
from tests.support.running import ROOT, Caller, process
from tests.support.transcript import Transcript

pytestmark = pytest.mark.usefixtures("own_folders")
SESSION = "0193f2a1-77aa-7bbb-8ccc-0123456789ab"
SECRET = "ghp_" + "a1B2" * 9
ROW = (
    '{"at": "2026-03-12T14:30:00Z", "how": "MCP", "session": "", "version": 1, "characters": 9, "budget": 9,'
    ' "notes": 1, "left_out": 0, "more": false, "truncated": false}\n'
)
NOW = datetime(2026, 3, 12, 9, tzinfo=UTC)
PROPOSED = Proposed(Operation(Action.ADD, SectionName.BOND, "Ada owns a heron"), "dream.ask: all")
GLOBAL = (
    "# Working Memory State\n\n## The Bond\n\n- Ada prefers tea.\n- Ada reads.\n\n## Active Context\n\n- Elsewhere.\n"
)


@pytest.fixture
def everywhere() -> Workspace:
    """The global workspace of a person."""
    workspace = init_workspace(global_root(os.environ))
    workspace.document.write_text(GLOBAL)
    return workspace


def left(root: Path) -> list[BootstrapReceipt]:
    return list(receipts(open_workspace(root)))


def attention(here: Path, now: datetime) -> str:
    return session(open_workspace(here), 200_000, None, DEFAULT, now).ready.attention


@pytest.mark.parametrize("form", ["md", "json", "hook"])
def test_every_form_has_what_is_true_everywhere_and_leaves_a_receipt(
    told: Transcript, here: Path, everywhere: Workspace, form: str
) -> None:
    (here / "MEMORY.md").write_text("## The Bond\n\n- Ada prefers tea.\n" + "- a line of the project\n" * 800)
    told("$ dreamd note Ada moved to Berlin\nnoted")
    before = datetime.now(UTC).replace(microsecond=0)
    ended = told(f"$ dreamd bootstrap --format {form} --agent Codex\n…")
    text = (
        ended.out if form == "md" else ended.json.get("text") or ended.json["hookSpecificOutput"]["additionalContext"]
    )
    assert text.startswith(
        f"{head('')}\n\n{EVERYWHERE_HEADING}\n\n## The Bond\n\n- Ada reads.\n\n{HERE_HEADING}\n\n"
        "## The Bond\n\n- Ada prefers tea.\n"
    )
    assert ("Elsewhere" in text, everywhere.document.read_text()) == (False, GLOBAL)
    (one,) = left(here)
    assert (one.at >= before, one.agent, one.cut.same, one.notes) == (True, "codex", 1, 1)
    assert (one.how, one.session, one.version) == ("hook" if form == "hook" else "command line", "", 0)
    assert (one.truncated, one.characters) == (True, len(text))
    assert one.lines + one.cut.budget + one.cut.host >= 801
    assert "a line" not in path_of(open_workspace(here)).read_text()
    told(f"$ dreamd status\n…last read    …{one.how} (codex): version 0, {one.characters:,} characters…")
    told('$ dreamd bootstrap --agent "the heron nests in March"\n…')
    assert left(here)[0].agent == "other"


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (json.dumps({"hook_event_name": "SessionStart", "session_id": SESSION}), SESSION),
        (json.dumps({"session_id": "Ada's; words\n"}), ""),
        (json.dumps({"session_id": 7}), ""),
        ("[" * 50_000, ""),
        ("no JSON", ""),
        ("", ""),
    ],
)
def test_a_hook_is_told_the_session(here: Path, message: str, named: str) -> None:
    init_workspace(here)
    ended = process("bootstrap", str(here), "--format", "hook", stdin=message.encode())
    assert (ended.status, "notice" in ended.err) == (0, False)
    assert [(one.how, one.session) for one in left(here)] == [("hook", named)]


def test_receipts_are_listed_the_newest_first_the_last_ones_kept_and_no_agent_leaves_none(
    told: Transcript, here: Path
) -> None:
    told("$ dreamd status\n…last read    no agent has read it yet…")
    told("$ dreamd bootstrap --context-window 1000\n! …remembers nothing yet…")
    with LocalAccess(open_workspace(here), Config(), "test") as access:
        memory_bootstrap.run(access)
        memory_bootstrap.run(access, receipt="MCP", context_window=64_000)
        memory_bootstrap.run(access, receipt="none")
    assert [(one.how, one.budget) for one in left(here)[:2]] == [("MCP", 4_000), ("HTTP", 8_000)]
    path_of(open_workspace(here)).write_text(ROW * (KEPT + 50))
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        consolidate(store, utc_now())
    assert path_of(open_workspace(here)).read_text() == ROW * KEPT


def test_one_that_cannot_be_left_keeps_nothing_from_the_agent(told: Transcript, here: Path) -> None:
    (here / "MEMORY.md").write_text("- Ada prefers tea\n")
    path_of(open_workspace(here)).mkdir()
    told("$ dreamd bootstrap\n…\n- Ada prefers tea\n! notice: that this was given is not noted: …")
    with LocalAccess(open_workspace(here), Config(), "test") as access:
        assert memory_bootstrap.run(access).memory == "- Ada prefers tea\n"
        assert ["is not noted" in notice for notice in access.notices] == [True]


def test_a_forgetting_finds_in_receipts_only_what_somebody_put_there(told: Transcript, here: Path) -> None:
    told("""
        $ dreamd note Ada keeps characters and notes in a hook
        noted
        $ dreamd bootstrap --format hook
        …
    """)
    before = path_of(open_workspace(here)).read_bytes()
    told("$ dreamd forget characters --words --yes\nforgotten:…\n$ dreamd forget hook --words --yes\nforgotten:…")
    assert path_of(open_workspace(here)).read_bytes() == before
    with path_of(open_workspace(here)).open("a") as file:
        file.write('{"session": "the heron nests in March"}\n')
    told('$ dreamd forget "the heron nests in March" --yes\nforgotten:…')
    assert not path_of(open_workspace(here)).exists()


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
    ended = dreamd("bootstrap", here)
    assert (ended.status, ended.out) == (0, f"{head('')}\n\n- The project is a ledger.\n")
    if kind not in ("a file in its place", "binary"):
        assert ended.err.startswith("notice: the global workspace was left out: ")


@pytest.mark.parametrize("kind", ["fifo", "link", "garbage", "empty"])
def test_a_database_that_cannot_be_read_keeps_nothing_from_the_agent(told: Transcript, here: Path, kind: str) -> None:
    (here / "MEMORY.md").write_text("- The project is a ledger.\n")
    database = open_workspace(here).database
    if kind == "fifo":
        os.mkfifo(database)
    elif kind == "link":
        database.symlink_to("/dev/zero")
    else:
        database.write_bytes(b"garbage" * 1_000 if kind == "garbage" else b"")
    told("""
        $ dreamd note Ada moved to Berlin
        noted
        $ dreamd bootstrap
        …The project is a ledger.…Ada moved to Berlin…
    """)


def test_a_person_is_told_of_one_thing_the_most_urgent(told: Transcript, here: Path) -> None:
    told("$ dreamd note Ada moved to Berlin\nnoted")
    now = datetime.now(UTC)
    wait = "[dreamd: notes wait 3 days for a dream: dreamd dream]"
    assert (attention(here, now), attention(here, now + timedelta(days=3, hours=1))) == ("", wait)
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        for seconds, (outcome, said) in enumerate(
            {
                "failed": "[dreamd: the last dream failed: dreamd status]",
                "rejected": "[dreamd: the last dream was refused: dreamd status]",
                "committed": "",
            }.items()
        ):
            store.ledger.begin(outcome, "manual", now + timedelta(seconds=seconds))
            store.ledger.end(outcome, outcome, "model: no answer about tea", now)
            assert attention(here, now) == said
        assert "1 day for" in attention(here, now + timedelta(days=1, hours=1))
        store.ledger.skip("d", "interval", "nothing new", now + timedelta(seconds=3))
        assert attention(here, now) == ""
        Proposals(store.connection).add("d", [PROPOSED], now)
        assert attention(here, now) == "[dreamd: 1 change waits for the owner: dreamd review]"
        Proposals(store.connection).add("d", [PROPOSED], now)
    assert attention(here, now + timedelta(days=9)) == "[dreamd: 2 changes wait for the owner: dreamd review]"
    told("$ dreamd bootstrap\n…\n[dreamd: 2 changes wait for the owner: dreamd review]")


def test_what_waits_in_the_global_workspace_is_told_in_every_project(here: Path, everywhere: Workspace) -> None:
    with open_exclusive(everywhere, Config(), "test") as store:
        Proposals(store.connection).add("d", [PROPOSED], NOW)
    assert attention(here, NOW) == "[dreamd: 1 change waits for the owner: dreamd review --global]"
    assert attention(everywhere.root, NOW) == "[dreamd: 1 change waits for the owner: dreamd review]"


def test_a_dream_leaves_room_for_what_is_true_everywhere(here: Path, everywhere: Workspace) -> None:
    everywhere.document.write_text("## The Bond\n\n" + "- Ada likes tea in the morning.\n- Ada reads.\n" * 99)
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        budget = standing_lines(store, NOW).budget
    assert 7_800 < budget < 8_000
    text = "- Ada paints the wall of the harbour.\n".ljust(budget - len(head("")) - 3, "x") + "\n"
    assert length_given(text) <= budget + len(" as of 2026-01-01,")
    (here / "MEMORY.md").write_text(text)
    given = session(open_workspace(here), 200_000, None, DEFAULT, NOW).ready
    assert (given.truncated, len(given.text)) == (False, 8_000)


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
        …"text": "the token is [redacted: github token]", "crystal": "pending"}
        $ piping "Grüße 東京 🍵\\nzweite Zeile\\n\udcff" | dreamd note - --json
        {"at": "…Z", "importance": 0.7, "text": "Grüße 東京 🍵\\nzweite Zeile\\n\\\\udcff", "crystal": "pending"}
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
        len(told(f"$ {words}\n…", config=tmp_path / "c.yaml").out)
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
