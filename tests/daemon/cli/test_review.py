"""`dreamd review`: what waits is shown and decided by number, by section, or in an editor."""

import re
import shlex
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from daemon.api.operations.review import ChangeToReview
from hypothesis import given
from hypothesis import strategies as st

from daemon.cli.review import read_todo as read
from daemon.journal.crystal import Evidence
from daemon.workspace.adoption import open_workspace
from state.document.operations import Action
from state.document.sections import SectionName
from state.dream import Decision
from state.errors import NothingToDoError, UsageError
from tests.support.revising import revises
from tests.support.running import Caller, Ended, process
from tests.support.transcript import Transcript

AT = datetime(2026, 3, 12, tzinfo=UTC)
TEA, COFFEE = "Ada prefers tea in the morning", "Ada prefers coffee in the morning"
SHORT, LONG = "Ada likes short answers of one line", "Ada likes short answers of three lines"


def change(number: int = 3, old: tuple[str, ...] = (TEA,), new: str = COFFEE, **more: object) -> ChangeToReview:
    fields: dict[str, object] = {
        "number": number,
        "decision": Decision.WAITING,
        "action": Action.REVISE,
        "section": SectionName.BOND,
        "old": old,
        "new": new,
        "evidence": (Evidence("", "Coffee from now on", trust="agent", speaker="Ada", at=AT),),
        "why": "dream.approve.sections.The Bond: ask",
        "dream": "20260312T143000Z",
        "at": AT,
        "until": AT,
        "outdated": False,
    }
    return ChangeToReview(**(fields | more))  # type: ignore[arg-type]


CHANGES = (change(3), change(4), change(5, ("The old desk",), "", action=Action.EVICT))


