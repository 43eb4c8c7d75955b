"""Forgetting: what was remembered of a text is nowhere afterwards, and everything else is where it was."""

import os
import sqlite3
from pathlib import Path

import pytest

from daemon.dream.run import Mode, dream_now
from daemon.upkeep.examine import Level, check_stores
from daemon.upkeep.forget import Receipt, forget, preview_forget, unforget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import utc_now
from state.document.document import parse
from state.dream import Reason
from state.forgetting.cutting import Cut
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace
from tests.support.copies import all_files
from tests.support.forgettable import (
    BY_HAND,
    KEPT,
    SECRET,
    assert_gone,
    assert_sound,
    bytes_with,
    copied,
    finds,
    forgotten,
    little,
    lived,
    note,
    opened,
    quick,
)
from tests.support.lived import versions


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return lived(tmp_path_factory.mktemp("rich") / "w")


@pytest.fixture(scope="module")
def plain_one(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return little(tmp_path_factory.mktemp("plain") / "w", SECRET)


def forget_quickly(workspace: Workspace, text: str, cut: Cut = Cut.SENTENCES) -> Receipt:
    with quick(workspace) as store:
        return forget(store, ForgetRequest(text, cut), utc_now())


def content(workspace: Workspace) -> dict[str, bytes]:
    """The bytes of every file but those that a mere opening writes."""
    return {
        name: path.read_bytes()
        for name, path in all_files(workspace).items()
        if path.name not in ("lock", "fence", "state.db-wal", "state.db-shm")
    }


def rows(workspace: Workspace) -> list[str]:
    with sqlite3.connect(workspace.database) as connection:
        return list(connection.iterdump())


def test_it_stands_everywhere_before(rich: Workspace) -> None:
    places = bytes_with(rich, SECRET)
    for wanted in (
        "MEMORY.md",
        "MEMORY.md.seed-backup",
        "memory/scratch.md",
        ".dreamd/state.db",
        ".dreamd/checkpoints/dreams.db",
        ".dreamd/state.db.broken",
    ):
        assert wanted in places
    assert any(place.startswith("memory/.scratch.md.") for place in places)
    assert any(place.startswith(".dreamd/inbox.") for place in places)
    with sqlite3.connect(rich.database) as connection:
        told = list(connection.iterdump())
    told += [f'INSERT INTO "versions" {row["text"]}' for row in versions(rich)]
    for table in "crystals lines versions items changes dreams sessions calls".split():
        assert any(row.startswith(f'INSERT INTO "{table}"') and SECRET[:40] in row for row in told), table


@pytest.mark.parametrize("cut", list(Cut))
def test_afterwards_it_is_nowhere_and_everything_else_is_there(rich: Workspace, tmp_path: Path, cut: Cut) -> None:
    workspace = copied(rich, tmp_path / "w")
    receipt = forgotten(workspace, cut=cut)
    assert bytes_with(workspace, SECRET) == []
    assert bytes_with(workspace, "7731 blue") == []
    assert bytes_with(workspace, "Falconer") == []
    assert (receipt.clean, receipt.went_on) == (True, False)
    assert [(one.place, one.owners) for one in receipt.left] == [("talk.jsonl", True)]
    assert receipt.files > 10
    assert {"MEMORY.md", "checkpoints", "state.db: versions", "state.db: crystals"} <= {
        trace.place for trace in receipt.traces
    }
    assert SECRET not in str(receipt)
    assert ("[forgotten]" in workspace.document.read_text(encoding="utf-8")) is (cut is Cut.WORDS)
    assert_sound(workspace)
    assert bytes_with(workspace, SECRET) == []


def test_a_dry_run_says_what_would_go_and_changes_nothing(rich: Workspace, tmp_path: Path) -> None:
    workspace = copied(rich, tmp_path / "w")
    with opened(workspace):
        pass
    before, told = content(workspace), rows(workspace)
    with opened(workspace) as store:
        receipt = preview_forget(store, ForgetRequest(SECRET), utc_now())
    assert (content(workspace), rows(workspace)) == (before, told)
    assert f"Also {SECRET}" in [said.text for said in receipt.texts]
    assert {place.kind for said in receipt.texts for place in said.places} == {"line", "note", "crystal", "memory"}
    done = forgotten(workspace)
    # A rehearsal does not end the dream that was cut off, and the log's word of it is another one.
    assert {trace.place for trace in receipt.traces} == {trace.place for trace in done.traces}
    assert receipt.crystals == done.crystals


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        pytest.param("Falconer", Cut.SENTENCES, id="one word"),
        pytest.param("İstanbul straße Nº 7731", Cut.WORDS, id="folded"),
        pytest.param("İSTANBUL Çağla e\u0301te\u0301 naïve", Cut.SENTENCES, id="marks"),
        pytest.param("暗号は青い七七三一です", Cut.SENTENCES, id="unspaced"),
        pytest.param("비밀번호는 파란색", Cut.WORDS, id="hangul"),
        pytest.param('say "the code" is C:\\new\\7731 and \\u0041 {"a": 1}', Cut.WORDS, id="escapes"),
        pytest.param("the code\nstands on\nthree lines of it", Cut.SENTENCES, id="lines"),
        pytest.param("🦅 falconer’s “quoted” code — 7731", Cut.SENTENCES, id="signs"),
    ],
)
def test_any_text_can_be_forgotten(tmp_path: Path, text: str, cut: Cut) -> None:
    workspace = little(tmp_path / "w", text)
    receipt = forget_quickly(workspace, text, cut)
    for row in text.split("\n"):
        assert_gone(workspace, row)
    assert receipt.clean, receipt.left
    assert [one.place for one in receipt.left] == ["talk.md"]
    document = parse(workspace.document.read_text(encoding="utf-8"))
    assert BY_HAND in [block.text for _, block in document.lines()]
    with quick(workspace) as store:
        assert [one for one in check_stores(store) if one.level is Level.PROBLEM] == []
        for line in KEPT:
            assert any(line in one for one in finds(store, line)), line


