"""`dreamd review`: what waits is shown side by side and decided by number, by section, or in an editor."""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.api.operations.changes import ChangeToReview, SaidBy
from daemon.cli.review_todo import KEEP, read, written
from daemon.cli.review_view import marked, rows_of, side_by_side
from daemon.workspace.adoption import open_workspace
from state.document.document import SectionName
from state.document.operations import Action
from state.dream import Decision
from state.errors import UsageError
from state.trust import Trust
from tests.support.revising import revises
from tests.support.running import Caller, Ended, process

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
        "evidence": (SaidBy("Coffee from now on", Trust.AGENT, AT, "Ada"),),
        "why": "dream.approve.sections.The Bond: ask",
        "dream": "20260312T143000Z",
        "at": AT,
        "until": AT,
        "outdated": False,
    }
    return ChangeToReview(**(fields | more))  # type: ignore[arg-type]


LEAVES = change(5, ("The old desk",), "", action=Action.EVICT)
APPLIED = change(7, decision=Decision.APPLIED)


# ------------------------------------------------------------ the view


def test_the_words_that_changed_are_marked_and_nothing_else_is() -> None:
    assert marked(TEA, COFFEE) == ("Ada prefers [-tea-] in the morning", "Ada prefers {+coffee+} in the morning")
    assert marked("", "new") == ("", "{+new+}")
    assert marked("他住在北京", "他住在上海") == ("他住在[-北京-]", "他住在{+上海+}")


@given(st.text("ab 京。", max_size=30), st.text("ab 京。", max_size=30))
def test_without_its_marks_each_column_is_its_text(old: str, new: str) -> None:
    left, right = marked(old, new)
    assert re.sub(r"\[-|-\]", "", left) == old
    assert re.sub(r"\{\+|\+\}", "", right) == new


@given(st.text("ab 京", max_size=80), st.text("ab 京", max_size=80), st.integers(10, 120))
def test_two_columns_keep_every_character(old: str, new: str, width: int) -> None:
    rows = side_by_side(old, new, width)
    shown = "".join(rows)
    assert sorted(re.sub(r"[\s│+-]", "", shown)) == sorted(re.sub(r"\s", "", old + new))
    assert all(len(row) <= width for row in rows if "│" in row)


def test_a_change_is_shown_with_who_said_what_and_why_it_waits() -> None:
    shown = "\n".join(row for row, _ in rows_of(change(outdated=True), 100))
    for part in (
        "3  revise · The Bond · waits until 2026-03-12",
        "[-tea-]",
        "{+coffee+}",
        "no longer what they were",
    ):
        assert part in shown
    assert "agent (Ada), 2026-03-12: Coffee from now on" in shown
    assert "dream.approve.sections.The Bond: ask" in shown
    assert "applied" in next(rows_of(APPLIED, 100))[0]


# ------------------------------------------------------------ the text to edit


def test_an_unchanged_text_decides_nothing() -> None:
    changes = (change(), LEAVES, APPLIED)
    assert read(written(changes), changes).is_empty
    assert read("", changes).is_empty
    assert read("\n# nothing but comments\n\n", changes).is_empty


def test_a_word_before_a_number_decides() -> None:
    changes = (change(3), change(4), LEAVES, APPLIED)
    text = written(changes)
    for number, word in ((3, "approve"), (4, "decline"), (5, "approve"), (7, "undo")):
        text = text.replace(f"{KEEP} {number} ", f"{word} {number} ")
    todo = read(text, changes)
    assert todo.numbers == {"approve": (3, 5), "decline": (4,), "accept": (), "undo": (7,)}
    assert todo.texts == {}
    wish = read(text.replace(f"approve 3 {COFFEE}", "edit 3 Ada  prefers cocoa "), changes).decisions()
    assert (wish["approve"], wish["texts"][0].number, wish["texts"][0].text) == ((3, 5), 3, "Ada prefers cocoa")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("aprove 3 x", "'aprove' is no decision"),
        ("approve", "there is no number"),
        ("approve three", "there is no number"),
        ("approve 8 x", "there is no change 8"),
        (f"approve 3 {COFFEE}\ndecline 3 {COFFEE}", "line 2: change 3 stands there twice"),
        ("approve 3", "change 3 has no text"),
        ("accept 3 x", "cannot be 'accept'"),
        ("approve 7 x", "cannot be 'approve'"),
        ("approve 5 another text", "not to be edited"),
        (f"decline 3 {COFFEE}!", "not to be edited"),
    ],
)
def test_a_text_that_cannot_be_read_names_its_line(row: str, problem: str) -> None:
    with pytest.raises(UsageError, match=r"line \d+: .*" + re.escape(problem.removeprefix("line 2: "))):
        read(row, (change(), LEAVES, APPLIED))


