"""Each time that an agent is given the memory leaves a receipt, which every window shows."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.api.access import LocalAccess
from daemon.api.operations.search import Bootstraps, last_bootstraps, memory_bootstrap
from daemon.config.settings import Config
from daemon.dream.consolidation import consolidate
from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from state.reading import GREETING
from state.stores.history.bootstraps import KEPT, BootstrapReceipt, path_of, receipts
from tests.support.running import Caller, process

SESSION = "0193f2a1-77aa-7bbb-8ccc-0123456789ab"
ROW = (
    '{"at": "2026-03-12T14:30:00Z", "how": "MCP", "session": "", "version": 1, "characters": 9, "budget": 9,'
    ' "notes": 1, "left_out": 0, "more": false, "truncated": false}\n'
)


def left(root: Path) -> list[BootstrapReceipt]:
    return list(receipts(open_workspace(root)))


def asked(root: Path, **fields: object) -> None:
    with LocalAccess(open_workspace(root), Config(), "test") as access:
        memory_bootstrap.answer(access, memory_bootstrap.request.model_validate(fields))


@pytest.mark.parametrize("form", ["md", "json", "hook"])
def test_every_form_leaves_one_that_says_what_was_given(dreamd: Caller, here: Path, form: str) -> None:
    (here / "MEMORY.md").write_text("- Ada prefers tea\n" * 1_000)
    dreamd("note", "-w", here, "Ada moved to Berlin")
    before = datetime.now(UTC).replace(microsecond=0)
    given = dreamd("bootstrap", here, "--format", form)
    assert (given.status, given.err) == (0, "")
    (one,) = left(here)
    assert one.at >= before
    assert one.how == ("hook" if form == "hook" else "command line")
    assert (one.session, one.version, one.notes, one.left_out, one.truncated) == ("", 0, 1, 0, True)
    assert one.budget == 8_000
    if form == "md":
        assert one.characters == len(given.out)
    assert "tea" not in path_of(open_workspace(here)).read_text()


@pytest.mark.parametrize(
    ("message", "session"),
    [
        (json.dumps({"hook_event_name": "SessionStart", "session_id": SESSION}), SESSION),
        (json.dumps({"session_id": "Ada's; words\n"}), ""),
        (json.dumps({"session_id": 7}), ""),
        ("[" * 50_000, ""),
        ("no JSON", ""),
        ("", ""),
    ],
)
def test_a_hook_is_told_the_session(here: Path, message: str, session: str) -> None:
    ended = process("bootstrap", str(here), "--format", "hook", stdin=message.encode())
    assert ended.status == 0
    assert "notice" not in ended.err
    assert [(one.how, one.session) for one in left(here)] == [("hook", session)]


def test_the_operation_leaves_one_unless_no_agent_gets_it(here: Path) -> None:
    asked(here)
    asked(here, receipt="MCP", context_window=1_000)
    asked(here, receipt="none")
    assert [(one.how, one.budget) for one in left(here)] == [("MCP", 3_200), ("HTTP", 8_000)]


def test_they_are_listed_the_newest_first_and_the_status_has_the_newest(dreamd: Caller, here: Path) -> None:
    assert dreamd("status", here, "--json").json["last_bootstrap"] is None
    assert "bootstrap    no agent has read it yet" in dreamd("status", here).out
    for window in (1_000, 64_000, 200_000):
        dreamd("bootstrap", here, "--context-window", window)
    with LocalAccess(open_workspace(here), Config(), "test") as access:
        found = last_bootstraps.run(access, limit=2)
    assert found == Bootstraps(tuple(left(here)[:2]), 1)
    assert [one.budget for one in found.receipts] == [8_000, 4_000]
    assert dreamd("status", here, "--json").json["last_bootstrap"]["budget"] == 8_000
    assert ", command line: version 0, 0 characters, no notes\n" in dreamd("status", here).out


def test_one_that_cannot_be_left_keeps_nothing_from_the_agent(dreamd: Caller, here: Path) -> None:
    (here / "MEMORY.md").write_text("- Ada prefers tea\n")
    path_of(open_workspace(here)).mkdir()
    ended = dreamd("bootstrap", here)
    assert (ended.status, ended.out) == (0, f"{GREETING}\n\n- Ada prefers tea\n")
    assert ended.err.startswith("notice: that this was given is not noted: ")
    with LocalAccess(open_workspace(here), Config(), "test") as access:
        assert memory_bootstrap.run(access).memory == "- Ada prefers tea\n"
        assert ["is not noted" in notice for notice in access.notices] == [True]


def test_a_pass_keeps_the_last_ones(here: Path) -> None:
    path_of(open_workspace(here)).write_text(ROW * (KEPT + 50))
    with open_exclusive(open_workspace(here), Config(), "test") as store:
        consolidate(store, utc_now())
    assert path_of(open_workspace(here)).read_text() == ROW * KEPT


def test_a_forgetting_finds_nothing_in_them_and_leaves_them(dreamd: Caller, here: Path) -> None:
    dreamd("note", "-w", here, "Ada keeps characters and notes in a hook")
    dreamd("bootstrap", here, "--format", "hook")
    before = path_of(open_workspace(here)).read_bytes()
    for word in ("characters", "hook"):
        ended = dreamd("forget", word, "-w", here, "--words", "--yes")
        assert ended.status == 0, ended.out + ended.err
    assert path_of(open_workspace(here)).read_bytes() == before


def test_words_that_somebody_put_among_them_are_forgotten(dreamd: Caller, here: Path) -> None:
    dreamd("bootstrap", here)
    with path_of(open_workspace(here)).open("a") as file:
        file.write('{"session": "the heron nests in March"}\n')
    assert dreamd("forget", "the heron nests in March", "-w", here, "--yes").status == 0
    assert "heron" not in path_of(open_workspace(here)).read_text()
