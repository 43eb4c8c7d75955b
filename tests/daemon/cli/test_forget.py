"""`dreamd forget` as it is called."""

import io
import sys
from pathlib import Path

import pytest

from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from state.dream import Reason
from state.stores.disk.workspace import Workspace
from tests.support.forgettable import assert_gone, copied, note, quick
from tests.support.running import Caller

SECRET = "the launch crew is 7731 blue"
KEPT = "Ada prefers tea over coffee in the morning"


class Person(io.StringIO):
    """A terminal at which this is typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A line of MEMORY.md, a crystal with other sentences, and a note that waits."""
    workspace = init_workspace(tmp_path_factory.mktemp("prepared") / "w")
    with quick(workspace) as store:
        note(store, f"{KEPT}. And {SECRET}.", "The staging server listens on port 8080")
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        note(store, f"It waits: {SECRET}")
    return workspace


@pytest.fixture
def here(prepared: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    workspace = copied(prepared, tmp_path / "here")
    monkeypatch.setenv("DREAMD_WORKSPACE", str(workspace.root))
    return workspace


def test_it_prints_a_receipt_without_the_text(dreamd: Caller, here: Workspace) -> None:
    ended = dreamd("forget", SECRET, "--yes")
    assert (ended.status, SECRET in ended.out + ended.err) == (0, False)
    for said in (
        "forgotten:",
        "  MEMORY.md: 1",
        "state.db: versions: 1",
        "state.db: crystals: ",
        "nothing of it is left",
    ):
        assert said in ended.out
    assert_gone(here, SECRET)
    assert any(KEPT in hit["text"] for hit in dreamd("search", KEPT, "--json").json["hits"])
    assert dreamd("forget", SECRET, "--yes").out.startswith("it was nowhere; it will not be learnt")


def test_as_json_it_is_the_receipt(dreamd: Caller, here: Workspace) -> None:
    receipt = dreamd("forget", SECRET, "--yes", "--json", "--words")
    assert receipt.json["clean"] is True
    assert receipt.json["cut"] == "words"
    assert {trace["place"] for trace in receipt.json["traces"]} >= {
        "MEMORY.md",
        "state.db: versions",
        "memory/scratch.md",
    }
    assert "[forgotten]" in here.document.read_text(encoding="utf-8")


def test_at_a_terminal_the_question_is_no_part_of_the_json(
    dreamd: Caller, here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Person("y\n"))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ended = dreamd("forget", SECRET, "--json", "-w", here.root)
    assert ended.json["clean"] is True
    assert f"would go:\n  1. {KEPT}. And {SECRET}." in ended.err


def test_at_a_terminal_the_numbers_of_those_that_stay_are_an_answer(
    dreamd: Caller, here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = dreamd("forget", SECRET, "--dry-run", "--json").json["texts"]
    assert [said["text"] for said in listed] == [f"{KEPT}. And {SECRET}.", f"It waits: {SECRET}"]
    assert {place["kind"] for place in listed[0]["places"]} == {"line", "crystal"}
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for answer in ("n\n", "3\n", "0\n", "\n", "some\n"):
        monkeypatch.setattr("sys.stdin", Person(answer))
        assert dreamd("forget", SECRET).status == 2, answer
    monkeypatch.setattr("sys.stdin", Person("2\n"))
    assert dreamd("forget", SECRET).status == 0
    assert SECRET not in here.document.read_text(encoding="utf-8")
    assert f"It waits: {SECRET}" in here.scratch.read_text(encoding="utf-8")


def test_what_is_excepted_by_an_id_stays(dreamd: Caller, here: Workspace) -> None:
    line, waiting = dreamd("forget", SECRET, "--dry-run", "--json").json["texts"]
    refused = dreamd("forget", SECRET, "--yes", "--except", "L999")
    assert (refused.status, "L999: no text of this id would go" in refused.err) == (2, True)
    ended = dreamd("forget", SECRET, "--yes", "--except", line["places"][0]["id"])
    assert (ended.status, "nothing of it is left" in ended.out) == (0, True)
    assert "it will not be learnt again, but for what 1 kept text may say" in ended.out
    assert SECRET in here.document.read_text(encoding="utf-8")
    assert_gone(here, waiting["text"])


def test_a_dry_run_shows_what_would_go(dreamd: Caller, here: Workspace) -> None:
    before = here.document.read_bytes()
    ended = dreamd("forget", SECRET, "--dry-run")
    assert ended.status == 0
    assert ended.out.startswith(f"would go:\n  1. {KEPT}. And {SECRET}.\n     line L")
    assert f"  2. It waits: {SECRET}\n     note " in ended.out
    assert here.document.read_bytes() == before


def test_off_a_terminal_it_wants_a_yes(dreamd: Caller, here: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    ended = dreamd("forget", SECRET)
    assert (ended.status, ended.out) == (2, "")
    assert "--yes" in ended.err
    assert SECRET in here.document.read_text(encoding="utf-8")


def test_the_text_may_come_from_stdin(dreamd: Caller, here: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{SECRET}\n"))
    assert dreamd("forget", "-", "--yes").status == 0
    assert_gone(here, SECRET)


def test_something_left_is_status_one_and_the_receipt_is_printed(dreamd: Caller, here: Workspace) -> None:
    (here.state / "odd.bin").write_bytes(
        SECRET.translate(str.maketrans("aeo", "аео")).encode("utf-16-le")
    )  # Cyrillic
    ended = dreamd("forget", SECRET, "--yes")
    assert ended.status == 1
    assert "some of it is left" in ended.out
    assert "/odd.bin: 1" in ended.err


def test_lifting_lets_it_be_learnt_again(dreamd: Caller, here: Workspace) -> None:
    assert dreamd("forget", SECRET, "--yes").status == 0
    assert dreamd("forget", SECRET, "--lift").out == "it may be learnt again\n"
    assert dreamd("forget", SECRET, "--lift").out == "it was not forgotten; nothing was changed\n"
    assert dreamd("note", SECRET).status == 0
    assert dreamd("dream").status == 0
    assert SECRET in here.document.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--yes",), "what is to be forgotten?"),
        (("  ", "--yes"), "the text is empty"),
        (("…", "--yes"), "at least one word"),
        (("word " * 20_001, "--yes"), "TEXT|ID: string should have at most 80000 characters"),
        (("x", "--lift", "--words"), "--lift takes no --words"),
        (("--lift",), "which text?"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    dreamd: Caller, here: Workspace, words: tuple[str, ...], said: str
) -> None:
    ended = dreamd("forget", *words)
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