@given(st.text(max_size=200))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    changes = (change(), LEAVES, APPLIED)
    try:
        todo = read(text, changes)
    except UsageError:
        return
    assert {number for numbers in todo.numbers.values() for number in numbers} <= {3, 5, 7}


# ------------------------------------------------------------ the command


@pytest.fixture
def waits(dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two changes of The Bond wait."""
    monkeypatch.setenv("DREAMD_DREAM__APPROVE", '{"sections": {"The Bond": "ask"}}')
    assert "2 changes wait for you: 'dreamd review'" in changed_by_a_model(dreamd, here)
    return here


@pytest.fixture
def applied(dreamd: Caller, here: Path) -> Path:
    """Two changes have applied: nobody is asked."""
    assert "for you" not in changed_by_a_model(dreamd, here)
    return here


def changed_by_a_model(dreamd: Caller, here: Path) -> str:
    """What the second of two dreams prints, whose model revises the lines of the first."""
    with revises({COFFEE: TEA, LONG: SHORT}):
        for notes in ((TEA, SHORT), (COFFEE, LONG)):
            for note in notes:
                assert dreamd("note", "-w", here, note).status == 0
            ended = dreamd("dream", here)
            assert ended.status == 0, ended.err
    return ended.out


def bond(here: Path) -> set[str]:
    text = (here / "MEMORY.md").read_text(encoding="utf-8")
    return {text_of for text_of in (TEA, COFFEE, SHORT, LONG) if text_of in text}


def numbers(dreamd: Caller, here: Path) -> list[int]:
    ended = dreamd("review", "-w", here, "--json")
    return [one["number"] for one in ended.json["changes"]] if ended.status == 0 else []


def test_what_waits_is_shown_and_decided_by_number(dreamd: Caller, waits: Path) -> None:
    shown = dreamd("review", "-w", waits).out
    assert "[-tea-]" in shown
    assert "{+three lines+}" in shown or "{+three+}" in shown
    assert "agent, " in shown
    assert "review       2 changes wait; 'dreamd review' shows them" in dreamd("status", waits).out
    assert dreamd("review", "-w", waits, "--approve").status == 2
    first, second = numbers(dreamd, waits)
    told = dreamd("review", "--approve", first, "-w", waits)
    assert told.out == f"change {first} is approved: version 3\n"
    assert dreamd("review", "-w", waits, "--decline", second).out == f"change {second} is declined\n"
    assert len(bond(waits)) == 2
    assert dreamd("review", "-w", waits).status == 3
    assert dreamd("review", "-w", waits, "--approve", first).status == 1


def test_a_decision_is_taken_back_by_number(dreamd: Caller, waits: Path) -> None:
    first, second = numbers(dreamd, waits)
    assert dreamd("review", "-w", waits, "--decline", "--all").status == 0
    assert dreamd("review", "-w", waits, "--reopen", second).out == f"change {second} is open again\n"
    assert numbers(dreamd, waits) == [second]
    assert dreamd("review", "-w", waits, "--reopen", first, "--json").json["changes"]["reopened"] == [first]
    assert dreamd("review", "-w", waits, "--reopen", first).status == 2
    assert dreamd("review", "-w", waits, "--reopen").status == 2
    assert dreamd("review", "-w", waits, "--reopen", "20260101").status == 2
    assert dreamd("review", "-w", waits, "--reopen", 99).status == 1


def test_a_whole_section_and_all_of_them_are_one_version(dreamd: Caller, waits: Path) -> None:
    assert dreamd("review", "-w", waits, "--approve", "--section", "Active Context").status == 3
    done = dreamd("review", "-w", waits, "--approve", "--section", "the bond", "--json").json["changes"]
    assert (done["version"], len(done["approved"])) == (3, 2)
    assert bond(waits) == {COFFEE, LONG}
    assert dreamd("restore", 2, "-w", waits).status == 0
    assert bond(waits) == {TEA, SHORT}
    assert dreamd("review", "-w", waits, "--approve", "--all").status == 0
    assert bond(waits) == {COFFEE, LONG}


def test_nothing_is_done_that_cannot_be(dreamd: Caller, waits: Path) -> None:
    before = (waits / "MEMORY.md").read_bytes()
    first, _ = numbers(dreamd, waits)
    assert dreamd("review", "-w", waits, "--undo", first).status == 2
    assert dreamd("review", "-w", waits, "--accept", "--all").status == 3
    assert dreamd("review", "-w", waits, "--approve", first, 99).status == 1
    assert (waits / "MEMORY.md").read_bytes() == before
    assert len(numbers(dreamd, waits)) == 2


def test_what_applied_is_shown_and_undone_or_accepted(dreamd: Caller, applied: Path) -> None:
    assert bond(applied) == {COFFEE, LONG}
    shown = dreamd("review", "-w", applied).out
    assert "[-tea-]" in shown
    assert "{+coffee+}" in shown
    assert "'dreamd review --undo 1 2'" in shown
    assert "dreamd review" not in dreamd("status", applied).out  # nobody has to look
    first, second = numbers(dreamd, applied)
    assert dreamd("review", "-w", applied, "--approve", first).status == 2
    assert dreamd("review", "-w", applied, "--undo", first).status == 0
    assert len(bond(applied) & {TEA, SHORT}) == len(bond(applied) & {COFFEE, LONG}) == 1
    assert dreamd("review", "-w", applied, "--accept", second).status == 0
    assert numbers(dreamd, applied) == []
    assert dreamd("review", "-w", applied, "--reopen", second).status == 0
    assert dreamd("review", "-w", applied, "--undo", "--all").status == 0
    assert bond(applied) == {TEA, SHORT}


# ------------------------------------------------------------ the editor, in a real process


def edited(here: Path, folder: Path, script: str) -> Ended:
    """`review --edit` with an editor that is this script; "$1" is the file."""
    editor = folder / "my editor"
    editor.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    editor.chmod(0o755)
    return process("review", "--edit", "-w", here, EDITOR=shlex.quote(str(editor)))


def kept(here: Path) -> list[Path]:
    return sorted(open_workspace(here).state.glob("review-*"))


def test_an_editor_decides_line_by_line_and_may_write_other_words(
    dreamd: Caller, waits: Path, tmp_path: Path
) -> None:
    cocoa = f"s/^skip \\([0-9]*\\) {COFFEE}/approve \\1 Ada prefers cocoa/"
    script = f"""sed -i '{cocoa}; s/^skip \\([0-9]*\\) Ada likes/decline \\1 Ada likes/' "$1" """
    ended = edited(waits, tmp_path, script)
    assert ended.status == 0, ended.err
    text = (waits / "MEMORY.md").read_text(encoding="utf-8")
    assert "Ada prefers cocoa" in text
    assert SHORT in text
    assert numbers(dreamd, waits) == []
    assert kept(waits) == []


@pytest.mark.parametrize("script", ["true", ': > "$1"', 'rm "$1"', "exit 3", "kill -9 $$"])
def test_an_editor_that_leaves_nothing_changes_nothing(
    dreamd: Caller, waits: Path, tmp_path: Path, script: str
) -> None:
    before = (waits / "MEMORY.md").read_bytes()
    ended = edited(waits, tmp_path, script)
    assert ended.status in {2, 3}
    assert "nothing has changed" in ended.err
    assert (waits / "MEMORY.md").read_bytes() == before
    assert len(numbers(dreamd, waits)) == 2
    assert kept(waits) == []


def test_a_text_that_cannot_be_read_changes_nothing_and_is_kept(dreamd: Caller, waits: Path, tmp_path: Path) -> None:
    ended = edited(waits, tmp_path, """sed -i 's/^skip \\([0-9]*\\) Ada/aprove \\1 Oh, Ada/' "$1" """)
    assert ended.status == 2
    assert "'aprove' is no decision" in ended.err
    assert len(numbers(dreamd, waits)) == 2
    (file,) = kept(waits)
    assert str(file) in ended.err
    assert file.read_text(encoding="utf-8").count("Oh, Ada") == 2
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(file.read_text(encoding="utf-8").replace("aprove", "approve"), encoding="utf-8")
    assert process("review", "--from", file, "-w", waits).status == 0
    assert (waits / "MEMORY.md").read_text(encoding="utf-8").count("Oh, Ada") == 2


def test_a_text_that_is_no_text_is_kept(dreamd: Caller, waits: Path, tmp_path: Path) -> None:
    ended = edited(waits, tmp_path, """printf 'approve \\377' > "$1" """)
    assert ended.status == 2
    assert len(kept(waits)) == 1
    assert len(numbers(dreamd, waits)) == 2


def test_no_editor_is_said_in_one_line(waits: Path) -> None:
    ended = process("review", "--edit", "-w", waits, EDITOR="/nonexistent/editor")
    assert ended.status == 2
    assert "set VISUAL or EDITOR" in ended.err
    assert kept(waits) == []