# ------------------------------------------------------------ the text to edit


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("aprove 3 x", "'aprove' is no decision"),
        ("approve", "there is no change ''"),
        ("approve three", "there is no change 'three'"),
        ("approve 8 x", "there is no change '8'"),
        (f"approve {'9' * 5_000} x", "there is no change '999"),
        (f"approve 3 {COFFEE}\ndecline 3 {COFFEE}", "line 2: change 3 stands there twice"),
        ("approve 3", "cannot have this text; write one, or decline it"),
        ("approve 5 another text", "cannot have this text"),
        (f"decline 3 {COFFEE}!", "cannot have this text"),
    ],
)
def test_a_text_that_cannot_be_read_names_its_line(row: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(row, CHANGES)
    assert str(refused.value).startswith("line ")
    assert problem in str(refused.value)


@given(st.text(max_size=200))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        fields = read(text, CHANGES)
    except (UsageError, NothingToDoError):
        return
    assert {number for field in ("approve", "decline", "accept", "undo") for number in fields[field]} <= {3, 4, 5}


# ------------------------------------------------------------ the command


@pytest.fixture
def waits(told: Transcript, monkeypatch: pytest.MonkeyPatch) -> Transcript:
    """Two changes of The Bond wait."""
    monkeypatch.setenv("DREAMD_DREAM__APPROVE", '{"sections": {"The Bond": "ask"}}')
    assert "2 changes wait for you: 'dreamd review'" in changed_by_a_model(told)
    return told


@pytest.fixture
def applied(told: Transcript) -> Transcript:
    """Two changes have applied: nobody is asked."""
    assert "for you" not in changed_by_a_model(told)
    return told


def changed_by_a_model(told: Transcript) -> str:
    """What the second of two dreams prints, whose model revises the lines of the first."""
    with revises({COFFEE: TEA, LONG: SHORT}):
        for one, other in ((TEA, SHORT), (COFFEE, LONG)):
            ended = told(f"$ dreamd note {one}\nnoted\n$ dreamd note {other}\nnoted\n$ dreamd dream\n…")
    return ended.out


def bond(here: Path) -> set[str]:
    text = (here / "MEMORY.md").read_text(encoding="utf-8")
    return {line for line in (TEA, COFFEE, SHORT, LONG) if line in text}


def test_what_waits_is_shown_and_decided_by_number_and_a_decision_is_taken_back(
    waits: Transcript, here: Path
) -> None:
    waits("""
        $ dreamd review
        1  revise · The Bond · waits until …
        - Ada …
        + Ada …
        agent, …
        dream.approve.sections.The Bond: ask
        2  revise · The Bond · waits until …
        'dreamd review --approve 1 2' or --decline decides; …
        $ dreamd status
        …review       2 changes wait; 'dreamd review' shows them
        $ dreamd review --approve
        ! dreamd: 2 wait (1, 2); name some, or a --section, or --all
        [2]
        $ dreamd review --undo 1
        ! dreamd: …
        [2]
        $ dreamd review --accept --all
        ! dreamd: there is nothing to accept; …
        [3]
        $ dreamd review --approve 1 99
        ! dreamd: no change '99' waits; …
        [1]
        $ dreamd review --approve --section "Active Context"
        ! dreamd: no change waits in 'Active Context'; …
        [3]
        $ dreamd review --approve 1
        change 1 is approved: version 3
        $ dreamd review --decline 2 --json
        …"declined": [
        2
        ],…
        $ dreamd review
        ! dreamd: nothing waits for you; dream.approve and dream.mode say what does
        [3]
        $ dreamd review --approve 1
        ! dreamd: no change '1' waits; …
        [1]
        $ dreamd review --reopen 2
        change 2 is open again
        $ dreamd review --reopen 2
        ! dreamd: …only what was declined or accepted is reopened
        [2]
        $ dreamd review --reopen 99
        ! dreamd: no change 99 is known…
        [1]
        $ dreamd review --reopen 20260101
        ! dreamd: name the changes to reopen by their numbers; 'dreamd review --reopen 3'
        [2]
    """)
    assert len(bond(here)) == 2


def test_what_waits_comes_before_what_applied_whatever_its_number(waits: Transcript, here: Path) -> None:
    with closing(sqlite3.connect(open_workspace(here).database)) as connection, connection:
        connection.execute("UPDATE changes SET decision = 'applied' WHERE number = 1")
    waits("""
        $ dreamd review
        2  revise · The Bond · waits until …
        1  revise · The Bond · applied
        …
    """)


def test_a_whole_section_and_all_of_them_are_one_version(waits: Transcript, here: Path) -> None:
    waits("""
        $ dreamd review --approve --section "the bond"
        changes 1 and 2 are approved: version 3
    """)
    assert bond(here) == {COFFEE, LONG}
    waits("$ dreamd restore 2\nrestored, as version 4; …")
    assert bond(here) == {TEA, SHORT}
    waits("$ dreamd review --approve --all\nchanges …")
    assert bond(here) == {COFFEE, LONG}


def test_what_applied_is_shown_and_undone_or_accepted(applied: Transcript, here: Path) -> None:
    assert bond(here) == {COFFEE, LONG}
    assert "dreamd review" not in applied("$ dreamd status\n…").out  # nobody has to look
    applied("""
        $ dreamd review
        <one>  revise · The Bond · applied
        …
        <two>  revise · The Bond · applied
        …
        'dreamd review --undo 1 2' brings the old text back, …
        $ dreamd review --approve <one>
        ! dreamd: …
        [2]
        $ dreamd review --undo <one>
        change <one> is undone: version 3
        $ dreamd review --accept <two>
        change <two> is accepted
        $ dreamd review
        ! dreamd: nothing waits for you; …
        [3]
        $ dreamd review --reopen <two>
        change <two> is open again
        $ dreamd review --undo --all
        change <two> is undone: version 4
    """)
    assert bond(here) == {TEA, SHORT}


# ------------------------------------------------------------ the editor, in a real process


def edited(here: Path, folder: Path, script: str) -> Ended:
    """`review --edit` with an editor that is this script; "$1" is the file."""
    editor = folder / "my editor"
    editor.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    editor.chmod(0o755)
    return process("review", "--edit", "-w", here, EDITOR=shlex.quote(str(editor)))


def kept(here: Path) -> list[Path]:
    return sorted(open_workspace(here).state.glob("review-*"))


def numbers(dreamd: Caller, here: Path) -> list[int]:
    ended = dreamd("review", "-w", here, "--json")
    return [one["number"] for one in ended.json["changes"]] if ended.status == 0 else []


@pytest.mark.usefixtures("waits")
def test_an_editor_decides_line_by_line_and_may_write_other_words(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    cocoa = f"s/^skip \\([0-9]*\\) {COFFEE}/approve \\1 Ada prefers cocoa/"
    script = f"""sed -i '{cocoa}; s/^skip \\([0-9]*\\) Ada likes/decline \\1 Ada likes/' "$1" """
    ended = edited(here, tmp_path, script)
    assert ended.status == 0, ended.err
    text = (here / "MEMORY.md").read_text(encoding="utf-8")
    assert "Ada prefers cocoa" in text
    assert SHORT in text
    assert (numbers(dreamd, here), kept(here)) == ([], [])


@pytest.mark.usefixtures("waits")
def test_an_editor_that_leaves_nothing_changes_nothing(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    before = (here / "MEMORY.md").read_bytes()
    for script in ("true", ': > "$1"', 'rm "$1"', "exit 3", "kill -9 $$"):
        ended = edited(here, tmp_path, script)
        assert (ended.status in {2, 3}, "nothing has changed" in ended.err) == (True, True)
    ended = process("review", "--edit", "-w", here, EDITOR="/nonexistent/editor")
    assert (ended.status, "set VISUAL or EDITOR" in ended.err) == (2, True)
    assert (here / "MEMORY.md").read_bytes() == before
    assert (len(numbers(dreamd, here)), kept(here)) == (2, [])


@pytest.mark.usefixtures("waits")
def test_a_text_that_cannot_be_read_changes_nothing_and_is_kept(dreamd: Caller, here: Path, tmp_path: Path) -> None:
    assert edited(here, tmp_path, """printf 'approve \\377' > "$1" """).status == 2
    kept(here)[0].unlink()
    ended = edited(here, tmp_path, """sed -i 's/^skip \\([0-9]*\\) Ada/aprove \\1 Oh, Ada/' "$1" """)
    assert ended.status == 2
    assert "'aprove' is no decision" in ended.err
    assert len(numbers(dreamd, here)) == 2
    (file,) = kept(here)
    assert str(file) in ended.err
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(file.read_text(encoding="utf-8").replace("aprove", "approve"), encoding="utf-8")
    assert process("review", "--from", file, "-w", here).status == 0
    assert (here / "MEMORY.md").read_text(encoding="utf-8").count("Oh, Ada") == 2


# ------------------------------------------------------------ a line that was never true


def test_a_wrong_line_is_named_by_its_id_or_its_text_and_goes_or_says_what_is_right(told: Transcript) -> None:
    told(
        """
        $ dreamd note Ada prefers tea in the morning
        noted
        $ dreamd note Ada lives in a flat in Porto
        noted
        $ dreamd note Ada lives in Porto since May
        noted
        $ dreamd dream
        version 1…
        $ dreamd wrong lives in
        ! dreamd: 2 lines have 'lives in': …give an id…
        [2]
        $ dreamd wrong PREFERS  tea --right 'Ada prefers coffee in the morning'
        wrong: Ada prefers tea in the morning
        right: Ada prefers coffee in the morning
        version 2
        $ dreamd wrong prefers tea
        ! dreamd: no line of MEMORY.md has 'prefers tea'…
        [1]
        """
    )
    (flat,) = re.findall(r"(L\d+)  Active Context: Ada lives in a flat", told("$ dreamd why a flat in Porto\n…").out)
    assert told(f"$ dreamd wrong {flat.lower()} --json\n…").json["version"] == 3
    told("$ dreamd dream\n! …nothing new…\n[3]")
    memory = (told.here / "MEMORY.md").read_text()
    assert [text in memory for text in (TEA, COFFEE, "a flat", "since May")] == [False, True, False, True]