class Saving(System):
    """The owner saves in the instant of the swap."""

    def __init__(self, document: Path) -> None:
        self.document = document
        self.saves = 1

    def exchange(self, one: Path, other: Path, /) -> None:
        if self.saves:
            self.saves -= 1
            text = self.document.read_text(encoding="utf-8")
            self.document.write_text(
                text.replace("## The Bond\n", "## The Bond\n- Saved just now\n"), encoding="utf-8"
            )
        super().exchange(one, other)

    def fsync(self, fd: int) -> None: ...


def test_a_save_in_the_instant_of_the_swap_is_kept(plain_one: Workspace, tmp_path: Path) -> None:
    workspace = copied(plain_one, tmp_path / "w")
    with quick(workspace, Saving(workspace.document)) as store:
        forget(store, ForgetRequest(SECRET), utc_now())
    assert "Saved just now" in workspace.document.read_text(encoding="utf-8")
    assert_gone(workspace, SECRET)


def test_what_the_owner_keeps_is_named_and_never_touched(plain_one: Workspace, tmp_path: Path) -> None:
    workspace = copied(plain_one, tmp_path / "w")
    workspace.genome.write_text(f"- Never say that {SECRET}\n", encoding="utf-8")
    talk = workspace.root / "memory" / "talk.txt"
    talk.write_text(SECRET.upper(), encoding="utf-8")
    receipt = forget_quickly(workspace, SECRET)
    assert receipt.clean
    assert {one.place for one in receipt.left if one.owners} >= {"GENOME.md", "memory/talk.txt"}
    assert SECRET in workspace.genome.read_text(encoding="utf-8")
    assert talk.read_text(encoding="utf-8") == SECRET.upper()


def test_a_page_of_the_database_that_keeps_it_is_found(plain_one: Workspace, tmp_path: Path) -> None:
    """The search does not rest on what was done before it: bytes behind the last page are found as well."""
    from daemon.upkeep.forget_proof import searched
    from state.forgetting.known import Target
    from state.stores.erasing.tables import planned

    workspace = copied(plain_one, tmp_path / "w")
    forget_quickly(workspace, SECRET)
    with quick(workspace) as store:
        erasure = planned(store.crystals.connection, (Target.of(SECRET),), Cut.SENTENCES)
        assert all(one.owners for one in searched(store, erasure, ()).left)
        with workspace.database.open("ab") as file:
            file.write(b"\0" * 100 + SECRET.upper().encode() + b"\0" * (4096 - 100 - len(SECRET)))
        assert [one.place for one in searched(store, erasure, ()).left if not one.owners] == ["state.db"]
        os.truncate(workspace.database, workspace.database.stat().st_size - 4096)


def test_a_forgotten_text_can_be_learnt_again_when_the_owner_says_so(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "w")
    with quick(workspace) as store:
        note(store, SECRET)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
    forget_quickly(workspace, SECRET)
    with quick(workspace) as store:
        note(store, SECRET, "The bicycle of house 2 was sold")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert finds(store, SECRET) == ["The bicycle of house 2 was sold"] or finds(store, "falconer") == []
        assert unforget(store, SECRET, utc_now()).lifted
        assert not unforget(store, SECRET, utc_now()).lifted
        note(store, SECRET)
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert SECRET in finds(store, "falconer")
